package shards

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// town is members of a group and where they stand. What an election gives them they do until
// the next: owners and those who stand by are at window `at` in their tasks then.
type town struct {
	tasks   int
	at      int64
	names   []string
	members map[string][]kafka.Standing
}

func newTown(tasks int) *town { return &town{tasks: tasks, members: make(map[string][]kafka.Standing)} }

// join adds a member without any state.
func (c *town) join(name string) {
	c.names = append(c.names, name)
	c.members[name] = make([]kafka.Standing, c.tasks)
}

// leave removes a member, with its state.
func (c *town) leave(name string) {
	c.names = slices.DeleteFunc(c.names, func(n string) bool { return n == name })
	delete(c.members, name)
}

// elect holds an election, gives the members what it says, and returns it by member. Who
// holds no state of a task any more stands at 0 in it. warm says whether those who stand by
// reach the owners before the next election.
func (c *town) elect(warm bool) map[string]kafka.Election {
	slices.Sort(c.names)
	var members [][]kafka.Standing
	for _, name := range c.names {
		members = append(members, c.members[name])
	}
	parts := balance(members, c.tasks, 8)
	given := make(map[string]kafka.Election)
	for i, p := range parts {
		given[c.names[i]] = p
		standings := make([]kafka.Standing, c.tasks)
		for _, task := range p.Tasks {
			standings[task] = kafka.Standing{Owner: true, Progress: c.at}
		}
		for _, task := range p.Follows {
			standings[task].Progress = c.members[c.names[i]][task].Progress
			if warm {
				standings[task].Progress = c.at - 1
			}
		}
		c.members[c.names[i]] = standings
	}
	return given
}

// describe writes an election's outcome as in "a 0 1 <2": a owns the tasks 0 and 1 and stands
// by for 2; "<2!" if it is to relieve the owner of it.
func describe(names []string, given map[string]kafka.Election) string {
	var words []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		p := given[name]
		words = append(words, name)
		for _, task := range p.Tasks {
			words = append(words, fmt.Sprint(task))
		}
		for _, task := range p.Follows {
			words = append(words, "<"+fmt.Sprint(task)+map[bool]string{true: "!"}[p.Relieves])
		}
		words[len(words)-1] += ";"
	}
	return strings.TrimSuffix(strings.Join(words, " "), ";")
}

// TestBalancer tells what becomes of the five tasks of a graph with four shards while workers
// come and go.
func TestBalancer(t *testing.T) {
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

// TestBalancerSettles: whoever joins, leaves and is lost, every task has one owner after every
// election, an owner keeps its tasks unless it has more than its share, and once those who
// stand by have had the time to come close, nobody has more than its share, nothing moves any
// more, and everybody has a task or stands by for one.
func TestBalancerSettles(t *testing.T) {
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
					if was := before[task]; owner != was && was != "" && len(given[was].Tasks) < share {
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
					if len(p.Tasks) > share || len(p.Tasks) == 0 && len(p.Follows) == 0 || p.Relieves {
						t.Errorf("%d tasks: member %s has the part %+v in the end: %s", tasks, name, p, settled)
					}
				}
				if again := describe(c.names, c.elect(true)); again != settled {
					t.Errorf("%d tasks: settled as %s, and then as %s", tasks, settled, again)
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

// TestRejoin: over a topic of three partitions, a member that joins stands by for a task of the
// one that has them all. Once it has come close and asks for an election, the task is its own.
func TestRejoin(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: k.Addrs, Dialer: k.Dial})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		var close atomic.Bool
		join := func(standings func() []kafka.Standing) *kafka.Membership {
			m, err := c.Join(kafka.MembershipConfig{
				Group: "ledger", Topic: "ledger", Tasks: 3, Followers: "exchange", Session: time.Second, Standings: standings,
				Divide: func(members [][]kafka.Standing) []kafka.Election { return balance(members, 3, 8) },
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(m.Leave)
			return m
		}
		first := join(func() []kafka.Standing { return slices.Repeat([]kafka.Standing{{Owner: true, Progress: 100}}, 3) })
		if e := <-first.Elected(); len(e.Tasks) != 3 || len(e.Follows) > 0 {
			t.Fatalf("the only member has the part %+v", e)
		}
		second := join(func() []kafka.Standing {
			return []kafka.Standing{{Progress: map[bool]int64{true: 99}[close.Load()]}, {}, {}}
		})
		if e := <-second.Elected(); len(e.Tasks) > 0 || len(e.Follows) != 1 || e.Follows[0] != 0 || !e.Relieves {
			t.Fatalf("a member without state has the part %+v", e)
		}
		if e := <-first.Elected(); len(e.Tasks) != 3 || e.Err != nil {
			t.Fatalf("the owner of all has the part %+v then", e)
		}
		close.Store(true)
		second.Rejoin()
		if e := <-second.Elected(); !e.Owns(0) || len(e.Tasks) != 1 {
			t.Fatalf("a member that has come close has the part %+v", e)
		}
		if e := <-first.Elected(); e.Owns(0) || len(e.Tasks) != 2 {
			t.Fatalf("the former owner has the part %+v", e)
		}
	}, kfake.NumBrokers(1), kfake.SeedTopics(3, "ledger"), kfake.SeedTopics(4, "exchange"), kfake.GroupMinSessionTimeout(time.Second))
}
