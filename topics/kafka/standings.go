package kafka

import (
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

// ahead reports whether a task goes to the member that stands here rather than to the other: to
// its owner, of two that both believe to own it and of others to the one with more progress.
func (s Standing) ahead(other Standing) bool {
	if s.Owner != other.Owner {
		return s.Owner
	}
	return s.Progress > other.Progress
}

// divideOne divides one task among members. Ties go to the member that is first.
func divideOne(members [][]Standing) []Election {
	best, ahead := -1, Standing{}
	for i, standings := range members {
		var s Standing // that of a program that says nothing
		if len(standings) > 0 {
			s = standings[0]
		}
		if best < 0 || s.ahead(ahead) {
			best, ahead = i, s
		}
	}
	elections := make([]Election, len(members))
	elections[best].Tasks = []int{0}
	return elections
}

// balancer is the kafka-go GroupBalancer of an election.
type balancer struct{ cfg *MembershipConfig }

func (balancer) ProtocolName() string { return "progress" }

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
// gets the partition behind those of the tasks too. The members are in the order of their ids,
// so that the result does not depend on who computes it.
func (b balancer) AssignGroups(members []kafkago.GroupMember, _ []kafkago.Partition) kafkago.GroupMemberAssignments {
	members = slices.SortedFunc(slices.Values(members), func(a, b kafkago.GroupMember) int { return strings.Compare(a.ID, b.ID) })
	standings := make([][]Standing, len(members))
	for i, m := range members {
		standings[i], _ = readStandings(m.UserData, b.cfg.tasks())
	}
	divide := b.cfg.Divide
	if divide == nil {
		divide = divideOne
	}
	all := make(kafkago.GroupMemberAssignments)
	for i, e := range divide(standings) {
		given := map[string][]int{}
		if len(e.Tasks) > 0 {
			given[b.cfg.Topic] = e.Tasks
		}
		if len(e.Follows) > 0 && b.cfg.Followers != "" {
			given[b.cfg.Followers] = e.Follows
			if e.Relieves {
				given[b.cfg.Followers] = append(given[b.cfg.Followers], b.cfg.tasks())
			}
		}
		all[members[i].ID] = given
	}
	return all
}
