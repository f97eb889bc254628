package dataset

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Stream is a data set's nodes cut for training and streaming.
type Stream struct {
	Train  []int32   // trained on, before the stream
	Warmup []int32   // in the graph before the stream, not trained on; empty for random splits
	Steps  [][]int32 // arrive one step after the other
}

// Plan returns the paper's split of a data set known by name: the share of training
// nodes (0 for a split by year) and the number of steps.
func Plan(name string) (share float64, steps int, ok bool) {
	switch strings.ToLower(strings.ReplaceAll(name, "_", "-")) {
	case "cora":
		return 0.05, 30, true
	case "cornell", "texas", "wisconsin":
		return 0.20, 20, true
	case "ogbn-arxiv", "arxiv":
		return 0, 100, true
	}
	return 0, 0, false
}

// Split draws a stratified sample of ⌊share·n⌋ nodes for training: each class
// gives its part rounded down, and the classes with the largest remainders give
// one more. A class that has nodes gives at least one, which can make the total
// larger. The other nodes are shuffled and cut into steps whose sizes differ by
// at most one, larger ones first.
func (d *Dataset) Split(seed uint64, share float64, steps int) (Stream, error) {
	n := len(d.Labels)
	if !(share > 0 && share < 1) {
		return Stream{}, fmt.Errorf("training share %v: give a share between 0 and 1, such as 0.1", share)
	}
	rng := rand.New(rand.NewPCG(seed, splitStream))
	classes := make([][]int32, len(d.Classes))
	for v, y := range d.Labels {
		classes[y] = append(classes[y], int32(v))
	}
	quota := make([]int, len(classes))
	remainder := make([]float64, len(classes))
	order := make([]int, len(classes))
	left := int(float64(share*float64(n)) + 1e-9) // 1e-9: a product like 0.29·100 may fall just short
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
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case remainder[a] > remainder[b]:
			return -1
		case remainder[a] < remainder[b]:
			return 1
		}
		return 0
	})
	for _, c := range order {
		if left > 0 && quota[c] < len(classes[c]) {
			quota[c]++
			left--
		}
	}
	var s Stream
	var rest []int32
	for c, nodes := range classes {
		rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		s.Train = append(s.Train, nodes[:quota[c]]...)
		rest = append(rest, nodes[quota[c]:]...)
	}
	slices.Sort(s.Train)
	slices.Sort(rest)
	rng.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	var err error
	s.Steps, err = cut(rest, steps)
	return s, err
}

// splitStream selects the split's PCG stream: "split" in ASCII.
const splitStream = 0x73706c6974

// SplitByYear cuts as ogbn-arxiv's official split does: papers before 2018
// train, those of 2018 warm up, later ones are the stream, ordered by year,
// then by number.
func (d *Dataset) SplitByYear(steps int) (Stream, error) {
	if d.Year == nil {
		return Stream{}, errors.New("the data set has no years (node_year, or a column year): give a training share instead")
	}
	var s Stream
	var rest []int32
	for v, y := range d.Year {
		switch {
		case y < 2018:
			s.Train = append(s.Train, int32(v))
		case y == 2018:
			s.Warmup = append(s.Warmup, int32(v))
		default:
			rest = append(rest, int32(v))
		}
	}
	if len(s.Train) == 0 {
		return Stream{}, errors.New("no node is of a year before 2018, so none trains: give a training share instead")
	}
	slices.SortStableFunc(rest, func(a, b int32) int { return int(d.Year[a]) - int(d.Year[b]) })
	var err error
	s.Steps, err = cut(rest, steps)
	return s, err
}

// cut cuts nodes into steps as numpy.array_split does: sizes differ by at most one,
// larger ones first.
func cut(nodes []int32, steps int) ([][]int32, error) {
	if steps < 1 || steps > len(nodes) {
		return nil, fmt.Errorf("%d steps for a stream of %d nodes: give 1 to %d", steps, len(nodes), len(nodes))
	}
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
