package backtest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// Result is what a backtest found. docs/schemas/backtest.json has its schema.
type Result struct {
	Data    string   `json:"data"`
	Split   string   `json:"split"` // how the data were cut
	Model   string   `json:"model"`
	Classes []string `json:"classes"`
	Train   int      `json:"train"`   // nodes trained on
	Context int      `json:"context"` // further nodes in the graph before the stream
	Stream  int      `json:"stream"`  // nodes served
	Labels  int      `json:"labels"`  // nodes of the stream that are scored
	NotDue  int      `json:"not_due"` // labels that came after the stream had ended: scored, and not learned
	Never   int      `json:"never"`   // labels that never came: scored, and not learned
	// Ranked is the class that AUC, AP and Recall are of: the rarer of two; "" for means over classes.
	Ranked  string   `json:"ranked,omitempty"`
	Systems []System `json:"systems"`

	run *run
}

// System is how one system did.
type System struct {
	Name string `json:"name"`
	calibration.Means
	Ranked
	Capacity *Caught   `json:"capacity,omitempty"`
	ByClass  []ByClass `json:"by_class"`
	OverTime []Period  `json:"over_time"`

	Tally calibration.Tally `json:"-"` // of all labels
}

// ByClass is how well one class is told from the others, and the calibration of its probabilities.
type ByClass struct {
	Rank
	ECE    float64 `json:"ece"`
	Chance float64 `json:"ece_chance"`
}

// Period is a part of the stream, of consecutive steps.
type Period struct {
	From   string  `json:"from"` // time of the first node, or its step
	To     string  `json:"to"`
	At     float64 `json:"-"` // of To, in milliseconds since 1970 where Dated, or else its step
	Labels int     `json:"labels"`
	calibration.Means
	Ranked
}

// Dated reports whether the periods have dates.
func (r *Result) Dated() bool { return strings.Contains(r.Systems[0].OverTime[0].To, "T") }

// Capacity is how many nodes can be looked into in each stretch of time, in milliseconds. The zero value is none.
type Capacity struct {
	Count int
	Per   int64
	text  string
}

func (c Capacity) String() string { return c.text }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Capacity) UnmarshalText(text []byte) (err error) {
	count, per, _ := strings.Cut(string(text), "/")
	c.text, c.Per = string(text), spelling.Span("1"+per)
	if c.Count, err = strconv.Atoi(count); err != nil || c.Count < 1 || c.Per == 0 {
		return fmt.Errorf("%.40q: give how many nodes can be looked into, such as 50/d, in d, h or m", text)
	}
	return nil
}

// Caught is what a capacity brings: in each stretch of time the nodes that are most probably of the ranked class, or of the
// rarest, are looked into, with hindsight of what else comes in it.
type Caught struct {
	Class     string  `json:"class"`
	Looked    float64 `json:"looked_into"`
	Caught    float64 `json:"caught"`
	Recall    float64 `json:"recall"`
	Precision float64 `json:"precision"`
}

// mostPeriods is the number of parts of a stream.
const mostPeriods = 10

// result scores all systems on the labels of the stream, or on those of them that Own has.
func (r *run) result(systems []string) *Result {
	s := r.Set
	res := &Result{
		Data: s.Name, Split: s.Split.How, Model: r.Model.ID, Classes: s.Classes, Train: len(s.Split.Train), Context: len(s.Split.Warmup),
		run: r,
	}
	periods := make([][]int32, min(mostPeriods, len(s.Split.Steps))) // scored nodes
	notDue := make(map[int32]bool)
	for _, v := range r.due[len(r.due)-1] {
		notDue[v] = true
	}
	var all []int32
	for t, nodes := range s.Split.Steps {
		p := t * len(periods) / len(s.Split.Steps)
		for _, v := range nodes {
			res.Stream++
			if s.Labels[v] == dataset.Unlabelled || slices.ContainsFunc(r.Own, func(own *Own) bool { return !own.Has[v] }) {
				continue
			}
			if s.LabelTime != nil && s.LabelTime[v] == dataset.Never {
				res.Never++
			} else if notDue[v] {
				res.NotDue++
			}
			periods[p], all = append(periods[p], v), append(all, v)
		}
	}
	res.Labels = len(all)
	for _, name := range systems {
		var x System
		x, res.Ranked = r.system(name, all)
		for _, nodes := range periods {
			if len(nodes) > 0 {
				x.OverTime = append(x.OverTime, r.period(name, nodes))
			}
		}
		if class := r.rarest(all); r.Capacity.Count > 0 && class >= 0 {
			x.Capacity = r.caught(name, all, class)
		}
		res.Systems = append(res.Systems, x)
	}
	return res
}

