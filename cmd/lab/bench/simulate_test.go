package bench

import (
	"math"
	"math/rand/v2"
	"testing"
)

// base is a simulation of four shards with round numbers, a constant hop of 2 ms and free
// messages.
func base() simulation {
	return simulation{
		shards: 4, window: 1000, labels: 1, lag: 8, depth: 8, ahead: 8, hop: hop{p50: 2, p99: 2}, count: 800,
		costs: stageCosts{input: 100, enter: 4000, serve: 800, publish: 200, learn: 500},
	}
}

// TestSimulationLimits: where one thing alone limits a sharded graph, the simulated rate is
// the one that follows on paper.
func TestSimulationLimits(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*simulation)
		period float64 // nanoseconds between windows
	}{
		{"one worker enters, serves and learns in turn, without messages", func(s *simulation) {
			s.shards, s.lag, s.hop, s.costs.send, s.costs.receiveByte, s.costs.part = 1, 0, hop{3, 15}, 1e6, 10, 100
		}, 1000 * (4000 + 800 + 500)},
		{"one worker with a learner beside it", func(s *simulation) { s.shards, s.lag = 1, 1 }, 1000 * (4000 + 800)},
		{"entering ahead, a hop costs nothing", func(*simulation) {}, 1000 * (4000 + 800/4)},
		{"a barrier each window: the parts take a hop", func(s *simulation) { s.ahead = 1 }, 1000*(4000+800/4) + 2e6},
		{"… and what sending and receiving them takes", func(s *simulation) {
			s.ahead, s.costs.send, s.costs.receive, s.costs.part, s.costs.sendByte, s.costs.receiveByte = 1, 1000, 3000, 10, 1, 2
		}, 1000*(4000+800/4) + 2e6 + 1000 + 3*2500 + 3000 + 3*2*2500},
		{"without a lag, rows and heads take two hops more", func(s *simulation) { s.lag, s.costs.enter = 0, 400 }, 1000*(800/4+500) + 4e6},
		{"… of which a barrier hides the entering", func(s *simulation) { s.lag, s.ahead = 0, 1 }, 1000*(4000+800/4) + 2e6},
		{"the learner", func(s *simulation) { s.costs.learn = 9000 }, 1000 * 9000},
		{"the learner has a tenth of the labels", func(s *simulation) { s.costs.learn, s.labels = 90_000, .1 }, 1000 * 9000},
		{"decoding", func(s *simulation) { s.costs.input = 7000 }, 1000 * 7000},
		{"publishing", func(s *simulation) { s.costs.publish = 40_000 }, 1000 * 10_000},
		{"cuts, each read back before the next", func(s *simulation) { s.costs.enter, s.costs.serve, s.costs.learn = 1, 1, 1 }, 2e6},
		{"flow control: cut, parts and rows take three hops", func(s *simulation) { s.depth, s.hop = 1, hop{20, 20} }, 1000*(4000+800/4) + 3*20e6},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := base()
			test.change(&s)
			got, want := s.run().perSecond, float64(s.window)*1e9/test.period
			if math.Abs(got/want-1) > 0.002 {
				t.Errorf("got %.0f arrivals/s, want %.0f", got, want)
			}
		})
	}
}

// TestSimulationBusiest: the busiest thread is the one that limits, and it is busy nearly
// all the time; a barrier leaves it idle.
func TestSimulationBusiest(t *testing.T) {
	s := base()
	if got := s.run(); got.busiest != "engine" || got.use < 0.98 {
		t.Errorf("got %v, want an engine that is always busy", got)
	}
	s.costs.learn = 9000
	if got := s.run(); got.busiest != "the learner" || got.use < 0.98 {
		t.Errorf("got %v, want a learner that is always busy", got)
	}
	s = base()
	s.ahead = 1
	if got := s.run(); math.Abs(got.use-4.2/6.2) > 0.01 {
		t.Errorf("got %v, want an engine that is busy for 4.2 of 6.2 ms", got)
	}
}

// TestSimulationLatency: with few arrivals, a prediction is visible after the cut's hop,
// entering, the parts' hop, serving, publishing and a last hop.
func TestSimulationLatency(t *testing.T) {
	s := base()
	s.rate = 10_000
	got := s.run()
	want := (1000*(100+4000+800/4+200/4) + 3*2e6) / 1e6
	if math.Abs(got.median-want) > 0.001 || math.Abs(got.p99-want) > 0.001 || math.Abs(got.perSecond/s.rate-1) > 0.001 {
		t.Errorf("got %v at %.0f arrivals/s, want %.2f ms at %.0f", got, got.perSecond, want, s.rate)
	}
}

// TestSimulationHop: the hop has the given percentiles.
func TestSimulationHop(t *testing.T) {
	h, rng := hop{p50: 3, p99: 15}, rand.New(rand.NewPCG(1, 1))
	below := [2]int{}
	const draws = 100_000
	for range draws {
		x := h.draw(rng) / 1e6
		if x <= 3 {
			below[0]++
		}
		if x <= 15 {
			below[1]++
		}
	}
	if a, b := float64(below[0])/draws, float64(below[1])/draws; math.Abs(a-.5) > .01 || math.Abs(b-.99) > .002 {
		t.Errorf("got %.3f of the hops within 3 ms and %.3f within 15, want .5 and .99", a, b)
	}
}

// TestSimulationRepeats: a simulation gives the same result again; another seed gives
// about the same; and longer tails cost a barrier time.
func TestSimulationRepeats(t *testing.T) {
	s := base()
	s.hop, s.ahead = hop{1, 5}, 1
	a, b := s.run(), s.run()
	if a != b {
		t.Errorf("got %+v and then %+v", a, b)
	}
	s.seed = 1
	if c := s.run(); c == a || math.Abs(c.perSecond/a.perSecond-1) > 0.05 {
		t.Errorf("got %v arrivals/s with another seed and %v with the first, want about the same", c.perSecond, a.perSecond)
	}
	s.hop.p99 = 15
	if c := s.run(); c.perSecond > 0.9*a.perSecond {
		t.Errorf("got %v arrivals/s with a p99 of 15 ms and %v with 5", c.perSecond, a.perSecond)
	}
}
