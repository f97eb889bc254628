package parts

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/setting"
	"github.com/gvbll/gvbll/pipeline/store"
)

// Asking says of how many nodes labels are asked for. The zero value asks for none.
type Asking struct {
	Budget float64 // nodes in a Per of event time
	Per    Period
	// Random is the share of the budget that is spent whatever was predicted, above 0 and up to
	// 1: so every node has a probability of being asked for.
	Random float64
}

// Period is a stretch of event time, from 1.
type Period uint8

// Periods.
const (
	Second Period = 1 + iota
	Minute
	Hour
	Day
)

// periods have the names of the periods and their milliseconds.
var periods = [...]struct {
	name string
	ms   int64
}{{}, {"s", 1000}, {"m", 60_000}, {"h", 3_600_000}, {"d", 86_400_000}}

// periodNamed returns the period of a name, 0 if there is none.
func periodNamed(name string) Period {
	for i := range periods {
		if periods[i].name == name {
			return Period(i)
		}
	}
	return 0
}

// defaultRandom is Asking.Random where the text has none.
const defaultRandom = 0.1

// String returns the text that ParseAsking reads, such as 100/d,random=0.1, and "" for none.
func (a Asking) String() string {
	if a == (Asking{}) {
		return ""
	}
	return fmt.Sprintf("%v/%s,random=%v", a.Budget, periods[a.Per%Period(len(periods))].name, a.Random)
}

// ParseAsking reads a budget, and the share of it that is spent at random if that is not a tenth.
func ParseAsking(text string) (a Asking, err error) {
	if text == "" {
		return a, nil
	}
	budget, random, more := strings.Cut(text, ",")
	number, unit, _ := strings.Cut(budget, "/")
	a.Per, a.Random = periodNamed(unit), defaultRandom
	a.Budget, err = strconv.ParseFloat(number, 64)
	if share, is := strings.CutPrefix(random, "random="); more && is && err == nil {
		a.Random, err = strconv.ParseFloat(share, 64)
	} else if more {
		a.Per = 0
	}
	switch {
	case err != nil || a.Per == 0 || !(a.Budget >= 1 && a.Budget <= 1e9):
		return Asking{}, fmt.Errorf("%.100q: give a number of nodes from 1 in a second, minute, hour or day, such as "+
			"100/d, and random=SHARE after a comma", text)
	case !(a.Random > 0 && a.Random <= 1):
		return Asking{}, fmt.Errorf("random=%v: give a share above 0, and up to 1", a.Random)
	}
	return a, nil
}

// Declare declares the budget.
func (a *Asking) Declare(l *setting.List) {
	l.Add(setting.Setting{
		Name: "ask", Group: "update", Kept: setting.Optional, Placeholder: "NUMBER/UNIT,...",
		Help: "Ask for so many labels a s, m, h or d, in the topic to-label: a share at random, the others by what " +
			"they would tell, such as 100/d,random=0.1 (docs/labels.md).",
		Value: setting.Parsed(a, ParseAsking),
	})
	l.Check(func() error {
		if again, err := ParseAsking(a.String()); err != nil || again != *a {
			return fmt.Errorf("ask %v: %w", *a, err)
		}
		return nil
	})
}

// Asked are the figures of asking. Those that are weighed have 1/π of each label, which was asked for
// with a known probability π: divided by Weight they estimate the mean over all nodes (Hájek, 1971).
var Asked = struct {
	Nodes, Labels, Correct, LogLoss                                 *figure.Figure
	Weight, WeighedCorrect, WeighedLogLoss, Squares, CorrectSquares *figure.Figure
}{
	Nodes: figure.New(figure.Figure{
		Name: "asked_nodes_total", Help: "Nodes of which labels were asked for.", Words: "nodes whose label was asked for",
		Advice: "Its rate is the budget of `--ask`.",
	}),
	Labels: figure.New(figure.Figure{
		Name: "asked_labels_total", Help: "Scored labels that were asked for; the others came by themselves.",
		Words:  "labels that were asked for",
		Advice: "Far below those asked for: nobody answers. While it rises, scores over all labels are not of all nodes.",
	}),
	Correct: figure.New(figure.Figure{
		Name: "asked_correct_total", Help: "Labels among them that had been predicted.",
		Advice: "",
	}),
	LogLoss: figure.New(figure.Figure{
		Name: "asked_log_loss_nats_total", Help: "Sum of their log losses.", Advice: "",
	}),
	Weight: figure.New(figure.Figure{
		Name:   "asked_weight_total",
		Help:   "Sum of their weights, the inverse probabilities of being asked for: an estimate of the number of all nodes.",
		Advice: "Divides the next two. Below arrivals: not all answer.",
	}),
	WeighedCorrect: figure.New(figure.Figure{
		Name:   "asked_weighed_correct_total",
		Help:   "Sum of the weights of those that had been predicted: an estimate of the accuracy for all nodes.",
		Advice: "See [labels.md](labels.md).",
	}),
	WeighedLogLoss: figure.New(figure.Figure{
		Name: "asked_weighed_log_loss_nats_total", Help: "Sum of their log losses, each times its weight.",
		Advice: "An estimate of the NLL for all nodes.",
	}),
	Squares: figure.New(figure.Figure{
		Name: "asked_weight_squares_total", Help: "Sum of the squares of their weights.",
		Advice: "Gives the standard error of the estimates.",
	}),
	CorrectSquares: figure.New(figure.Figure{
		Name: "asked_weighed_correct_squares_total", Help: "Sum of the squares of the weights of those that had been predicted.",
		Advice: "As the one before.",
	}),
}

