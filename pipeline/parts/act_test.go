package parts_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/serve"
)

// payments is a stream of payments, some 1,000 an hour by day and 250 by night, of which one in 300
// is a fraud. In the middle of it, all probabilities become six times as large within an hour.
type payments struct {
	rng  *rand.Rand
	time float64 // hours
}

func (s *payments) next() (p event.Prediction, fraud bool) {
	s.time += s.rng.ExpFloat64() / (625 + 375*math.Sin(2*math.Pi*s.time/24))
	odds := -9 + 2.2*s.rng.NormFloat64()
	fraud = s.rng.Float64() < 1/(1+math.Exp(-odds))
	if s.time > 60 {
		odds += 1.8
	}
	q := float32(1 / (1 + math.Exp(-odds)))
	return event.Prediction{Time: 1 + int64(s.time*3.6e6), Probabilities: []float32{1 - q, q}}, fraud
}

func actor(t *testing.T, text string) *parts.Actor {
	t.Helper()
	a, err := parts.NewActor(text, &model.Model{Meta: model.Meta{Classes: []string{"ok", "fraud"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// decide serves predictions in windows of n, and returns whether to act on each.
func decide(a *parts.Actor, list []event.Prediction, n int) (acts []bool) {
	for window := range slices.Chunk(list, n) {
		out := &event.Outcome{Predictions: slices.Clone(window)}
		entered := &serve.Entered{Out: out}
		entered.Arrivals = slices.Grow(entered.Arrivals, len(window))[:len(window)]
		a.Served(entered)
		for i := range out.Predictions {
			acts = append(acts, *out.Predictions[i].Act)
		}
	}
	return acts
}

// TestCapacity: in every hour of event time but the first, as many nodes are acted on as can be, by
// day and by night and through a jump of all probabilities, and never more. They are worth
// nearly as much as the most probable ones of each hour, which nobody can know before it ends.
func TestCapacity(t *testing.T) {
	const hours, capacity = 120, 50
	s := &payments{rng: rand.New(rand.NewPCG(1, 2))}
	var list []event.Prediction
	var frauds []bool
	for s.time < hours {
		p, fraud := s.next()
		list, frauds = append(list, p), append(frauds, fraud)
	}
	acts := decide(actor(t, "class=fraud,capacity=50/h"), list, 7)
	var acted [hours + 1]int
	var by [hours + 1][]int
	caught, best := 0, 0
	for i, act := range acts {
		h := list[i].Time / 3_600_000
		by[h] = append(by[h], i)
		if act {
			acted[h]++
			if frauds[i] {
				caught++
			}
		}
	}
	for h := 1; h < hours; h++ {
		if acted[h] < capacity*9/10 || acted[h] > capacity+1 { // the clock is one arrival behind
			t.Errorf("in hour %d of %d arrivals, %d are acted on", h, len(by[h]), acted[h])
		}
		slices.SortFunc(by[h], func(i, j int) int {
			return int(math.Copysign(1, float64(list[j].Probabilities[1]-list[i].Probabilities[1])))
		})
		for _, i := range by[h][:capacity] {
			if frauds[i] {
				best++
			}
		}
	}
	t.Logf("%d frauds caught, of %d among the most probable of each hour", caught, best)
	if caught < best*85/100 {
		t.Errorf("%d frauds are caught, and %d are among the most probable of each hour", caught, best)
	}
}

// TestCapacityOfEqualProbabilities: where nothing tells nodes apart, the capacity is spread over the
// hour; and where fewer nodes arrive than can be acted on, all are.
func TestCapacityOfEqualProbabilities(t *testing.T) {
	for _, c := range []struct{ hourly, least, most int }{{1000, 45, 50}, {20, 18, 20}} {
		var list []event.Prediction
		for i := range 10 * c.hourly {
			list = append(list, event.Prediction{Time: 1 + int64(i)*3_600_000/int64(c.hourly), Probabilities: []float32{.9, .1}})
		}
		acts := decide(actor(t, "class=fraud,capacity=50/h"), list, 100)
		for h := 2; h < 10; h++ {
			first, all := 0, 0
			for i, act := range acts[h*c.hourly : (h+1)*c.hourly] {
				if act {
					if all++; i < c.hourly/2 {
						first++
					}
				}
			}
			if all < c.least || all > c.most || first < c.least*2/5 || first > c.most*3/5 {
				t.Errorf("of %d in hour %d, %d are acted on, %d of them in its first half", c.hourly, h, all, first)
			}
		}
	}
}

// TestClockOfCapacity: one arrival from the year 2100 changes nothing, and after a producer whose
// clock is wrong for hours, the capacity is used again.
func TestClockOfCapacity(t *testing.T) {
	const year2100 = 4_102_444_800_000
	count := func(spoil func(i int) bool) (acted int) {
		rng := rand.New(rand.NewPCG(3, 4))
		var list []event.Prediction
		for i := range 20_000 {
			p := rng.Float32()
			e := event.Prediction{Time: 1 + int64(i)*3600, Probabilities: []float32{1 - p, p}}
			if spoil(i) {
				e.Time = year2100 + int64(i)
			}
			list = append(list, e)
		}
		for _, act := range decide(actor(t, "class=fraud,capacity=50/h"), list, 10)[10_000:] {
			if act {
				acted++
			}
		}
		return acted
	}
	right, once, long := count(func(int) bool { return false }), count(func(i int) bool { return i == 10_500 }), count(func(i int) bool { return i > 2000 && i < 6000 })
	if right < 475 || right > 500 || once < 475 || once > 510 || long < 475 || long > 500 {
		t.Errorf("%d are acted on, %d with one clock that is wrong, and %d after many", right, once, long)
	}
}

// TestCost: with a cost, those are acted on where it pays, and no state decides.
func TestCost(t *testing.T) {
	a := actor(t, "class=fraud,cost=100:1")
	var list []event.Prediction
	for _, p := range []float32{0, .0098, .01, .5, 1} {
		list = append(list, event.Prediction{Probabilities: []float32{1 - p, p}})
	}
	if got := decide(a, list, 2); !slices.Equal(got, []bool{false, false, true, true, true}) {
		t.Errorf("acts %v", got)
	}
}

// TestParseActing: what cannot be done is refused.
func TestParseActing(t *testing.T) {
	for _, text := range []string{"class=fraud,capacity=50/h", "class=a,b=c,cost=2.5:1", "class=x,capacity=1/d", ""} {
		if a, err := parts.ParseActing(text); err != nil || (a == parts.Acting{}) != (text == "") {
			t.Errorf("%q is %+v, %v", text, a, err)
		}
	}
	for _, text := range []string{"fraud", "class=,capacity=1/h", "class=x,capacity=0/h", "class=x,capacity=5", "class=x,capacity=5/w", "class=x,cost=1:0", "class=x,cost=0:1", "class=x,cost=1", "class=x,capacity=1.2.3/h", "class=x,cost=1e9:1"} {
		if a, err := parts.ParseActing(text); err == nil {
			t.Errorf("%q is %+v", text, a)
		}
	}
	if _, err := parts.NewActor("class=theft,cost=2:1", &model.Model{Meta: model.Meta{Classes: []string{"ok", "fraud"}}}, nil); err == nil {
		t.Error("a class that the model lacks")
	}
}

// TestActing: when labels come, what was acted on is caught or in vain, and the rest of the class was missed, through a restart from a
// checkpoint, too.
func TestActing(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 1)
	cfg := pipeline.Config{Samples: 4, Act: "class=" + m.Classes[1] + ",cost=2:1"}
	e := pipelinetest.NewEngine(t, m, cfg)
	stream, said := pipelinetest.NewRandomStream(rng, m), make(map[event.ID]bool)
	var want, got [3]int
	saved := 0.0
	for n := range 60 {
		if n == 30 {
			var err error
			if e, _, err = pipelinetest.Restore(m, cfg, pipelinetest.SnapshotOf(t, e, nil)); err != nil {
				t.Fatal(err)
			}
		}
		out := e.Step(stream.Window())
		for i := range out.Predictions {
			said[out.Predictions[i].Node] = *out.Predictions[i].Act
		}
		for _, l := range out.Labelled {
			switch is, act := l.Class == 1, said[l.Node]; {
			case is && act:
				want[0]++
			case act:
				want[1]++
			case is:
				want[2]++
			}
		}
		for k, f := range []*figure.Figure{parts.Acted.Caught, parts.Acted.Vain, parts.Acted.Missed} {
			got[k] += out.Figures.Int(f)
		}
		saved += out.Figures.Of(parts.Acted.Saved)
	}
	if got != want || min(want[0], want[1], want[2]) == 0 || saved != float64(2*want[0]) {
		t.Errorf("caught, in vain and missed are %v, want %v; saved %v", got, want, saved)
	}
}
