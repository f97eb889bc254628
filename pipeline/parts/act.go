package parts

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/setting"
	"github.com/gvbll/gvbll/pipeline/store"
)

// Acting says on which predictions to act: on the most probable ones of a class, as many as can be
// acted on in a stretch of event time, or on those where it pays. The zero value acts on none.
type Acting struct {
	Class    string
	Capacity float64 // nodes in a Per; 0 for a Ratio
	Per      int64   // event time, milliseconds
	// Ratio is what it costs to miss a node of the class, where acting on another node costs 1.
	Ratio float64
}

var actingText = regexp.MustCompile(`^class=(.+),(?:capacity=([0-9.]+)/([smhd])|cost=([0-9.]+):([0-9.]+))$`)

// ParseActing reads class=NAME,capacity=N/h (or s, m, d) and class=NAME,cost=MISSED:ACTED, and "" for
// none.
func ParseActing(text string) (a Acting, err error) {
	if text == "" {
		return a, nil
	}
	if m := actingText.FindStringSubmatch(text); m != nil {
		a = Acting{Class: m[1], Per: periods[periodNamed(m[3])].ms}
		if a.Per != 0 {
			a.Capacity, err = strconv.ParseFloat(m[2], 64)
		} else {
			var missed, acted float64
			if missed, err = strconv.ParseFloat(m[4], 64); err == nil {
				acted, err = strconv.ParseFloat(m[5], 64)
			}
			a.Ratio = missed / acted
		}
	}
	if err != nil || !(a.Capacity >= 1 && a.Capacity <= 1e9 || a.Ratio > 0 && a.Ratio <= 1e9) {
		return Acting{}, fmt.Errorf("%.100q: give class=NAME,capacity=N/h (or s, m, d), or "+
			"class=NAME,cost=MISSED:ACTED, such as class=fraud,capacity=50/h", text)
	}
	return a, nil
}

// acts counts the predictions that say to act on them.
var acts = figure.New(figure.Figure{
	Name: "acts_total", Help: "Predictions served with the advice to act on them (--act).", Words: "predictions to act on",
	Advice: "Below `capacity=`: fewer nodes arrive, or without a time. 0 with `cost=`: no probability is high enough.",
})

// Acted are the figures of what acting brought, by the labels that came.
var Acted = struct{ Caught, Vain, Missed, Saved *figure.Figure }{
	Caught: acted.Of("caught", "acted on, and of the class"),
	Vain:   acted.Of("vain", "acted on, and of another class"),
	Missed: acted.Of("missed", "of the class, and not acted on"),
	Saved: figure.New(figure.Figure{
		Name:   "acts_saved_total",
		Help:   "What it would have cost to miss the nodes that were caught, in units of what acting in vain costs.",
		Advice: "Less those acted on in vain, what acting was worth. 0 with `capacity=`.",
	}),
}

var acted = figure.Family{
	Name: "acted_labels_total", Label: "result",
	Help:   "Scored labels by what acting brought (--act): caught, vain (of another class), missed (not acted on).",
	Advice: "Precision and recall of acting: `GvbllClassWorse`.",
}

// DeclareActing declares the text of an Acting.
func DeclareActing(l *setting.List, text *string) {
	setting.AddText(l, setting.Setting{
		Name: "act", Group: "sets", Kept: setting.Optional, Placeholder: "class=NAME,...",
		Help: "Say in every prediction whether to act on it: class=fraud,capacity=50/h on the 50 most probable an " +
			"hour (s, m, d), cost=100:1 where missing one costs 100 times acting in vain (docs/transactions.md).",
	}, text, ParseActing)
}

// Actor is the observer that says of every prediction whether to act on it. With a capacity K, it
// acts on at most K nodes of each Per of event time, and on K of them if there are so many:
// with K' of these left, and M arrivals to come until its end, on the next one if that is in the upper K'/M of
// what was served. So the threshold follows the stream, and what was missed or spent early is made up
// for until the end. M is the rate of arrivals times the time that is left. The rate and the
// distribution are of this Per and those before, each counting half of the one after it.
type Actor struct {
	Acting
	class   int32
	pace    pace
	pending *serve.Pending

	kept   store.SlotTable[uint8] // by slot of pending: spared, chosen or unknown
	joined []result               // of the window's labels
	order  []int32                // scratch
}

