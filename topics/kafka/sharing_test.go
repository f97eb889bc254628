package kafka

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

// sharer is a member of a group of cells, as the test keeps its state.
type sharer struct {
	id    string
	even  bool
	owned map[int32]bool // whether it owns a cell that it has
	slow  bool           // it is not ready for what it stands by for
}

// assign has the members of a group share out cells, and gives each its part.
func assign(t *testing.T, cells int, members ...*sharer) {
	t.Helper()
	var group []kafkago.GroupMember
	for _, m := range members {
		cfg := MembershipConfig{Topic: "ledger", About: m.id, Cells: func() (list []CellStanding) {
			for number, owner := range m.owned {
				list = append(list, CellStanding{Cell: number, Owner: owner, Ready: owner || !m.slow, Progress: 7})
			}
			return list
		}}
		m2 := Membership{}
		m2.even.Store(m.even)
		cfg.even = &m2.even
		data, err := cfg.balancer().UserData()
		if err != nil {
			t.Fatal(err)
		}
		if _, about := readStanding(data); about != m.id {
			t.Errorf("member %s says %q of itself", m.id, about)
		}
		group = append(group, kafkago.GroupMember{ID: m.id, UserData: data})
	}
	rand.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
	var parts []kafkago.Partition
	for p := range cells {
		parts = append(parts, kafkago.Partition{Topic: "ledger", ID: p})
	}
	all := sharing{&MembershipConfig{Topic: "ledger"}}.AssignGroups(group, parts)
	owners, standbys := make([]string, cells), make([]string, cells)
	for _, m := range members {
		owns, follows := divideAssigned(all[m.id]["ledger"])
		m.owned, m.even = make(map[int32]bool), false
		for _, p := range owns {
			if owners[p] != "" {
				t.Errorf("cell %d is owned by %s and %s", p, owners[p], m.id)
			}
			owners[p], m.owned[p] = m.id, true
		}
		for _, p := range follows {
			if standbys[p] != "" || m.owned[p] {
				t.Errorf("cell %d has standbys %s and %s, and owner %s", p, standbys[p], m.id, owners[p])
			}
			standbys[p], m.owned[p] = m.id, false
		}
	}
	for p := range cells {
		if owners[p] == "" || len(members) > 1 && standbys[p] == "" {
			t.Errorf("cell %d has owner %q and standby %q", p, owners[p], standbys[p])
		}
	}
}

func (m *sharer) owns() (list []int32) {
	for number, owner := range m.owned {
		if owner {
			list = append(list, number)
		}
	}
	slices.Sort(list)
	return list
}

// TestSharing: the first member has all cells. Those that join stand by, and nothing moves until one that is ready asks for even
// shares. What a member owned that goes is owned by those that stood by for it; nothing else moves.
func TestSharing(t *testing.T) {
	a, b, c := &sharer{id: "a"}, &sharer{id: "b", slow: true}, &sharer{id: "c"}
	sizes := func(want ...int) {
		t.Helper()
		if got := []int{len(a.owns()), len(b.owns()), len(c.owns())}; !slices.Equal(got, want) {
			t.Errorf("the members own %v cells, want %v", got, want)
		}
	}
	assign(t, 12, a)
	assign(t, 12, a, b, c)
	assign(t, 12, a, b, c)
	sizes(12, 0, 0)
	b.even = true
	assign(t, 12, a, b, c)
	sizes(6, 0, 6) // b is not ready
	b.slow, b.even = false, true
	assign(t, 12, a, b, c)
	b.even = true
	assign(t, 12, a, b, c)
	sizes(4, 4, 4)
	kept := append(b.owns(), c.owns()...)
	stood := 0
	for _, p := range a.owns() {
		if _, stands := b.owned[p]; stands {
			stood++
		}
	}
	assign(t, 12, b, c) // a goes
	for _, p := range kept {
		if !b.owned[p] && !c.owned[p] {
			t.Errorf("cell %d has moved, whose owner is there", p)
		}
	}
	if got := len(b.owns()); got != 4+stood {
		t.Errorf("b owns %d cells, want its own 4 and the %d for which it stood by", got, stood)
	}
	a.owned = nil // it comes back
	before := fmt.Sprint(b.owns(), c.owns())
	assign(t, 12, a, b, c)
	if after := fmt.Sprint(b.owns(), c.owns()); after != before {
		t.Errorf("a member that comes back moves cells from %s to %s", before, after)
	}
	a.even = true
	assign(t, 12, a, b, c)
	sizes(4, 4, 4)
}

// TestSharingSettles: with any number of cells and members that come and go, shares end even, within as many elections as there
// are members and a few.
func TestSharingSettles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		cells := 1 + rng.IntN(50)
		var members []*sharer
		for i := range 1 + rng.IntN(6) {
			members = append(members, &sharer{id: fmt.Sprint(i), slow: rng.IntN(2) == 0})
			assign(t, cells, members...)
		}
		for range len(members) + 4 {
			for _, m := range members {
				m.slow, m.even = false, true
			}
			assign(t, cells, members...)
		}
		for _, m := range members {
			if n := len(m.owns()); n < cells/len(members) || n > cells/len(members)+1 {
				t.Fatalf("of %d cells and %d members, one owns %d", cells, len(members), n)
			}
		}
	}
}

// FuzzSharing: whatever members say, each cell has one owner.
func FuzzSharing(f *testing.F) {
	f.Add([]byte{2, 1, 0, 0, 0, 1, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 9, 'x'}, []byte{0})
	f.Add([]byte{2, 1, 0xff, 0xff, 0xff, 0xff}, []byte{})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		all := sharing{&MembershipConfig{Topic: "ledger"}}.AssignGroups(
			[]kafkago.GroupMember{{ID: "a", UserData: a}, {ID: "b", UserData: b}},
			[]kafkago.Partition{{Topic: "ledger", ID: 0}, {Topic: "ledger", ID: 1}, {Topic: "ledger", ID: 2}})
		owned := 0
		for _, of := range all {
			owns, _ := divideAssigned(of["ledger"])
			owned += len(owns)
		}
		if owned != 3 {
			t.Errorf("%d of 3 cells have owners", owned)
		}
	})
}
