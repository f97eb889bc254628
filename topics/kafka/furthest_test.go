package kafka

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// town is members of a group and where they stand. What an election gives them they do until
// the next: owners and those who stand by are at window `at` in their tasks then.
type town struct {
	tasks   int
	at      int64
	names   []string
	members map[string][]Standing
}

func newTown(tasks int) *town { return &town{tasks: tasks, members: make(map[string][]Standing)} }

// join adds a member without any state.
func (c *town) join(name string) {
	c.names = append(c.names, name)
	c.members[name] = make([]Standing, c.tasks)
}

// leave removes a member, with its state.
func (c *town) leave(name string) {
	c.names = slices.DeleteFunc(c.names, func(n string) bool { return n == name })
	delete(c.members, name)
}

// elect holds an election, gives the members what it says, and returns it by member. Who
// holds no state of a task any more stands at 0 in it. warm says whether those who stand by
// reach the owners before the next election.
func (c *town) elect(warm bool) map[string]part {
	var candidates []candidate
	for _, name := range c.names {
		candidates = append(candidates, candidate{name, c.members[name]})
	}
	parts := furthest(candidates, c.tasks, 8)
	given := make(map[string]part)
	for i, p := range parts {
		given[c.names[i]] = p
		standings := make([]Standing, c.tasks)
		for _, task := range p.owns {
			standings[task] = Standing{Owner: true, Progress: c.at}
		}
		if p.follows >= 0 {
			standings[p.follows].Progress = c.members[c.names[i]][p.follows].Progress
			if warm {
				standings[p.follows].Progress = c.at - 1
			}
		}
		c.members[c.names[i]] = standings
	}
	return given
}

// describe writes an election's outcome as in "a 0 1 <2": a owns the tasks 0 and 1 and stands
// by for 2; "<2!" if it is to relieve the owner of it.
func describe(names []string, given map[string]part) string {
	var words []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		p := given[name]
		words = append(words, name)
		for _, task := range p.owns {
			words = append(words, fmt.Sprint(task))
		}
		if p.follows >= 0 {
			words = append(words, "<"+fmt.Sprint(p.follows)+map[bool]string{true: "!"}[p.relieves])
		}
		words[len(words)-1] += ";"
	}
	return strings.TrimSuffix(strings.Join(words, " "), ";")
}

// TestFurthest tells what becomes of the five tasks of a graph with four shards while workers
// come and go.
func TestFurthest(t *testing.T) {
	c := newTown(5)
	for _, step := range []struct {
		what string
		do   func()
		warm bool
		want string
	}{
		{"the first worker has all tasks", func() { c.join("a"); c.at = 1000 }, true, "a 0 1 2 3 4"},
		{"a second one has no state, and stands by", func() { c.join("b") }, false, "a 0 1 2 3 4; b <0!"},
		{"it is still far behind", func() {}, true, "a 0 1 2 3 4; b <0!"},
		{"it has come close, and gets the task", func() {}, true, "a 1 2 3 4; b 0 <1!"},
		{"and another", func() {}, true, "a 2 3 4; b 0 1"},
		{"a third and a fourth join", func() { c.join("c"); c.join("d") }, true, "a 2 3 4; b 0 1; c <2!; d <3!"},
		{"one relieves the first, the other waits for a loss", func() {}, true, "a 3 4; b 0 1; c 2; d <3"},
		{"with a fifth nobody should have more than one", func() { c.join("e") }, true, "a 4; b 0 1; c 2; d 3; e <0!"},
		{"nobody has", func() {}, true, "a 4; b 1; c 2; d 3; e 0"},
		{"a sixth stands by for the first", func() { c.join("f") }, true, "a 4; b 1; c 2; d 3; e 0; f <0"},
		{"and goes on with its task when that is lost", func() { c.leave("e") }, true, "a 4; b 1; c 2; d 3; f 0"},
		{"when two are lost at once, their tasks are divided", func() { c.leave("a"); c.leave("b") }, true, "c 1 2; d 3 4; f 0"},
		{"one has them all in the end", func() { c.leave("c"); c.leave("d") }, true, "f 0 1 2 3 4"},
	} {
		step.do()
		if got := describe(c.names, c.elect(step.warm)); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
	}
}

// TestFurthestSettles: whoever joins, leaves and is lost, every task has one owner after every
// election, an owner keeps its tasks unless it has more than its share, and once those who
// stand by have had the time to come close, nobody has more than its share, nothing moves any
// more, and everybody has a task or stands by for one. The order of the members does not matter.
func TestFurthestSettles(t *testing.T) {
	for tasks := 1; tasks <= 9; tasks++ {
		for most := 1; most <= tasks+2; most++ {
			r := rand.New(rand.NewPCG(uint64(tasks), uint64(most)))
			c := newTown(tasks)
			for joined, round := 0, 0; round < 12; round++ {
				c.at += r.Int64N(100)
				if len(c.names) == 0 || len(c.names) < most && r.IntN(3) > 0 {
					c.join(fmt.Sprintf("m%02d", joined))
					joined++
				} else if len(c.names) > 1 {
					c.leave(c.names[r.IntN(len(c.names))])
				}
				before := ownersOf(c)
				share := (tasks + len(c.names) - 1) / len(c.names)
				given := c.elect(true)
				after := ownersOf(c)
				for task, owner := range after {
					if was := before[task]; owner != was && was != "" && len(given[was].owns) < share {
						t.Errorf("%d tasks: task %d moves from %s to %s, which leaves less than its share: %s", tasks, task, was, owner, describe(c.names, given))
					}
				}
				if len(after) != tasks {
					t.Fatalf("%d tasks: %d have an owner: %s", tasks, len(after), describe(c.names, given))
				}
				for range tasks {
					given = c.elect(true)
				}
				settled := describe(c.names, given)
				for name, p := range given {
					if len(p.owns) > share || len(p.owns) == 0 && p.follows < 0 || p.relieves {
						t.Errorf("%d tasks: member %s has the part %+v in the end: %s", tasks, name, p, settled)
					}
				}
				r.Shuffle(len(c.names), func(i, j int) { c.names[i], c.names[j] = c.names[j], c.names[i] })
				if again := describe(c.names, c.elect(true)); again != settled {
					t.Errorf("%d tasks: settled as %s, and in another order as %s", tasks, settled, again)
				}
			}
		}
	}
}

// ownersOf returns the owner of every task that has one.
func ownersOf(c *town) map[int]string {
	owners := make(map[int]string)
	for name, standings := range c.members {
		for task, s := range standings {
			if s.Owner {
				owners[task] = name
			}
		}
	}
	return owners
}
