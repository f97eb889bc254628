package kafka

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
)

// CellStanding is where a member stands in a partition that it has.
type CellStanding struct {
	Cell     int32
	Owner    bool
	Ready    bool  // it has followed the owner to where that is, and can take over at once
	Progress int64 // how far its state is, 0 for none
	// Cost is what the partition takes of a member, in multiples of what one does that has nothing and does nothing. A member of a
	// version that said nothing of it has 0, which counts as 1.
	Cost float64
}

// sharing is the kafka-go GroupBalancer that gives each partition of the topic an owner and, where there are two members or
// more, one that stands by for it.
//
// A partition stays with its owner. If that is gone, the member that stands by owns it, or else the one with the most
// progress. Where all members want no standbys, only what is about to move has one. Where a member has asked for it
// ([Membership.Even]), partitions move from members whose partitions cost more than those of others to those that stand by for
// them and are ready, until no further one would make the shares evener. So nothing moves that somebody would have to wait for, and
// while members come and go, nothing moves but what those owned that went.
type sharing struct{ cfg *MembershipConfig }

func (sharing) ProtocolName() string { return "cells" }

// A member's user data begins with inCells, which no lone member's does, and flags: it asks for even shares, it wants no
// standbys. Then there is how many standings there are, each of them, and what the member says of itself. A standing has its
// cost in the upper bits of its flags, as steps of a third of a power of two: some tens of costs, so that it is the same from
// one election to the next unless much has changed, and up to a million idle cells.
const (
	inCells           = 2
	evenFlag          = 1
	noStandbysFlag    = 2
	sharingBytes      = 1 + 1 + 4
	cellStandingBytes = 4 + 1 + 8
)

// standingBy is what is added to the number of a partition, in an assignment, for the member that stands by: assignments of
// kafka-go have nothing but topics and numbers.
const standingBy = 1 << 20

// unevenShares is what an assignment has besides for the member that owns the least, where shares are uneven.
const unevenShares = 2 * standingBy

const (
	costSteps = 3                   // of a power of two
	costBits  = 2                   // of the flags are below
	costCodes = 1 << (8 - costBits) // 0 is for no cost
	// idleCost is the weight of a cell whose cost is 1.
	idleCost = 8
	// costError is the part of a weight by which it may be wrong from one election to the next, since it is rounded.
	costError = 4
	// slack is the part of the mean share by which shares may differ before they are called uneven.
	slack = 8
)

// coarse returns the number of steps of a cost, and weightOf the weight that it stands for.
func coarse(cost float64) byte {
	if cost <= 0 || math.IsNaN(cost) {
		return 0
	}
	return byte(1 + min(math.Round(costSteps*math.Log2(max(cost, 1))), costCodes-2))
}

func weightOf(steps byte) int64 {
	return int64(math.Round(idleCost * math.Exp2(float64(max(steps, 1)-1)/costSteps)))
}

func (b sharing) UserData() ([]byte, error) {
	list := b.cfg.Cells()
	data := []byte{inCells, bit(b.cfg.even.Swap(false), evenFlag) | bit(b.cfg.NoStandbys, noStandbysFlag)}
	data = binary.BigEndian.AppendUint32(data, uint32(len(list)))
	for _, s := range list {
		data = binary.BigEndian.AppendUint32(data, uint32(s.Cell))
		data = append(data, bit(s.Owner, 1)|bit(s.Ready, 2)|coarse(s.Cost)<<costBits)
		data = binary.BigEndian.AppendUint64(data, uint64(s.Progress))
	}
	return append(data, b.cfg.About...), nil
}

func bit(set bool, value byte) byte {
	if set {
		return value
	}
	return 0
}

// readStandings reads a member's user data. One that is not as UserData writes it has no standings.
func readStandings(data []byte) (list []claim, flags byte, about string) {
	if len(data) < sharingBytes || data[0] != inCells {
		return nil, 0, ""
	}
	flags = data[1]
	n, data := int(binary.BigEndian.Uint32(data[2:])), data[sharingBytes:]
	if n > len(data)/cellStandingBytes {
		return nil, 0, ""
	}
	for range n {
		c := claim{steps: data[4] >> costBits}
		c.Cell, c.Owner, c.Ready = int32(binary.BigEndian.Uint32(data)), data[4]&1 != 0, data[4]&2 != 0
		c.Progress = int64(binary.BigEndian.Uint64(data[5:]))
		list, data = append(list, c), data[cellStandingBytes:]
	}
	return list, flags, string(data)
}

