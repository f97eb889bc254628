package kafka

import (
	"cmp"
	"encoding/binary"
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
}

// sharing is the kafka-go GroupBalancer that gives each partition of the topic an owner and, where there are two members or
// more, one that stands by for it.
//
// A partition stays with its owner. If that is gone, the member that stands by owns it, or else the one with the most
// progress. Where a member has asked for it ([Membership.Even]), partitions move from members that own more than others to
// those that stand by for them and are ready. So nothing moves that somebody would have to wait for, and while members
// come and go, nothing moves but what those owned that went.
type sharing struct{ cfg *MembershipConfig }

func (sharing) ProtocolName() string { return "cells" }

// A member's user data begins with inCells, which no lone member's does, and whether it asks for even shares. Then there is how
// many standings there are, each of them, and what the member says of itself.
const (
	inCells           = 2
	sharingBytes      = 1 + 1 + 4
	cellStandingBytes = 4 + 1 + 8
)

// standingBy is what is added to the number of a partition, in an assignment, for the member that stands by: assignments of
// kafka-go have nothing but topics and numbers.
const standingBy = 1 << 20

func (b sharing) UserData() ([]byte, error) {
	list := b.cfg.Cells()
	data := []byte{inCells, bit(b.cfg.even.Swap(false), 1)}
	data = binary.BigEndian.AppendUint32(data, uint32(len(list)))
	for _, s := range list {
		data = binary.BigEndian.AppendUint32(data, uint32(s.Cell))
		data = append(data, bit(s.Owner, 1)|bit(s.Ready, 2))
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
func readStandings(data []byte) (list []CellStanding, even bool, about string) {
	if len(data) < sharingBytes || data[0] != inCells {
		return nil, false, ""
	}
	even = data[1] == 1
	n, data := int(binary.BigEndian.Uint32(data[2:])), data[sharingBytes:]
	if n > len(data)/cellStandingBytes {
		return nil, false, ""
	}
	for range n {
		s := CellStanding{Cell: int32(binary.BigEndian.Uint32(data)), Owner: data[4]&1 != 0, Ready: data[4]&2 != 0}
		s.Progress = int64(binary.BigEndian.Uint64(data[5:]))
		list, data = append(list, s), data[cellStandingBytes:]
	}
	return list, even, string(data)
}

// divideAssigned returns the partitions of an assignment that the member owns, and those that it stands by for.
func divideAssigned(numbers []int) (owns, follows []int32) {
	for _, n := range numbers {
		if n < standingBy {
			owns = append(owns, int32(n))
		} else {
			follows = append(follows, int32(n-standingBy))
		}
	}
	return owns, follows
}

// electionOf returns the outcome that an assignment is.
func electionOf(assigned []kafkago.PartitionAssignment) (e Election) {
	numbers := make([]int, len(assigned))
	for i := range assigned {
		numbers[i] = assigned[i].ID
	}
	e.Owns, e.Follows = divideAssigned(numbers)
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
	d := division{cells: make([]divided, cells), loads: make([]load, len(members))}
	for i := range members {
		list, even, _ := readStandings(members[i].UserData)
		d.even = d.even || even
		for _, s := range list {
			if 0 <= s.Cell && int(s.Cell) < cells {
				c := &d.cells[s.Cell]
				c.claims = append(c.claims, claim{i, s})
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
	return all
}

// division is the partitions of a topic, and the members among which they are divided, by their index.
type division struct {
	cells []divided
	loads []load
	even  bool
}

// divided is a partition: what members say of it, and its owner and standby, -1 for none.
type divided struct {
	claims         []claim // the best first
	owner, standby int
}

type claim struct {
	member int
	CellStanding
}

// load counts the partitions of a member.
type load struct{ owns, follows int }

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
	if len(d.loads) == 0 {
		return
	}
	for i := range d.cells {
		c := &d.cells[i]
		c.owner, c.standby = -1, -1
		slices.SortFunc(c.claims, better)
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
			d.own(c, d.least(-1, func(l load) int { return l.owns }))
		}
	}
	if d.even {
		d.level()
		d.prepare()
	}
	d.standBys()
}

func (d *division) own(c *divided, member int) {
	if c.owner >= 0 {
		d.loads[c.owner].owns--
	}
	c.owner = member
	d.loads[member].owns++
}

// least returns the member other than the given one with the least load, -1 for none.
func (d *division) least(but int, of func(load) int) int {
	best := -1
	for i := range d.loads {
		if i != but && (best < 0 || of(d.loads[i]) < of(d.loads[best])) {
			best = i
		}
	}
	return best
}

// level moves partitions to members that are ready for them and own fewer.
func (d *division) level() {
	for moved := true; moved; {
		moved = false
		for i := range d.cells {
			c := &d.cells[i]
			for _, x := range c.claims {
				if x.Ready && x.member != c.owner && d.loads[x.member].owns+1 < d.loads[c.owner].owns {
					d.own(c, x.member)
					moved = true
					break
				}
			}
		}
	}
}

// prepare has those that own fewer partitions than others stand by for partitions of these, so that they can move to them next.
func (d *division) prepare() {
	owns := make([]int, len(d.loads))
	for i := range d.loads {
		owns[i] = d.loads[i].owns
	}
	for {
		from, to := slices.Index(owns, slices.Max(owns)), slices.Index(owns, slices.Min(owns))
		i := slices.IndexFunc(d.cells, func(c divided) bool { return c.owner == from && c.standby < 0 })
		if owns[from]-owns[to] < 2 || i < 0 {
			return
		}
		d.stand(&d.cells[i], to)
		owns[from]--
		owns[to]++
	}
}

func (d *division) stand(c *divided, member int) {
	c.standby = member
	d.loads[member].follows++
}

// standBys gives each partition a standby: the one that it had, unless that has more than its part of all that there is to do,
// or else the member with the least.
func (d *division) standBys() {
	if len(d.loads) < 2 {
		return
	}
	all := func(l load) int { return l.owns + l.follows }
	most := (2*len(d.cells) + len(d.loads) - 1) / len(d.loads)
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
