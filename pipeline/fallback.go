package pipeline

import (
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
)

// fallback decides which of the paper's heads serves: the online one, or, where that
// did worse, the static one.
//
// With Δ_t the log loss of the online head less that of the static one, summed over
// the labels of window t, both as predicted when the nodes were served, it keeps the
// lead r of the static head between 0 and θ,
//
//	r_t = min(θ, max(0, r_{t-1} + Δ_t)),
//
// and serves the static head from r = θ on, and the online one again from r = 0 on.
// Both predict throughout, and the online one goes on learning.
//
// The regret is bounded. While the online head serves, r has not reached θ, so it
// was clipped at 0 alone, which only raises r: the Δ of such a stretch add up to at
// most θ, and with its last window, which may go beyond, to θ + b, where b is the
// most that Δ of one window can be. While the static head serves it is the same with
// the signs changed. So over a stream with S switches
//
//	loss(served) ≤ loss(static) + (⌊S/2⌋ + 1)(θ + b)
//	loss(served) ≤ loss(online) + ⌈S/2⌉(θ + b),
//
// and each switch took a stretch in which the other head was better by θ: S is at
// most Σ|Δ_t|/θ, and 0 or 1 where one head is better throughout, up to swings of
// less than θ. This is the log odds of fixed share between two experts (Herbster &
// Warmuth 1998) at switching rate e^-θ, with its soft bounds made hard, and with the
// better expert served in place of the mixture: until the fallback is needed, the
// online head is served to the bit. Late labels add the loss until they come, which
// the rule cannot know.
type fallback struct {
	threshold float64 // θ, nats
	lead      float64 // r
	heads     *paper  // whose serving head it chooses
	pending   *pending
}

var _ observer = (*fallback)(nil)

// defaultFallback is θ. Of 10, 20 and 40, with steps of the paper's size, 20 was
// the least that never gave up the online head on a stream where that was the
// better one, on any data set, with labels in time and ten steps late; 10 did at
// times.
const defaultFallback = 20

func (f *fallback) served(*event.Outcome) {}

func (f *fallback) matched(slot, class int32) {}

// scored updates the lead by the window's labels, and with it who serves the next
// window.
func (f *fallback) scored(out *event.Outcome) {
	out.ServedBy = int(f.heads.serves)
	for i, online := range out.Heads[byOnline].Scores {
		f.lead += online.LogLoss - out.Heads[byStatic].Scores[i].LogLoss
	}
	f.lead = min(max(f.lead, 0), f.threshold)
	switch f.lead {
	case 0:
		f.heads.serves = byOnline
	case f.threshold:
		f.heads.serves = byStatic
	}
	out.Lead = f.lead
}

// state declares the lead, who serves, and who served what is pending.
func (f *fallback) state(s *snapshot.Schema) {
	snapshot.Value(s, "fallback.lead", &f.lead)
	snapshot.Value(s, "fallback.head", &f.heads.serves)
	declareField(s, "fallback.pending", f.pending.nodes, func(x *served) *uint8 { return &x.head })
	s.Check(func() error {
		if by := f.heads.serves; !(f.lead >= 0 && f.lead <= f.threshold) || by > byStatic || f.lead == 0 && by != byOnline || f.lead == f.threshold && by != byStatic {
			return snapshot.Damaged("head %d serves with a lead of %v", by, f.lead)
		}
		for i := range int32(f.pending.nodes.len()) {
			if by := f.pending.nodes.entries.at(i).value.head; by > byStatic {
				return snapshot.Damaged("a node was served by head %d", by)
			}
		}
		return nil
	})
}
