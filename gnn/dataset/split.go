package dataset

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Stream is a data set's nodes cut for training and streaming. Every node is in one of
// the three.
type Stream struct {
	Train  []int32   // trained on, before the stream; all have labels
	Warmup []int32   // in the graph before the stream, not trained on
	Steps  [][]int32 // arrive one step after the other
	// Ordered says whether Train is in order of arrival.
	Ordered bool
	How     string // how the nodes were cut, for people
}

// Cut chooses the nodes that train and the steps of the stream. The zero value keeps
// what comes with the data set; see [Dataset.Cut].
type Cut struct {
	Seed  uint64   // of what is drawn
	Share float64  // of the labelled nodes to train on, up to 1; 0 for the data set's own
	Until *float64 // train on the labelled nodes before this time; nil for the data set's own
	Steps int      // of the stream; 0 for the data set's own
}

// plan is the paper's cut of a data set that it uses, known by name.
type plan struct {
	share         float64 // of the nodes to train on
	steps         int
	train, warmup float64 // times before which nodes train and warm up, if share is 0
}

// planOf returns the paper's plan for a data set, or the usual one. That of ogbn-arxiv
// is the official split of the Open Graph Benchmark: papers up to 2017 train, those of
// 2018 are for validation, and later ones for the test.
func planOf(name string) plan {
	switch strings.ToLower(strings.ReplaceAll(name, "_", "-")) {
	case "cora":
		return plan{share: 0.05, steps: 30}
	case "cornell", "texas", "wisconsin":
		return plan{share: 0.20, steps: 20}
	case "ogbn-arxiv", "arxiv":
		return plan{steps: 100, train: 2018, warmup: 2019}
	}
	return plan{share: 0.10, steps: 50}
}

// Cut cuts the data set. The first of these that applies says which nodes train:
//
//   - c.Until: the nodes before that time.
//   - c.Share: that share of the nodes, the earliest ones if the nodes have times, and
//     otherwise a stratified sample.
//   - The split that comes with the data set: its training nodes. Those for validation
//     are the warm-up.
//   - The paper's plan for a data set of that name.
//   - A tenth of the nodes, chosen as for c.Share.
//
// Only labelled nodes train. Where labels have times, those that have not come when the last of these nodes has, or
// by c.Until, are not known: their nodes warm up, unless the split is given. Context nodes warm up. All other nodes are the stream, in
// the order of their times; of a data set with keys, those without a label before the last one that trains warm up.
// Nodes without times come in random order, or as they are listed if the given
// split says that they are listed in order of arrival.
//
// The stream is cut into c.Steps steps, or if that is 0 into as many as the given split
// or the plan says, or one step a node where nodes are fewer.
func (d *Dataset) Cut(c Cut) (Stream, error) {
	p := planOf(d.Name)
	steps := p.steps
	if c.Share > 0 {
		p.share = c.Share
	}
	var s Stream
	var rest []int32
	var how func(steps int) string
	var err error
	switch {
	case !(c.Share >= 0 && c.Share <= 1):
		return s, fmt.Errorf("training share %v: give a share from 0 to 1, such as 0.1", c.Share)
	case c.Until != nil:
		how = func(n int) string { return fmt.Sprintf("before %s, %d steps", d.FormatTime(*c.Until), n) }
		rest, err = d.cutBefore(&s, *c.Until, *c.Until)
	case c.Share == 0 && d.Given != nil:
		how = d.Given.describe
		rest = d.cutAsGiven(&s, c.Seed)
		if d.Given.Steps > 0 {
			steps = d.Given.Steps
		}
	case p.share == 0:
		how = func(n int) string { return fmt.Sprintf("by year, %d steps", n) }
		rest, err = d.cutBefore(&s, p.train, p.warmup)
	case d.Time != nil:
		how = func(n int) string { return fmt.Sprintf("earliest %g, %d steps", p.share, n) }
		rest = d.cutEarliest(&s, p.share)
	default:
		how = func(n int) string { return fmt.Sprintf("stratified %g, %d steps, seed %d", p.share, n, c.Seed) }
		rest = d.cutStratified(&s, c.Seed, p.share)
	}
	if err != nil {
		return Stream{}, err
	}
	if d.Context != nil {
		rest = s.warmUp(rest, func(v int32) bool { return d.Context[v] })
	}
	if d.Time != nil {
		d.sortByTime(s.Train)
		s.Ordered = true
	}
	if d.Keys != nil && len(s.Train) > 0 {
		last := d.Time[s.Train[len(s.Train)-1]]
		rest = s.warmUp(rest, func(v int32) bool { return d.Labels[v] == Unlabelled && d.Time[v] < last })
	}
	if d.LabelTime != nil && !(c.Until == nil && c.Share == 0 && d.Given != nil) {
		if err := holdBack(d, &s, c.Until); err != nil {
			return Stream{}, err
		}
	}
	if steps = min(steps, len(rest)); c.Steps > 0 {
		steps = c.Steps
	}
	if s.Steps, err = cut(rest, steps); err != nil {
		return Stream{}, err
	}
	s.How = how(len(s.Steps))
	return s, nil
}