// Asker is the observer that chooses the nodes of which labels are asked for, when they are served.
//
// A node is asked for with a probability, and independently of all others given what came before. It
// is in proportion to the mutual information of its prediction, save for the random share, and the
// budget sets its level. So a label that was asked for stands for 1/probability nodes
// (Horvitz and Thompson, 1952).
//
// Sums over the past forget it within a period of event time, as exp(−t/Per). The level is
// (5A−4K)/N for the number A that may be asked for, K that were, and N of nodes. In a steady stream A
// is the budget, and K is it too; where the pace or the information changes by a factor c within a
// period, K comes to 5c/(1+4c) of it.
type Asker struct {
	Asking
	model   *model.Model
	pending *serve.Pending

	kept   store.SlotTable[float32] // by slot of pending: the probability of a node that was asked for, else 0
	joined []float32                // of the window's labels
	order  []int32                  // scratch

	clock                         int64 // event time, 0 before the first
	allowed, asked, nodes, summed float64
}

// NewAsker returns an asker that has seen no nodes.
func NewAsker(cfg Asking, m *model.Model, pending *serve.Pending) *Asker {
	return &Asker{Asking: cfg, model: m, pending: pending, kept: store.NewSlotTable[float32](1)}
}

// Observer returns a as an observer.
func (a *Asker) Observer() serve.Observer {
	return serve.Observer{Served: a.served, Matched: a.matched, Scored: a.scored, State: a.state}
}

// served chooses among the window's arrivals, in the order of their event times.
func (a *Asker) served(x *serve.Entered) {
	a.joined, a.order = a.joined[:0], byTime(x.Out.Predictions, a.order)
	for _, i := range a.order {
		p := &x.Out.Predictions[i]
		if !a.model.TrainedOn(p.Node) { // no label of those is learned
			if share := float32(a.probability(p)); draw(p) < float64(share) {
				p.Asked = share
				x.Out.Figures.Count(Asked.Nodes, 1)
				a.asked++
			}
		}
		a.kept.Set(x.Arrivals[i].Slot, []float32{p.Asked})
	}
}

// probability returns the one with which to ask for a node, above 0, and counts the node.
func (a *Asker) probability(p *event.Prediction) float64 {
	a.clock = cmp.Or(a.clock, p.Time)
	if t := min(p.Time-a.clock, periods[a.Per].ms); t > 0 { // one time that is far ahead moves the clock by a period
		a.clock += t
		keep := double.Exp(-float64(t) / float64(periods[a.Per].ms))
		a.allowed = float64(a.allowed*keep) + float64(a.Budget*(1-keep))
		a.asked, a.nodes, a.summed = a.asked*keep, a.nodes*keep, a.summed*keep
	}
	information := max(float64(p.Epistemic), 0)
	a.nodes++
	a.summed += information
	relative := 1.0
	if a.summed > 0 {
		relative = information * a.nodes / a.summed
	}
	level := max(float64(5*a.allowed)-float64(4*a.asked), 1) / a.nodes
	return min(level*(a.Random+float64((1-a.Random)*relative)), 1)
}

// draw returns a number in [0, 1) that depends on the node and the window alone.
func draw(p *event.Prediction) float64 {
	h := uint64(14695981039346656037) // FNV-1a
	add := func(x uint64) { h = (h ^ x) * 1099511628211 }
	for i := range len(p.Node.Str) {
		add(uint64(p.Node.Str[i]))
	}
	for _, n := range [...]int64{p.Node.Num, p.Window} {
		for k := range 8 {
			add(uint64(n) >> (8 * k) & 0xff)
		}
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9 // SplitMix64's finalizer
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return float64((h^h>>31)>>11) / (1 << 53)
}

// matched notes the node's probability.
func (a *Asker) matched(slot, _ int32) { a.joined = append(a.joined, a.kept.Row(slot)[0]) }

// scored says of each label whether it was asked for, and sums the scores of those.
func (a *Asker) scored(out *event.Outcome) {
	f := &out.Figures
	for i, p := range a.joined {
		l := &out.Labelled[i]
		if l.Asked = p; p == 0 {
			continue
		}
		score, weight := &out.Heads[l.By].Scores[i], 1/float64(p)
		f.Count(Asked.Labels, 1)
		f.Add(Asked.LogLoss, score.LogLoss)
		f.Add(Asked.Weight, weight)
		f.Add(Asked.Squares, weight*weight)
		f.Add(Asked.WeighedLogLoss, weight*score.LogLoss)
		if score.Correct {
			f.Count(Asked.Correct, 1)
			f.Add(Asked.WeighedCorrect, weight)
			f.Add(Asked.CorrectSquares, weight*weight)
		}
	}
}

// Follow replaces what was chosen among a window's arrivals by what another model, which serves, has
// published.
func (a *Asker) Follow(published []event.Prediction, number func(event.ID) (int32, bool)) {
	eachWaiting(published, a.pending, number, func(slot int32, p *event.Prediction) { a.kept.Set(slot, []float32{p.Asked}) })
}

// state declares the sums, and the probabilities of pending nodes.
func (a *Asker) state(s *snapshot.Schema) {
	clock, sums := []int64{a.clock}, []float64{a.allowed, a.asked, a.nodes, a.summed}
	snapshot.Slice(s, "ask.clock", &clock, 1)
	snapshot.Slice(s, "ask.sums", &sums, len(sums))
	store.DeclareRows(s, "ask.kept", &a.kept, a.pending.Nodes.WalkSlots(), a.pending.Nodes.Len(),
		func(p float32) bool { return p >= 0 && p <= 1 })
	s.Check(func() error {
		for _, x := range sums {
			if !(x >= 0 && x <= 1e18) {
				return snapshot.Damaged("nodes to be labelled: the sums are %v", sums)
			}
		}
		a.clock, a.allowed, a.asked, a.nodes, a.summed = clock[0], sums[0], sums[1], sums[2], sums[3]
		return nil
	})
}
