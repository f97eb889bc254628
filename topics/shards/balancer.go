package shards

import (
	"cmp"
	"slices"

	"github.com/gvbll/gvbll/topics/kafka"
)

// balance divides the tasks 0 to tasks-1 among members, of which it has the standings in each
// task. A task stays with its owner, because a change of owners costs time. A free one goes to
// the member with the most progress in it, which has the least to replay, and among equals to
// the one with the fewest tasks.
//
// An owner of more than its share, tasks/n rounded up, gives tasks to members with less than
// that, but only one in which such a member is at most depth behind. To come this close,
// the member stands by for it. So does a member without a task for one of any owner, the most
// loaded first: it is the next owner if that is lost. All ties go to the member that is first.
func balance(members [][]kafka.Standing, tasks int, depth int64) []kafka.Election {
	b := &balancer{members: members, parts: make([]kafka.Election, len(members)), owner: make([]int, tasks), share: (tasks + len(members) - 1) / len(members)}
	b.keep()
	b.fill()
	b.relieve(depth)
	b.standBy()
	for task, m := range b.owner {
		b.parts[m].Tasks = append(b.parts[m].Tasks, task)
	}
	return b.parts
}

// balancer is an election that is being computed. Members are numbers.
type balancer struct {
	members [][]kafka.Standing
	parts   []kafka.Election // by member
	owner   []int            // of each task, -1 for none
	share   int              // no member should have more tasks
}

func (b *balancer) standing(member, task int) kafka.Standing {
	if s := b.members[member]; task < len(s) {
		return s[task]
	}
	return kafka.Standing{} // of a program that knows of fewer tasks
}

func (b *balancer) load(member int) (n int) {
	for _, m := range b.owner {
		if m == member {
			n++
		}
	}
	return n
}

// best returns the member with the most progress in a task among those that may have it, and
// among equals the one with the fewest tasks; -1 if none may.
func (b *balancer) best(task int, may func(member int) bool) int {
	best := -1
	for m := range b.members {
		if may(m) && (best < 0 || cmp.Or(cmp.Compare(b.standing(m, task).Progress, b.standing(best, task).Progress), cmp.Compare(b.load(best), b.load(m))) > 0) {
			best = m
		}
	}
	return best
}

// keep leaves the tasks to their owners. Of two that both believe to own one, the one that is
// ahead is right.
func (b *balancer) keep() {
	for task := range b.owner {
		b.owner[task] = -1
		b.owner[task] = b.best(task, func(m int) bool { return b.standing(m, task).Owner })
	}
}

// fill gives the free tasks away.
func (b *balancer) fill() {
	for task, m := range b.owner {
		if m < 0 {
			b.owner[task] = b.best(task, func(int) bool { return true })
		}
	}
}

// relieve moves tasks of members with more than their share to those that are ready for them.
func (b *balancer) relieve(depth int64) {
	for moved := true; moved; {
		moved = false
		for task, from := range b.owner {
			if b.load(from) <= b.share {
				continue
			}
			ahead := b.standing(from, task).Progress
			to := b.best(task, func(m int) bool { return b.load(m) < b.share && ahead-b.standing(m, task).Progress <= depth })
			if to >= 0 {
				b.owner[task], moved = to, true
			}
		}
	}
}

// standBy gives every member without a task, and those that are to relieve another, a task to
// stand by for.
func (b *balancer) standBy() {
	followers := make([]int, len(b.owner))
	for m := range b.members {
		load, follows := b.load(m), -1
		better := func(task int) int { // above 0 if it is the better one to stand by for
			return cmp.Or(
				cmp.Compare(followers[follows], followers[task]),
				cmp.Compare(b.standing(m, task).Progress, b.standing(m, follows).Progress),
				cmp.Compare(b.load(b.owner[task]), b.load(b.owner[follows])),
			)
		}
		relieves := load < b.share && slices.ContainsFunc(b.owner, func(o int) bool { return b.load(o) > b.share })
		if !relieves && load > 0 {
			continue
		}
		for task, o := range b.owner {
			if relieves && b.load(o) <= b.share {
				continue
			}
			if follows < 0 || better(task) > 0 {
				follows = task
			}
		}
		followers[follows]++
		b.parts[m].Follows, b.parts[m].Relieves = []int{follows}, relieves
	}
}