// of returns the probabilities that nodes were given, as they are published, and their labels.
func (r *run) of(system string, nodes []int32) (probs []float64, labels []int32) {
	for _, v := range nodes {
		for _, p := range r.row(system, v) {
			probs = append(probs, float64(float32(p)))
		}
		labels = append(labels, r.Set.Labels[v])
	}
	return probs, labels
}

// system scores a system on nodes, and returns the class that is ranked.
func (r *run) system(name string, nodes []int32) (x System, ranked string) {
	probs, labels := r.of(name, nodes)
	classes := len(r.Set.Classes)
	x = System{Name: name, ByClass: []ByClass{}, OverTime: []Period{}}
	for _, score := range calibration.ScoreRows(probs, classes, labels) {
		x.Tally.Add(&score)
	}
	x.Means = x.Tally.Means()
	ranks := Ranks(probs, r.Set.Classes, labels)
	for _, rank := range ranks {
		c := slices.Index(r.Set.Classes, rank.Class)
		var odds calibration.Odds
		for i, y := range labels {
			odds.Add(probs[i*classes+c], int(y) == c, 1)
		}
		by := ByClass{Rank: rank}
		by.ECE, by.Chance = odds.ECE()
		x.ByClass = append(x.ByClass, by)
	}
	x.Ranked, ranked = Overall(ranks)
	return x, ranked
}

// period scores a part of the stream.
func (r *run) period(name string, nodes []int32) Period {
	x, _ := r.system(name, nodes)
	p := Period{Labels: len(nodes), Means: x.Means, Ranked: x.Ranked}
	first, last := nodes[0], nodes[len(nodes)-1]
	if r.Set.Time != nil {
		p.From, p.To, p.At = r.Set.FormatTime(r.Set.Time[first]), r.Set.FormatTime(r.Set.Time[last]), r.Set.Time[last]
		return p
	}
	step := func(v int32) int {
		return 1 + slices.IndexFunc(r.Set.Split.Steps, func(nodes []int32) bool { return slices.Contains(nodes, v) })
	}
	p.From, p.To, p.At = fmt.Sprint(step(first)), fmt.Sprint(step(last)), float64(step(last))
	return p
}

// rarest returns the class with the fewest labels among nodes, -1 if there is one class alone.
func (r *run) rarest(nodes []int32) int {
	counts := make([]int, len(r.Set.Classes))
	for _, v := range nodes {
		counts[r.Set.Labels[v]]++
	}
	least := -1
	for c, n := range counts {
		if n > 0 && n < len(nodes) && (least < 0 || n < counts[least]) {
			least = c
		}
	}
	return least
}

// caught looks into the nodes of each stretch of time. Of equal probabilities each node is looked into with the same chance.
func (r *run) caught(name string, nodes []int32, class int) *Caught {
	x := &Caught{Class: r.Set.Classes[class]}
	stretches := make(map[int64][]int32)
	of := 0.0
	for _, v := range nodes {
		at, _ := r.Set.Milliseconds(v)
		stretches[at/r.Capacity.Per] = append(stretches[at/r.Capacity.Per], v)
		if int(r.Set.Labels[v]) == class {
			of++
		}
	}
	p := func(v int32) float32 { return float32(r.row(name, v)[class]) }
	for _, at := range slices.Sorted(maps.Keys(stretches)) {
		in := stretches[at]
		slices.SortStableFunc(in, func(a, b int32) int { return cmp.Compare(p(b), p(a)) })
		left := float64(r.Capacity.Count)
		for i := 0; i < len(in) && left > 0; {
			begin, hits := i, 0.0
			for ; i < len(in) && p(in[i]) == p(in[begin]); i++ {
				if int(r.Set.Labels[in[i]]) == class {
					hits++
				}
			}
			take := math.Min(left, float64(i-begin))
			x.Looked += take
			x.Caught += hits * take / float64(i-begin)
			left -= take
		}
	}
	x.Recall, x.Precision = x.Caught/of, x.Caught/x.Looked
	return x
}
