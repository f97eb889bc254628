package kafka

import (
	"slices"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

// TestElectInOrderOfIDs: whatever the order in which a broker names the members, the same one
// is elected, for any of them may compute it.
func TestElectInOrderOfIDs(t *testing.T) {
	member := func(id string, s Standing) kafkago.GroupMember {
		data, err := balancer{&MembershipConfig{Standing: func() Standing { return s }, About: id}}.UserData()
		if err != nil {
			t.Fatal(err)
		}
		return kafkago.GroupMember{ID: id, UserData: data}
	}
	for _, c := range []struct {
		name    string
		members []kafkago.GroupMember
		want    string
	}{
		{"the owner", []kafkago.GroupMember{member("a", Standing{Progress: 9}), member("b", Standing{true, 3}), member("c", Standing{})}, "b"},
		{"the owner that is ahead", []kafkago.GroupMember{member("a", Standing{true, 3}), member("b", Standing{true, 4}), member("c", Standing{})}, "b"},
		{"the one with the most progress", []kafkago.GroupMember{member("a", Standing{}), member("b", Standing{Progress: 2}), member("c", Standing{Progress: 3})}, "c"},
		{"the first of equals", []kafkago.GroupMember{member("a", Standing{}), member("b", Standing{}), member("c", Standing{})}, "a"},
		{"one of those that say something", []kafkago.GroupMember{{ID: "a"}, member("b", Standing{Progress: 1}), {ID: "c"}}, "b"},
	} {
		for range len(c.members) {
			c.members = append(c.members[1:], c.members[0])
			for range 2 {
				slices.Reverse(c.members)
				for id, given := range (balancer{&MembershipConfig{Topic: "ledger"}}).AssignGroups(c.members, nil) {
					if (len(given["ledger"]) > 0) != (id == c.want) {
						t.Errorf("%s: member %s gets %v, want the partition for %s", c.name, id, given, c.want)
					}
				}
			}
		}
	}
}
