package worker

import "time"

// ObserveTask updates the metrics from a task of a sharded graph. Windows are counted where shard
// 1 is live, commits and ages of predictions in every shard, takeovers in every task, and the lag
// of the inputs by the lead. Owns says who the owner is.
func (m *Metrics) ObserveTask(task int, e Event) {
	switch e := e.(type) {
	case TookOver:
		m.observeTakeover(e)
		return
	case Lag, Untimely, UnknownField:
		if task > 0 {
			return
		}
	case Stepped:
		if task == 1 {
			break
		}
		m.number.Set(float64(e.Outcome.Window)) // the lead learns what others have stepped
		if task > 0 && !e.Replayed {
			m.observeAges(e.Outcome, time.Now())
		}
		return
	case Forgotten:
		return
	}
	m.Observe(e)
}

// Owns shows whether this worker owns the lead of a sharded graph.
func (m *Metrics) Owns(lead bool) {
	m.owner.Set(0)
	if lead {
		m.owner.Set(1)
	}
}