// What was said of a pending node: not to act, to act, or nothing that is known, by a checkpoint that does not say.
const (
	spared = uint8(iota)
	chosen
	unknown
)

// result is what was said of a node whose label has come, and whether this is the class.
type result struct {
	said uint8
	is   bool
}

// pace is the state of a capacity.
type pace struct {
	counts [actBins]float64 // of probabilities, by bin of odds
	rows   float64          // their sum
	span   float64          // the event time in which they came, without the part in this Per, milliseconds
	credit float64          // of a bin that the threshold divides: the part of a node that was not acted on yet

	last   [3]int64 // event times of the latest arrivals, the newest last
	clock  int64    // event time, 0 before the first
	from   int64    // where it began in this Per
	acted  int64    // in this Per
	behind int64    // arrivals in a row that were far behind the clock
}

// NewActor returns an actor that has seen no nodes. The model must have the class.
func NewActor(text string, m *model.Model, pending *serve.Pending) (*Actor, error) {
	cfg, err := ParseActing(text)
	if err != nil {
		return nil, err
	}
	class := slices.Index(m.Classes, cfg.Class)
	if class < 0 {
		return nil, fmt.Errorf("--act class=%s: model %s has no such class: give one of %.200q", cfg.Class, m.ID, m.Classes)
	}
	return &Actor{Acting: cfg, class: int32(class), pending: pending, kept: store.NewSlotTable[uint8](1)}, nil
}

// Observer returns a as an observer. Whether to act does not depend on labels.
func (a *Actor) Observer() serve.Observer {
	return serve.Observer{Served: a.Served, Matched: a.matched, Scored: a.Scored, State: a.State}
}

func (a *Actor) matched(slot, class int32) {
	a.joined = append(a.joined, result{a.kept.Row(slot)[0], class == a.class})
}

// Scored counts what acting brought, and says of labels whether their prediction said to act.
func (a *Actor) Scored(out *event.Outcome) {
	for i, r := range a.joined {
		if r.said != unknown {
			out.Labelled[i].Act = &answers[r.said]
		}
		switch {
		case r.said == chosen && r.is:
			out.Figures.Count(Acted.Caught, 1)
			out.Figures.Add(Acted.Saved, a.Ratio)
		case r.said == chosen:
			out.Figures.Count(Acted.Vain, 1)
		case r.said == spared && r.is:
			out.Figures.Count(Acted.Missed, 1)
		}
	}
	a.joined = a.joined[:0]
}

// Follow replaces what was said of a window's arrivals by what another model, which serves, has published.
func (a *Actor) Follow(published []event.Prediction, number func(event.ID) (int32, bool)) {
	eachWaiting(published, a.pending, number, func(slot int32, p *event.Prediction) {
		if p.Act != nil {
			a.keep(slot, *p.Act)
		}
	})
}

func (a *Actor) keep(slot int32, act bool) {
	said := spared
	if act {
		said = chosen
	}
	a.kept.Set(slot, []uint8{said})
}

// answers are what Prediction.Act points to.
var answers = [2]bool{false, true}

// Served decides for the window's arrivals, in the order of their event times.
func (a *Actor) Served(x *serve.Entered) {
	a.order = byTime(x.Out.Predictions, a.order)
	for _, i := range a.order {
		p := &x.Out.Predictions[i]
		odds := float64(p.Probabilities[a.class]) / max(1-float64(p.Probabilities[a.class]), 0)
		p.Act = &answers[0]
		if a.Ratio > 0 && odds > 1/a.Ratio || a.Ratio == 0 && a.pace.take(odds, p.Time, a.Capacity, a.Per) {
			p.Act = &answers[1]
			x.Out.Figures.Count(acts, 1)
		}
		a.keep(x.Arrivals[i].Slot, *p.Act)
	}
}