// divideAssigned returns the partitions of an assignment that the member owns, and those that it stands by for, and whether it has
// unevenShares.
func divideAssigned[T int | int32](numbers []T) (owns, follows []int32, uneven bool) {
	for _, n := range numbers {
		switch {
		case n < standingBy:
			owns = append(owns, int32(n))
		case n < unevenShares:
			follows = append(follows, int32(n-standingBy))
		default:
			uneven = true
		}
	}
	return owns, follows, uneven
}

// electionOf returns the outcome that an assignment is.
func electionOf(assigned []kafkago.PartitionAssignment) (e Election) {
	numbers := make([]int, len(assigned))
	for i := range assigned {
		numbers[i] = assigned[i].ID
	}
	e.Owns, e.Follows, e.Uneven = divideAssigned(numbers)
	e.Owner = len(e.Owns) > 0
	return e
}

// AssignGroups gives each partition that the topic has its owner and its standby. The result does not depend on who computes it.
func (b sharing) AssignGroups(members []kafkago.GroupMember, partitions []kafkago.Partition) kafkago.GroupMemberAssignments {
	members = slices.SortedFunc(slices.Values(members), func(a, b kafkago.GroupMember) int { return strings.Compare(a.ID, b.ID) })
	cells := 0
	for _, p := range partitions {
		if p.Topic == b.cfg.Topic {
			cells = max(cells, p.ID+1)
		}
	}
	d := division{cells: make([]divided, cells), loads: make([]load, len(members)), noStandbys: true}
	for i := range members {
		list, flags, _ := readStandings(members[i].UserData)
		d.even, d.noStandbys = d.even || flags&evenFlag != 0, d.noStandbys && flags&noStandbysFlag != 0
		for _, x := range list {
			if x.member = i; 0 <= x.Cell && int(x.Cell) < cells {
				c := &d.cells[x.Cell]
				c.claims = append(c.claims, x)
			}
		}
	}
	d.divide()
	all := make(kafkago.GroupMemberAssignments)
	for i := range members {
		all[members[i].ID] = map[string][]int{}
	}
	for n, c := range d.cells {
		if c.owner >= 0 {
			of := all[members[c.owner].ID]
			of[b.cfg.Topic] = append(of[b.cfg.Topic], n)
		}
		if c.standby >= 0 {
			of := all[members[c.standby].ID]
			of[b.cfg.Topic] = append(of[b.cfg.Topic], standingBy+n)
		}
	}
	if d.behind >= 0 {
		of := all[members[d.behind].ID]
		of[b.cfg.Topic] = append(of[b.cfg.Topic], unevenShares)
	}
	return all
}

// division is the partitions of a topic, and the members among which they are divided, by their index.
type division struct {
	cells      []divided
	loads      []load
	even       bool  // a member asks for even shares
	noStandbys bool  // all want no standbys
	total      int64 // weight of all cells

	behind int // the member that owns the least, where shares are uneven; -1 where they are not
}

// divided is a partition: what members say of it, and its owner and standby, -1 for none.
type divided struct {
	claims         []claim // the best first
	owner, standby int
	weight         int64 // by the best claim that says it
}

// claim is where a member stands in a partition, with the steps of its cost.
type claim struct {
	CellStanding
	member int
	steps  byte
}

// load is the weight of the partitions of a member.
type load struct{ owns, follows int64 }

func owned(l load) int64 { return l.owns }

// better compares two claims: the owner's is first, then those that are ready, then those with more progress.
func better(a, b claim) int {
	rank := func(c claim) int {
		if c.Owner {
			return 2
		}
		return int(bit(c.Ready, 1))
	}
	return cmp.Or(rank(b)-rank(a), cmp.Compare(b.Progress, a.Progress), a.member-b.member)
}