// warmUp has those of the nodes warm up that are such, and returns the others.
func (s *Stream) warmUp(nodes []int32, such func(v int32) bool) []int32 {
	return slices.DeleteFunc(nodes, func(v int32) bool {
		is := such(v)
		if is {
			s.Warmup = append(s.Warmup, v)
		}
		return is
	})
}

// The four ways to cut set Train and Warmup, and return the other nodes in order of
// arrival.

// holdBack has those that train warm up whose labels come after the last of them, or after until.
func holdBack(d *Dataset, s *Stream, until *float64) error {
	end := math.Inf(-1)
	for _, v := range s.Train {
		end = max(end, d.Time[v])
	}
	if until != nil {
		end = *until
	}
	all := len(s.Train)
	s.Train = s.warmUp(s.Train, func(v int32) bool { return d.LabelTime[v] > end })
	if all > 0 && len(s.Train) == 0 {
		return fmt.Errorf("the labels of the %d nodes to train on all come after %s, so none is known by then: train until "+
			"later, or on a larger share", all, d.FormatTime(end))
	}
	return nil
}

// divide divides the nodes by their parts: those that train have labels.
func (d *Dataset) divide(s *Stream, of func(v int) Part) (rest []int32) {
	for v, y := range d.Labels {
		switch part := of(v); {
		case part == InTrain && y != Unlabelled:
			s.Train = append(s.Train, int32(v))
		case part == inValid:
			s.Warmup = append(s.Warmup, int32(v))
		default:
			rest = append(rest, int32(v))
		}
	}
	return rest
}

// cutBefore trains on the labelled nodes before a time, and warms up with the other
// nodes before another.
func (d *Dataset) cutBefore(s *Stream, train, warmup float64) (rest []int32, err error) {
	if d.Time == nil {
		return nil, errNoTimes
	}
	rest = d.divide(s, func(v int) Part {
		switch at := d.Time[v]; {
		case at < train:
			return InTrain
		case at < warmup:
			return inValid
		}
		return InTest
	})
	if from, to := d.FormatTime(slices.Min(d.Time)), d.FormatTime(slices.Max(d.Time)); len(s.Train) == 0 {
		return nil, fmt.Errorf("no node with a label is of a time before %s, so none trains: times go from %s to %s",
			d.FormatTime(train), from, to)
	} else if len(rest) == 0 {
		return nil, fmt.Errorf("no node is left for the stream from %s on: times go from %s to %s", d.FormatTime(warmup), from, to)
	}
	d.sortByTime(rest)
	return rest, nil
}

// cutEarliest trains on the given share of the labelled nodes, those that arrive first.
func (d *Dataset) cutEarliest(s *Stream, share float64) (rest []int32) {
	left := max(1, portion(share, d.Labelled()))
	for _, v := range d.arrivals() {
		if left > 0 && d.Labels[v] != Unlabelled {
			s.Train = append(s.Train, v)
			left--
		} else {
			rest = append(rest, v)
		}
	}
	return rest
}

// cutStratified trains on a stratified sample of the labelled nodes: each class gives
// its part rounded down, and the classes with the largest remainders give one more. A
// class that has nodes gives at least one, which can make the total larger. The other
// nodes are shuffled.
func (d *Dataset) cutStratified(s *Stream, seed uint64, share float64) (rest []int32) {
	rng := splitRand(seed)
	classes := make([][]int32, len(d.Classes))
	for v, y := range d.Labels {
		if y == Unlabelled {
			rest = append(rest, int32(v))
			continue
		}
		classes[y] = append(classes[y], int32(v))
	}
	quota := make([]int, len(classes))
	remainder := make([]float64, len(classes))
	order := make([]int, len(classes))
	left := portion(share, len(d.Labels)-len(rest))
	for c, nodes := range classes {
		part := float64(share * float64(len(nodes)))
		quota[c] = int(part)
		remainder[c] = part - float64(quota[c])
		if quota[c] == 0 && len(nodes) > 0 {
			quota[c], remainder[c] = 1, -1 // last in line for one more
		}
		left -= quota[c]
		order[c] = c
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(remainder[b], remainder[a]) })
	for _, c := range order {
		if left > 0 && quota[c] < len(classes[c]) {
			quota[c]++
			left--
		}
	}
	for c, nodes := range classes {
		rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		s.Train = append(s.Train, nodes[:quota[c]]...)
		rest = append(rest, nodes[quota[c]:]...)
	}
	slices.Sort(s.Train)
	shuffle(rest, rng)
	return rest
}

