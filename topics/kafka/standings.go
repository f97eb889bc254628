package kafka

import (
	"encoding/binary"
	"slices"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
)

// Standing is where a member of an election stands.
type Standing struct {
	Owner    bool
	Progress int64 // how far its state is, 0 for none
}

// ahead reports whether the member that stands here is elected rather than the other: the owner,
// of two that both believe to be it and of others the one with more progress.
func (s Standing) ahead(other Standing) bool {
	if s.Owner != other.Owner {
		return s.Owner
	}
	return s.Progress > other.Progress
}

// balancer is the kafka-go GroupBalancer of an election.
type balancer struct{ cfg *MembershipConfig }

func (balancer) ProtocolName() string { return "progress" }

// standingBytes is the length of a standing in a member's user data: a byte for the owner, and
// its progress. What the member says of itself follows.
const standingBytes = 1 + 8

func (b balancer) UserData() ([]byte, error) {
	s, owner := b.cfg.Standing(), byte(0)
	if s.Owner {
		owner = 1
	}
	return append(binary.BigEndian.AppendUint64([]byte{owner}, uint64(s.Progress)), b.cfg.About...), nil
}

// readStanding reads a member's user data. A program that says nothing has no progress.
func readStanding(data []byte) (s Standing, about string) {
	if len(data) > 0 && data[0] == inCells {
		_, _, about = readStandings(data)
		return s, about
	}
	if len(data) < standingBytes {
		return s, ""
	}
	return Standing{Owner: data[0] == 1, Progress: int64(binary.BigEndian.Uint64(data[1:]))}, string(data[standingBytes:])
}

// balancer returns how the group elects.
func (cfg *MembershipConfig) balancer() kafkago.GroupBalancer {
	if cfg.Cells != nil {
		return sharing{cfg}
	}
	return balancer{cfg}
}

// AssignGroups assigns the topic's partition to the member that is ahead. Among equals it is the
// first by id, so that the result does not depend on who computes it.
func (b balancer) AssignGroups(members []kafkago.GroupMember, _ []kafkago.Partition) kafkago.GroupMemberAssignments {
	members = slices.SortedFunc(slices.Values(members), func(a, b kafkago.GroupMember) int { return strings.Compare(a.ID, b.ID) })
	all := make(kafkago.GroupMemberAssignments)
	best, ahead := "", Standing{}
	for i, m := range members {
		s, _ := readStanding(m.UserData)
		if i == 0 || s.ahead(ahead) {
			best, ahead = m.ID, s
		}
		all[m.ID] = map[string][]int{}
	}
	all[best][b.cfg.Topic] = []int{0}
	return all
}
