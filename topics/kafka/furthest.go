package kafka

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
)

// Standing is where a member stands in one task.
type Standing struct {
	Owner    bool
	Progress int64 // how far its state of the task is, 0 for none
}

// candidate is a member of an election as the balancer sees it.
type candidate struct {
	id        string
	standings []Standing // by task
}

// part is what an election gives to a member.
type part struct {
	owns     []int
	follows  int  // the task that it stands by for, -1 for none
	relieves bool // that task is to become its own: its owner has more than its share
}

// furthest assigns the tasks 0 to tasks-1. A task stays with its owner, because a change of
// owners costs time. A free one goes to the member with the most progress in it, which has
// the least to replay, and among equals to the one with the fewest tasks.
//
// An owner of more than its share, tasks/n rounded up, gives tasks to members with less than
// that, but only one in which such a member is at most depth behind. To come this close,
// the member stands by for it. So does a member without a task for one of any owner, the most
// loaded first: it is the next owner if that is lost. All ties are broken by the ids of the
// members, so that the result does not depend on who computes it.
func furthest(members []candidate, tasks int, depth int64) []part {
	e := &election{members: members, parts: make([]part, len(members)), owner: make([]int, tasks), share: (tasks + len(members) - 1) / len(members)}
	for i := range members {
		e.parts[i].follows = -1
		e.byID = append(e.byID, i)
	}
	slices.SortFunc(e.byID, func(a, b int) int { return strings.Compare(members[a].id, members[b].id) })
	e.keep()
	e.fill()
	e.relieve(depth)
	e.standBy()
	for task, m := range e.owner {
		e.parts[m].owns = append(e.parts[m].owns, task)
	}
	return e.parts
}

// election is an election that is being computed. Members are numbers.
type election struct {
	members []candidate
	parts   []part
	byID    []int // the members, in the order of their ids
	owner   []int // of each task, -1 for none
	share   int   // no member should have more tasks
}

func (e *election) standing(member, task int) Standing {
	if s := e.members[member].standings; task < len(s) {
		return s[task]
	}
	return Standing{} // of a program that knows of fewer tasks
}

func (e *election) load(member int) (n int) {
	for _, m := range e.owner {
		if m == member {
			n++
		}
	}
	return n
}

// best returns the member with the most progress in a task among those that may have it, and
// among equals the one with the fewest tasks; -1 if none may.
func (e *election) best(task int, may func(member int) bool) int {
	best := -1
	for _, m := range e.byID {
		if may(m) && (best < 0 || cmp.Or(cmp.Compare(e.standing(m, task).Progress, e.standing(best, task).Progress), cmp.Compare(e.load(best), e.load(m))) > 0) {
			best = m
		}
	}
	return best
}

// keep leaves the tasks to their owners. Of two that both believe to own one, the one that is
// ahead is right.
func (e *election) keep() {
	for task := range e.owner {
		e.owner[task] = -1
		e.owner[task] = e.best(task, func(m int) bool { return e.standing(m, task).Owner })
	}
}

// fill gives the free tasks away.
func (e *election) fill() {
	for task, m := range e.owner {
		if m < 0 {
			e.owner[task] = e.best(task, func(int) bool { return true })
		}
	}
}

// relieve moves tasks of members with more than their share to those that are ready for them.
func (e *election) relieve(depth int64) {
	for moved := true; moved; {
		moved = false
		for task, from := range e.owner {
			if e.load(from) <= e.share {
				continue
			}
			ahead := e.standing(from, task).Progress
			to := e.best(task, func(m int) bool { return e.load(m) < e.share && ahead-e.standing(m, task).Progress <= depth })
			if to >= 0 {
				e.owner[task], moved = to, true
			}
		}
	}
}

// standBy gives every member without a task, and those that are to relieve another, a task to
// stand by for.
func (e *election) standBy() {
	followers := make([]int, len(e.owner))
	for _, m := range e.byID {
		load, follows := e.load(m), -1
		better := func(task int) int { // above 0 if it is the better one to stand by for
			return cmp.Or(
				cmp.Compare(followers[follows], followers[task]),
				cmp.Compare(e.standing(m, task).Progress, e.standing(m, follows).Progress),
				cmp.Compare(e.load(e.owner[task]), e.load(e.owner[follows])),
			)
		}
		relieves := load < e.share && slices.ContainsFunc(e.owner, func(o int) bool { return e.load(o) > e.share })
		if !relieves && load > 0 {
			continue
		}
		for task, o := range e.owner {
			if relieves && e.load(o) <= e.share {
				continue
			}
			if follows < 0 || better(task) > 0 {
				follows = task
			}
		}
		followers[follows]++
		e.parts[m].follows, e.parts[m].relieves = follows, relieves
	}
}

// balancer is the kafka-go GroupBalancer of an election.
type balancer struct{ cfg *MembershipConfig }

func (balancer) ProtocolName() string { return "furthest" }

// standingBytes is the length of a standing in a member's user data: a byte for the owner, and
// its progress. The data are the standings in all tasks and what the member says of itself.
const standingBytes = 1 + 8

func (b balancer) UserData() ([]byte, error) {
	var data []byte
	for _, s := range b.cfg.Standings() {
		owner := byte(0)
		if s.Owner {
			owner = 1
		}
		data = binary.BigEndian.AppendUint64(append(data, owner), uint64(s.Progress))
	}
	return append(data, b.cfg.About...), nil
}

// readStandings reads a member's user data.
func readStandings(data []byte, tasks int) (standings []Standing, about string) {
	for range tasks {
		if len(data) < standingBytes {
			return standings, ""
		}
		standings = append(standings, Standing{Owner: data[0] == 1, Progress: int64(binary.BigEndian.Uint64(data[1:]))})
		data = data[standingBytes:]
	}
	return standings, string(data)
}

// AssignGroups assigns the tasks as partitions of the topic, and to a member that stands by
// for a task that partition of the followers' topic. If the member is to relieve its owner, it
// gets the partition behind those of the tasks too.
func (b balancer) AssignGroups(members []kafkago.GroupMember, _ []kafkago.Partition) kafkago.GroupMemberAssignments {
	candidates := make([]candidate, len(members))
	for i, m := range members {
		candidates[i].id = m.ID
		candidates[i].standings, _ = readStandings(m.UserData, b.cfg.tasks())
	}
	all := make(kafkago.GroupMemberAssignments)
	for i, p := range furthest(candidates, b.cfg.tasks(), b.cfg.Depth) {
		given := map[string][]int{}
		if len(p.owns) > 0 {
			given[b.cfg.Topic] = p.owns
		}
		if p.follows >= 0 && b.cfg.Followers != "" {
			given[b.cfg.Followers] = []int{p.follows}
			if p.relieves {
				given[b.cfg.Followers] = append(given[b.cfg.Followers], b.cfg.tasks())
			}
		}
		all[members[i].ID] = given
	}
	return all
}