// cutAsGiven cuts as the given split says.
func (d *Dataset) cutAsGiven(s *Stream, seed uint64) (rest []int32) {
	rest = d.divide(s, func(v int) Part { return d.Given.Parts[v] })
	switch {
	case d.Given.InOrder:
		s.Ordered = true
	case d.Time != nil:
		d.sortByTime(rest)
	default:
		shuffle(rest, splitRand(seed))
	}
	return rest
}

// portion returns ⌊share·n⌋.
func portion(share float64, n int) int {
	return int(float64(share*float64(n)) + 1e-9) // a product like 0.29·100 may fall just short
}

// splitRand returns the generator of a split. Its PCG stream is "split" in ASCII.
func splitRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x73706c6974)) }

// shuffle brings nodes into an order that does not depend on theirs.
func shuffle(nodes []int32, rng *rand.Rand) {
	slices.Sort(nodes)
	rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
}

// arrivals returns all nodes in the order of their times, equal ones as listed.
func (d *Dataset) arrivals() []int32 {
	nodes := make([]int32, len(d.Labels))
	for v := range nodes {
		nodes[v] = int32(v)
	}
	d.sortByTime(nodes)
	return nodes
}

func (d *Dataset) sortByTime(nodes []int32) {
	slices.SortStableFunc(nodes, func(a, b int32) int { return cmp.Compare(d.Time[a], d.Time[b]) })
}

// cut cuts nodes into steps as numpy.array_split does: sizes differ by at most one,
// larger ones first.
func cut(nodes []int32, steps int) ([][]int32, error) {
	if len(nodes) > 0 && steps > len(nodes) {
		return nil, fmt.Errorf("%d steps for a stream of %d nodes: give 1 to %d", steps, len(nodes), len(nodes))
	}
	steps = min(steps, len(nodes))
	out := make([][]int32, steps)
	for i := range out {
		size := len(nodes) / (steps - i)
		if len(nodes)%(steps-i) > 0 {
			size++
		}
		out[i], nodes = nodes[:size:size], nodes[size:]
	}
	return out, nil
}

// Part is a node's part in a split that comes with a data set.
type Part uint8

// The parts. A data set whose split has test nodes has no labels for nodes that are in
// no part: they are streamed, but not scored.
const (
	InNone  Part = iota
	InTrain      // trained on
	inValid      // in the graph before the stream, not trained on
	InTest       // in the stream
)

// GivenSplit is the split that comes with a data set.
type GivenSplit struct {
	Parts   []Part // by node
	InOrder bool   // nodes are listed in order of arrival: training, validation, test
	Steps   int    // of the stream; 0 where the split does not say
	How     string // how the data set was made, for people
}

// describe describes a stream that was cut as given, into steps.
func (g *GivenSplit) describe(steps int) string {
	if g.How != "" && steps == g.Steps {
		return g.How
	}
	return strings.TrimSpace(fmt.Sprintf("%s cut into %d steps", g.How, steps))
}

// giveSplit gives a data set its split, and removes the labels of nodes that are in no
// part, see [Part].
func giveSplit(d *Dataset, parts []Part, how string) {
	d.Given = &GivenSplit{Parts: parts, How: how}
	if !slices.Contains(parts, InTest) {
		return
	}
	for v := range d.Labels {
		if parts[v] == InNone {
			d.Labels[v] = Unlabelled
		}
	}
}

// inOrder returns the split of n nodes that are listed in order of arrival.
func inOrder(n, train, valid, steps int, how string) *GivenSplit {
	parts := make([]Part, n)
	for v := range parts {
		switch {
		case v < train:
			parts[v] = InTrain
		case v < train+valid:
			parts[v] = inValid
		default:
			parts[v] = InTest
		}
	}
	return &GivenSplit{Parts: parts, InOrder: true, Steps: steps, How: how}
}

func partNamed(name string) (Part, error) {
	switch strings.ToLower(name) {
	case "":
		return InNone, nil
	case "train", "training":
		return InTrain, nil
	case "val", "valid", "validation":
		return inValid, nil
	case "test":
		return InTest, nil
	}
	return InNone, fmt.Errorf("%.40q: want train, valid, test or nothing", name)
}

// String returns the name that [partNamed] reads.
func (p Part) String() string { return [...]string{"", "train", "valid", "test"}[p] }
