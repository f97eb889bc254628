package worker

import "time"

// TaskHooks returns the hooks that update the metrics from a task of a sharded graph. Windows
// are counted where shard 1 is live, commits and ages of predictions in every shard, takeovers in
// every task, and the lag of the inputs by the lead. Owns says who the owner is.
func (m *Metrics) TaskHooks(task int) Hooks {
	all := m.Hooks()
	h := Hooks{Recovered: all.Recovered, Committed: all.Committed, Saved: all.Saved, Stepped: all.Stepped}
	h.TookOver = func(t TookOver) {
		m.takeover.Observe(t.Took.Seconds())
		m.tookOver.SetToCurrentTime()
	}
	switch task {
	case 0:
		h.Lag, h.Untimely, h.UnknownField = all.Lag, all.Untimely, all.UnknownField
		h.Stepped = func(s Stepped) { m.number.Set(float64(s.Outcome.Window)) } // it learns what others have stepped
	case 1:
	default:
		h.Stepped = func(s Stepped) {
			m.number.Set(float64(s.Outcome.Window))
			if !s.Replayed {
				m.observeAges(s.Outcome, time.Now())
			}
		}
	}
	return h
}

// Owns shows whether this worker owns the lead of a sharded graph.
func (m *Metrics) Owns(lead bool) {
	m.owner.Set(0)
	if lead {
		m.owner.Set(1)
	}
}