func (d *division) divide() {
	if d.behind = -1; len(d.loads) == 0 {
		return
	}
	for i := range d.cells {
		c := &d.cells[i]
		c.owner, c.standby = -1, -1
		slices.SortFunc(c.claims, better)
		said := slices.IndexFunc(c.claims, func(x claim) bool { return x.steps > 0 })
		if c.weight = idleCost; said >= 0 {
			c.weight = weightOf(c.claims[said].steps)
		}
		d.total += c.weight
		if len(c.claims) > 0 && c.claims[0].Owner {
			d.own(c, c.claims[0].member)
		}
	}
	for i := range d.cells { // whose owner is gone
		if c := &d.cells[i]; c.owner < 0 && len(c.claims) > 0 {
			d.own(c, c.claims[0].member)
		}
	}
	for i := range d.cells { // that nobody has
		if c := &d.cells[i]; c.owner < 0 {
			d.own(c, d.least(-1, owned))
		}
	}
	if d.even {
		d.level(false)
	}
	if to := d.least(-1, owned); d.uneven(to) {
		d.behind = to
	}
	if d.even || d.noStandbys && d.behind >= 0 {
		d.prepare()
	}
	if !d.noStandbys {
		d.standBys()
	}
}

func (d *division) own(c *divided, member int) {
	if c.owner >= 0 {
		d.loads[c.owner].owns -= c.weight
	}
	c.owner = member
	d.loads[member].owns += c.weight
}

// least returns the member other than the given one with the least load, -1 for none.
func (d *division) least(but int, of func(load) int64) int {
	best := -1
	for i := range d.loads {
		if i != but && (best < 0 || of(d.loads[i]) < of(d.loads[best])) {
			best = i
		}
	}
	return best
}

// gain is how much evener shares are once the partition is the member's, 0 unless that is more than its weight may be wrong by.
func (d *division) gain(c *divided, to int) float64 {
	left := d.loads[c.owner].owns - d.loads[to].owns - c.weight
	if c.owner == to || left <= c.weight/costError {
		return 0
	}
	return float64(c.weight) * float64(left)
}

// uneven reports whether shares differ by so much that partitions should move to the member, which owns the least.
func (d *division) uneven(to int) bool {
	return slices.ContainsFunc(d.cells, func(c divided) bool {
		return d.loads[c.owner].owns-d.loads[to].owns > d.total/int64(len(d.loads)*slack) && d.gain(&c, to) > 0
	})
}

// level moves partitions to members that are ready for them, those first that make shares evener than others, or as if the member
// that owns the least were ready for any.
func (d *division) level(anyReady bool) {
	for {
		var best *divided
		to, most := -1, 0.
		least := d.least(-1, owned)
		for i := range d.cells {
			c := &d.cells[i]
			consider := func(member int) {
				if gain := d.gain(c, member); gain > most {
					best, to, most = c, member, gain
				}
			}
			if anyReady {
				consider(least)
				continue
			}
			for _, x := range c.claims {
				if x.Ready {
					consider(x.member)
				}
			}
		}
		if best == nil {
			return
		}
		d.own(best, to)
	}
}

// prepare has those whose partitions cost less than those of others stand by for partitions of these, so that they can move to
// them next.
func (d *division) prepare() {
	later := division{cells: slices.Clone(d.cells), loads: slices.Clone(d.loads)}
	later.level(true)
	for i := range d.cells {
		if c, to := &d.cells[i], later.cells[i].owner; to != c.owner {
			d.stand(c, to)
		}
	}
}

func (d *division) stand(c *divided, member int) {
	c.standby = member
	d.loads[member].follows += c.weight
}

// standBys gives each partition a standby: the one that it had, unless that has more than its part of all that there is to do,
// or else the member with the least.
func (d *division) standBys() {
	if len(d.loads) < 2 {
		return
	}
	all := func(l load) int64 { return l.owns + l.follows }
	most := (2*d.total + int64(len(d.loads)) - 1) / int64(len(d.loads))
	for i := range d.cells {
		c := &d.cells[i]
		for _, x := range c.claims {
			if c.standby < 0 && x.member != c.owner && all(d.loads[x.member]) < most {
				d.stand(c, x.member)
			}
		}
	}
	for i := range d.cells {
		if c := &d.cells[i]; c.standby < 0 {
			d.stand(c, d.least(c.owner, all))
		}
	}
}
