package parts

import (
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/serve"
)

// fallback decides which of the paper's heads serves: the online one or, while it does
// worse, the static one.
//
// Let Δ_t be the log loss of the online head minus that of the static one, summed over
// the labels of window t, both as predicted when the nodes were served. The lead r of the
// static head is kept between 0 and θ:
//
//	r_t = min(θ, max(0, r_{t-1} + Δ_t)).
//
// The static head begins to serve when r reaches θ, and the online one when r is back at
// 0. Both heads always predict, and the online one always learns.
//
// The regret is bounded. While the online head serves, r is below θ, so it has only been
// clipped at 0, which raises it. The Δ of such a stretch therefore add up to at most θ,
// or to θ + b with its last window, which may go beyond, where b is the largest |Δ| of a
// window. While the static head serves, the same holds with the signs changed. Over a
// stream with S switches this gives
//
//	loss(served) ≤ loss(static) + (⌊S/2⌋ + 1)(θ + b)
//	loss(served) ≤ loss(online) + ⌈S/2⌉(θ + b).
//
// Before each switch the other head was better by θ: S is at most Σ|Δ_t|/θ, and 0 or 1
// if one head is always better, up to swings of less than θ.
//
// r is the log odds of fixed share between two experts (Herbster & Warmuth 1998) at
// switching rate e^-θ, with hard bounds in place of soft ones. The better expert is
// served instead of the mixture, so that without a switch the predictions have the bits
// of the online head. Labels that come late add to the loss until they come: the rule
// cannot know them earlier.
type fallback struct {
	threshold float64      // θ, nats
	lead      float64      // r
	heads     *heads.Paper // whose serving head it chooses
	pending   *serve.Pending
}

// NewFallback returns what chooses among heads, whose predictions wait in pending.
func NewFallback(threshold float64, heads *heads.Paper, pending *serve.Pending) serve.Observer {
	f := &fallback{threshold: threshold, heads: heads, pending: pending}
	return serve.Observer{Scored: f.scored, State: f.state}
}

// DefaultFallback is the default of θ. Of 10, 20 and 40, with steps of the paper's size,
// 20 was the smallest with which the online head always served on streams where it was
// the better one, on every data set, with labels in time and ten steps late.
const DefaultFallback = 20

// scored updates the lead by the window's labels, and with it the head that serves the
// next window.
func (f *fallback) scored(out *event.Outcome) {
	out.ServedBy = int(f.heads.Serves)
	for i, online := range out.Heads[heads.ByOnline].Scores {
		f.lead += online.LogLoss - out.Heads[heads.ByStatic].Scores[i].LogLoss
	}
	f.lead = min(max(f.lead, 0), f.threshold)
	switch f.lead {
	case 0:
		f.heads.Serves = heads.ByOnline
	case f.threshold:
		f.heads.Serves = heads.ByStatic
	}
	out.Heads[heads.ByStatic].Lead = f.lead
}

// state declares the lead, the head that serves, and the head that served each pending
// prediction.
func (f *fallback) state(s *snapshot.Schema) {
	snapshot.Value(s, "fallback.lead", &f.lead)
	snapshot.Value(s, "fallback.head", &f.heads.Serves)
	s.Check(func() error {
		if by := f.heads.Serves; !(f.lead >= 0 && f.lead <= f.threshold) || by > heads.ByStatic || f.lead == 0 &&
			by != heads.ByOnline || f.lead == f.threshold && by != heads.ByStatic {
			return snapshot.Damaged("head %d serves with a lead of %v", by, f.lead)
		}
		return nil
	})
	f.pending.DeclareHeads(s, "fallback.pending", heads.ByStatic)
}
