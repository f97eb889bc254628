package kafka

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	kafkago "github.com/segmentio/kafka-go"
)

// sharer is a member of a group of cells, as the test keeps its state.
type sharer struct {
	id         string
	even       bool
	noStandbys bool           // it wants no standbys
	owned      map[int32]bool // whether it owns a cell that it has
	asked      bool           // it is to ask for even shares
	slow       bool           // it is not ready for what it stands by for
	costs      []float64      // of cells, as the member says; nil if it says nothing of them, as those of earlier versions
}

// assign has the members of a group share out cells, and gives each its part.
func assign(t *testing.T, cells int, members ...*sharer) {
	t.Helper()
	var group []kafkago.GroupMember
	for _, m := range members {
		cfg := MembershipConfig{Topic: "ledger", About: m.id, NoStandbys: m.noStandbys, Cells: func() (list []CellStanding) {
			for number, owner := range m.owned {
				s := CellStanding{Cell: number, Owner: owner, Ready: owner || !m.slow, Progress: 7}
				if m.costs != nil {
					s.Cost = m.costs[number]
				}
				list = append(list, s)
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
		owns, follows, uneven := divideAssigned(all[m.id]["ledger"])
		m.owned, m.even, m.asked = make(map[int32]bool), false, uneven
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
	some := slices.ContainsFunc(members, func(m *sharer) bool { return !m.noStandbys })
	for p := range cells {
		if owners[p] == "" || len(members) > 1 && some && standbys[p] == "" {
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
// shares, for which one that owns the least is to ask. What a member owned that goes is owned by those that stood by for it; nothing else moves.
func TestSharing(t *testing.T) {
	a, b, c := &sharer{id: "a"}, &sharer{id: "b", slow: true}, &sharer{id: "c"}
	sizes := func(want ...int) {
		t.Helper()
		if got := []int{len(a.owns()), len(b.owns()), len(c.owns())}; !slices.Equal(got, want) {
			t.Errorf("the members own %v cells, want %v", got, want)
		}
	}
	asks := func(want *sharer) {
		t.Helper()
		for _, m := range []*sharer{a, b, c} {
			if m.asked != (m == want) {
				t.Errorf("whether member %s, which owns %d cells, is to ask for even shares: %v", m.id, len(m.owns()), m.asked)
			}
		}
	}
	assign(t, 12, a)
	assign(t, 12, a, b, c)
	assign(t, 12, a, b, c)
	sizes(12, 0, 0)
	asks(b)
	b.even = true
	assign(t, 12, a, b, c)
	sizes(6, 0, 6) // b is not ready
	b.slow, b.even = false, true
	assign(t, 12, a, b, c)
	b.even = true
	assign(t, 12, a, b, c)
	sizes(4, 4, 4)
	asks(nil)
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

// follows returns how many cells the member stands by for.
func (m *sharer) follows() int { return len(m.owned) - len(m.owns()) }

// TestSharingWithoutStandbys: where no member wants standbys, a cell has one only while it is about to move, in any election until then.
// One that goes leaves its cells to the others. A member that wants standbys is enough for all cells to have one.
func TestSharingWithoutStandbys(t *testing.T) {
	a, b := &sharer{id: "a", noStandbys: true}, &sharer{id: "b", noStandbys: true, slow: true}
	check := func(what string, owns, follows int) {
		t.Helper()
		if len(b.owns()) != owns || b.follows() != follows || a.follows() != 0 {
			t.Errorf("%s: b owns %d cells and stands by for %d, a stands by for %d; want %d, %d, 0", what, len(b.owns()), b.follows(),
				a.follows(), owns, follows)
		}
	}
	assign(t, 12, a)
	for _, what := range []string{"it comes", "another election"} {
		assign(t, 12, a, b)
		check(what, 0, 6)
	}
	b.slow, b.even = false, true
	assign(t, 12, a, b)
	check("it is ready, and asks", 6, 0)
	assign(t, 12, a, b)
	check("shares are even", 6, 0)
	assign(t, 12, b)
	check("the other goes", 12, 0)
	a.owned, a.noStandbys = nil, false
	assign(t, 12, a, b)
	if b.follows() != 0 || a.follows() != 12 {
		t.Errorf("a wants standbys, and stands by for %d cells, b for %d", a.follows(), b.follows())
	}
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

// weighs returns the weight of what the member owns, as a group sees it that was told these costs.
func (m *sharer) weighs(costs []float64) (sum int64) {
	for _, number := range m.owns() {
		sum += weightOf(coarse(costs[number]))
	}
	return sum
}

// settle has members that are ready share out cells as fleets do: one asks for even shares when it is to. It returns after how many
// elections none was to ask.
func settle(t *testing.T, cells int, members ...*sharer) int {
	t.Helper()
	for n := range 2 * (len(members) + 4) {
		assign(t, cells, members...)
		i := slices.IndexFunc(members, func(m *sharer) bool { return m.asked })
		if i < 0 {
			return n
		}
		members[i].even = true
	}
	t.Fatalf("%d members share out %d cells, and still call it uneven", len(members), cells)
	return 0
}

// TestSharingByCost: shares are even by what cells cost, and a member that says nothing of that counts each of its cells as an
// idle one.
func TestSharingByCost(t *testing.T) {
	for name, test := range map[string]struct {
		costs []float64
		want  [][]int32 // of the members, those with fewer cells first
	}{
		"nothing is said":              {nil, [][]int32{{0, 1}, {2, 3}}},
		"one busy cell of six":         {[]float64{1, 1, 1000, 1, 1, 1}, [][]int32{{2}, {0, 1, 3, 4, 5}}},
		"one as large as three others": {[]float64{16, 16, 16, 48}, [][]int32{{3}, {0, 1, 2}}},
		"within the rounding":          {[]float64{100, 101, 99, 103}, [][]int32{{0, 1}, {2, 3}}},
		"more than the largest weight": {[]float64{1e12, 1e13, math.Inf(1), math.NaN()}, [][]int32{{0, 3}, {1, 2}}},
	} {
		cells := max(len(test.costs), 4)
		a, b := &sharer{id: "a", costs: test.costs}, &sharer{id: "b", costs: test.costs}
		assign(t, cells, a)
		settle(t, cells, a, b)
		got := [][]int32{a.owns(), b.owns()}
		slices.SortFunc(got, func(x, y []int32) int { return cmp.Or(len(x)-len(y), slices.Compare(x, y)) })
		if diff := gocmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: the members' cells, want -, got +:\n%s", name, diff)
		}
	}
	costs := []float64{2.5, 2, 2} // what a move gains may be rounding
	a := &sharer{id: "a", costs: costs, even: true, owned: map[int32]bool{0: true, 1: true, 2: false}}
	b := &sharer{id: "b", costs: costs, owned: map[int32]bool{0: false, 1: false, 2: true}}
	if assign(t, 3, a, b); len(a.owns()) != 2 {
		t.Errorf("members own %v and %v, and the first had two", a.owns(), b.owns())
	}
}

// TestSharingByAnyCost: whatever cells cost, and whichever members are of earlier versions, shares settle at no more than the mean and
// the heaviest cell, or than what is not called uneven. Then nothing moves, however often one asks for even shares, and
// a cell whose cost goes back and forth by less than its rounding moves once at most.
func TestSharingByAnyCost(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		cells := 1 + rng.IntN(60)
		costs := make([]float64, cells)
		for i := range costs {
			costs[i] = math.Exp(3 * rng.ExpFloat64())
		}
		var members []*sharer
		for i := range 1 + rng.IntN(6) {
			members = append(members, &sharer{id: fmt.Sprint(i), costs: costs})
			assign(t, cells, members...)
		}
		had := func() string {
			all := ""
			for _, m := range members {
				all += fmt.Sprintln(m.id, m.owned)
			}
			return all
		}
		evenly := func() {
			t.Helper()
			settle(t, cells, members...)
			var total, cell, most int64
			for _, c := range costs {
				w := weightOf(coarse(c))
				total, cell = total+w, max(cell, w)
			}
			for _, m := range members {
				most = max(most, m.weighs(costs))
			}
			if mean := total / int64(len(members)); most > mean+max(cell, mean/slack) {
				t.Fatalf("a share is %d, with a mean of %d and a heaviest cell of %d:\n%s", most, mean, cell, had())
			}
		}
		evenly()
		for range len(members) + 4 {
			members[0].even = true
			assign(t, cells, members...)
		}
		before := had()
		members[0].even = true
		if assign(t, cells, members...); had() != before {
			t.Fatalf("cells move though nothing has changed, from\n%sto\n%s", before, had())
		}

		flickers, moves, owner := rng.IntN(cells), 0, -1
		for i := range 12 {
			costs[flickers] = math.Exp2(4 + (.5+.2*float64(i%2*2-1))/costSteps)
			members[0].even = true
			assign(t, cells, members...)
			if by := slices.IndexFunc(members, func(m *sharer) bool { return m.owned[int32(flickers)] }); i > 2 && by != owner {
				moves, owner = moves+1, by
			}
		}
		if moves > 2 {
			t.Errorf("a cell whose cost is nearly the same has moved %d times", moves-1)
		}

		costs[flickers] *= 1000
		evenly()
		for _, m := range members[1:] {
			if rng.IntN(2) == 0 {
				m.costs = nil
			}
		}
		settle(t, cells, members...)
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
			owns, _, _ := divideAssigned(of["ledger"])
			owned += len(owns)
		}
		if owned != 3 {
			t.Errorf("%d of 3 cells have owners", owned)
		}
	})
}
