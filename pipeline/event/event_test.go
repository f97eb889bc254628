package event

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
)

// TestIDs: "7" and 7 are two nodes. Integers come first, each id reads the other one, and JSON has both as they are.
func TestIDs(t *testing.T) {
	ids := []ID{{Str: "b"}, {Num: 7}, {Str: "7"}, {Num: -3}, {}}
	slices.SortFunc(ids, ID.Compare)
	if got, err := json.Marshal(ids); err != nil || string(got) != `[-3,0,7,"7","b"]` {
		t.Errorf("ids in their order are %s, %v", got, err)
	}
	for id, want := range map[ID]ID{{Num: 7}: {Str: "7"}, {Str: "7"}: {Num: 7}, {Str: "-3"}: {Num: -3}} {
		if other, ok := id.Otherwise(); !ok || other != want || other.String() != id.String() {
			t.Errorf("%#v is otherwise %#v, %v, want %#v", id, other, ok, want)
		}
	}
	if other, ok := (ID{Str: "b"}).Otherwise(); ok {
		t.Errorf("b is otherwise %#v, want nothing", other)
	}
}

// TestOriginIsCloned: a clone has all of a record and none of its memory, and its size follows what it holds.
func TestOriginIsCloned(t *testing.T) {
	o := &Origin{Topic: "nodes", Partition: 3, Offset: 9, Key: []byte("k"), Value: []byte("value"), Headers: []Header{{"h", []byte("x")}}}
	c := o.Clone()
	o.Key[0], o.Value[0], o.Headers[0].Value[0] = '-', '-', '-'
	if string(c.Key)+string(c.Value)+string(c.Headers[0].Value) != "kvaluex" || c.String() != "nodes/3:9" {
		t.Errorf("the clone is %+v", c)
	}
	if more := (&Origin{Value: make([]byte, 1000)}).Size() - (&Origin{}).Size(); more != 1000 {
		t.Errorf("1000 bytes are counted as %d", more)
	}
	if c := (&Origin{}).Clone(); c.Value != nil {
		t.Error("the clone of a null value is not null")
	}
}

// TestAllEdges: an event of only edges has those that it lists; one without features those to its neighbours, with what
// it says of each, added or all removed. An event with features has none of either kind.
func TestAllEdges(t *testing.T) {
	a, b := ID{Num: 1}, ID{Num: 2}
	listed := []Edge{{Source: a, Target: b}, {Source: b, Target: a, Remove: true}}
	for name, c := range map[string]struct {
		node Node
		want []Edge
	}{
		"listed":        {Node{ID: a, Edges: listed}, listed},
		"none listed":   {Node{ID: a, Edges: []Edge{}}, nil},
		"to neighbours": {Node{ID: a, Featureless: true, Neighbours: []ID{b}, Marks: []Mark{{Kind: "k", Weight: 2}}}, []Edge{{Source: a, Target: b, Mark: Mark{Kind: "k", Weight: 2}}}},
		"removed":       {Node{ID: a, Featureless: true, Remove: true, Neighbours: []ID{b}}, []Edge{{Source: a, Target: b, Remove: true}}},
		"of a node":     {Node{ID: a, Dense: []float32{1}, Neighbours: []ID{b}}, nil},
	} {
		var got []Edge
		for i, e := range c.node.AllEdges() {
			if i != len(got) {
				t.Errorf("%s: edge %d after %d", name, i, len(got)-1)
			}
			got = append(got, e)
		}
		if !slices.Equal(got, c.want) || c.node.OnlyEdges() != (name != "of a node") {
			t.Errorf("%s: %v, only edges %v, want %v", name, got, c.node.OnlyEdges(), c.want)
		}
		for range c.node.AllEdges() { // may be left early
			break
		}
	}
}

// TestOnlyAsks: an event that asks and brings features or edges does not only ask.
func TestOnlyAsks(t *testing.T) {
	for _, c := range []struct {
		node Node
		want bool
	}{
		{Node{Predict: true}, true},
		{Node{}, false},
		{Node{Predict: true, Dense: []float32{1}}, false},
		{Node{Predict: true, Index: []uint32{}}, false},
		{Node{Predict: true, Named: []Attribute{}}, false},
		{Node{Predict: true, Graph: &Graph{}}, false},
		{Node{Predict: true, Featureless: true}, false},
	} {
		if got := c.node.OnlyAsks(); got != c.want {
			t.Errorf("%+v only asks: %v", c.node, got)
		}
	}
}