// take decides for one arrival of a capacity.
func (p *pace) take(odds float64, time int64, capacity float64, per int64) bool {
	p.advance(time, per)
	bin := actBin(odds)
	left, arrivals := capacity-float64(p.acted), p.toCome(per)
	above, i := 0.0, actBins-1
	for wanted := float64(p.rows * (left / max(arrivals, left))); i >= bin; i-- {
		if i == bin && left >= 1 {
			// The threshold may divide a bin: then so many of its nodes are acted on.
			p.credit += min(max((wanted-above)/max(p.counts[bin], 1), 0), 1)
		}
		above += p.counts[i]
	}
	p.counts[bin]++
	p.rows++
	if p.credit < 1 || left < 1 {
		return false
	}
	p.credit--
	p.acted++
	return true
}

// toCome returns the number of arrivals that are expected until the end of this Per.
func (p *pace) toCome(per int64) float64 {
	elapsed := p.span + float64(p.clock-p.from)
	if elapsed <= 0 {
		return math.Inf(1) // nothing is known of the rate yet
	}
	return p.rows / elapsed * float64(per-p.clock%per)
}

// advance moves the clock by the time of an arrival, 0 for none. It is the median of three, so that
// one clock that is wrong does not move it. It does not go back, unless a hundred arrivals in a
// row are so far behind that it must have been wrong.
func (p *pace) advance(time, per int64) {
	if time <= 0 {
		return
	}
	p.last = [3]int64{p.last[1], p.last[2], time}
	now := max(min(p.last[0], p.last[1]), min(max(p.last[0], p.last[1]), time))
	if now == 0 { // the first two
		now = time
	}
	if p.behind++; now > p.clock-2*per {
		p.behind = 0
	}
	if p.clock == 0 || p.behind >= 100 {
		p.clock, p.from = now, now
		return
	}
	if now/per > p.clock/per {
		for i := range p.counts {
			p.counts[i] /= 2
		}
		p.rows /= 2
		end := p.clock - p.clock%per + per
		p.span = (p.span + float64(end-p.from)) / 2
		p.from, p.acted = now-now%per, 0
		if now/per > end/per { // nothing came for a while, which says nothing of the rate
			p.from = now
		}
	}
	p.clock = max(p.clock, now)
}

// actBins is the number of bins of odds, eight to an octave, from 2^-40 on.
const actBins = 512

func actBin(odds float64) int {
	if !(odds > 0) {
		return 0
	}
	return min(max(int(math.Float64bits(odds)>>49)-(1023-40)*8, 0), actBins-1)
}

// State declares what was said of pending nodes, which checkpoints of 1.0.0 do not have, and the pace of a capacity.
func (a *Actor) State(s *snapshot.Schema) {
	if n := a.pending.Nodes.Len(); s.Has("act.kept", n > 0) {
		store.DeclareRows(s, "act.kept", &a.kept, a.pending.Nodes.WalkSlots(), n, func(said uint8) bool { return said <= unknown })
	} else {
		s.Check(func() error {
			for slot := range int32(a.pending.Nodes.Len()) {
				a.kept.Set(slot, []uint8{unknown})
			}
			return nil
		})
	}
	if a.Ratio > 0 {
		return
	}
	p := &a.pace
	counts, sums := p.counts[:], []float64{p.rows, p.span, p.credit}
	times := append(p.last[:len(p.last):len(p.last)], p.clock, p.from, p.acted, p.behind)
	snapshot.Slice(s, "act.counts", &counts, actBins)
	snapshot.Slice(s, "act.sums", &sums, len(sums))
	snapshot.Slice(s, "act.times", &times, len(times))
	s.Check(func() error {
		for _, x := range slices.Concat(counts, sums) {
			if !(x >= 0 && x <= math.MaxInt64) {
				return snapshot.Damaged("a count of probabilities to act on is %v", x)
			}
		}
		if slices.Min(times) < 0 || times[4] > times[3] {
			return snapshot.Damaged("the times of nodes to act on are %v", times)
		}
		*p = pace{
			rows: sums[0], span: sums[1], credit: sums[2], last: [3]int64(times), clock: times[3], from: times[4],
			acted: times[5], behind: times[6],
		}
		copy(p.counts[:], counts)
		return nil
	})
}
