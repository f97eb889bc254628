package worker

// ObserveTask updates a worker's metrics from a task of a sharded graph. Windows are counted where
// shard 1 is live, commits and ages of predictions in every shard, takeovers in every task, and
// the lag of the inputs by the lead. [worker.Metrics.Owns] says who the owner is.
func ObserveTask(m *Metrics, task int, e Event) {
	switch e := e.(type) {
	case TookOver:
		m.TakenOver(e.Took)
		return
	case Lag, Untimely, UnknownField:
		if task > 0 {
			return
		}
	case Stepped:
		if task == 1 {
			break
		}
		m.At(e.Outcome, task == 0 || e.Replayed) // the lead learns what others have stepped
		return
	case Forgotten:
		return
	}
	m.Observe(e)
}