// TestDelay: a label may come a day before its node, by a clock that is wrong, and ten years after it; beyond that, and
// beyond 64 bits, the times are of other units.
func TestDelay(t *testing.T) {
	const day = 24 * 3600 * 1000
	for _, c := range []struct {
		from, to, delay int64
		likely          bool
	}{
		{5, 8, 3, true},
		{day, 0, -day, true},
		{day + 1, 0, -day - 1, false},
		{1, 1 + 3650*day, 3650 * day, true},
		{0, 1 + 3650*day, 1 + 3650*day, false},
		{math.MinInt64, math.MaxInt64, 0, false},
		{math.MaxInt64, math.MinInt64, 0, false},
	} {
		if delay, likely := Delay(c.from, c.to); delay != c.delay || likely != c.likely {
			t.Errorf("from %d to %d: %d, %v, want %d, %v", c.from, c.to, delay, likely, c.delay, c.likely)
		}
	}
}

// TestAttributesAsText: a value has the text that a table has, nothing for a gap.
func TestAttributesAsText(t *testing.T) {
	for want, a := range map[string]Attribute{
		"":      {Kind: Gap},
		"0.1":   {Kind: Number, Number: .1},
		"1e7":   {Kind: Text, Text: "1e7"},
		"true":  {Kind: Bool, Number: 1},
		"1 2.5": {Kind: Numbers, Numbers: []float32{1, 2.5}},
	} {
		if got := a.String(); got != want {
			t.Errorf("%+v is %q, want %q", a, got, want)
		}
	}
	if got := (&Attribute{Kind: Number, Number: 1e7}).String(); got != "10000000" {
		t.Errorf("1e7 is %q, want all its digits", got)
	}
}

// TestCausesInWords: what moved a prediction is said with what is usual, how many of those left out are of the class, and
// one digit more where it moved little.
func TestCausesInWords(t *testing.T) {
	causes := Causes{Class: "fraud", List: []Cause{
		{What: OfAttribute, Name: "amount", Value: "912", Usual: "12", Along: []string{"fee"}, By: 1.94},
		{What: OfKey, Name: "card", Value: "c1", Labelled: 3, OfClass: 2, By: -.31},
		{What: OfNeighbour, Node: ID{Num: 7}, Labelled: 1, OfClass: 1, By: .25},
		{What: OfNeighbour, Node: ID{Str: "n"}, Labelled: 1, By: -.04},
		{What: OfNeighbour, Node: ID{Str: "m"}, By: .3},
		{What: OfLabels, Labelled: 5, OfClass: 1, By: -1},
	}}
	const want = "amount 912 and fee (usually 12): +1.9; card c1: 2 of 3 are fraud: -0.3; neighbour 7 (fraud): +0.2; " +
		"neighbour n (not fraud): -0.04; neighbour m: +0.3; labels around: 1 of 5 are fraud: -1.0"
	if got := causes.Words(); got != want {
		t.Errorf("the causes are\n%s\nwant\n%s", got, want)
	}
}

// TestReasonsAreAll: the list of reasons has each once, and a refusal is added behind the others.
func TestReasonsAreAll(t *testing.T) {
	all := slices.Sorted(slices.Values(Reasons()))
	if n := len(slices.Compact(all)); n != 18 || n != len(Reasons()) {
		t.Errorf("%d reasons of %d differ, want 18", n, len(Reasons()))
	}
	var out Outcome
	out.Refuse(&Origin{Offset: 1}, Empty, "none")
	out.Decline(&Command{Origin: &Origin{Offset: 2}, Name: "dance"})
	if len(out.Refused) != 2 || out.Refused[1].Reason != ImpossibleCommand || out.Refused[1].Detail != "dance: nothing here can do that" {
		t.Errorf("refused are %+v", out.Refused)
	}
}

// TestDegreeSlices: every degree is in the slice that begins at or below it, and the next one begins above.
func TestDegreeSlices(t *testing.T) {
	for degree := range 40 {
		i := DegreeSlice(degree)
		if DegreeSlices[i].From > degree || i+1 < len(DegreeSlices) && DegreeSlices[i+1].From <= degree {
			t.Errorf("degree %d is in slice %s", degree, DegreeSlices[i].Name)
		}
	}
}
