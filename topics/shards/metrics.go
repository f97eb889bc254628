package shards

import (
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// ObserveTask updates a worker's metrics from a task of a sharded graph. Windows are counted where
// shard 1 is live, commits and ages of predictions in every shard, takeovers in every task, and
// the lag of the inputs by the sequencer. [worker.Metrics.Owns] says who the owner is.
func ObserveTask(m *worker.Metrics, task int, e replay.Event) {
	switch e := e.(type) {
	case replay.TookOver:
		m.TakenOver(e.Took)
		return
	case replay.Lag, replay.Untimely, replay.UnknownField:
		if task > 0 {
			return
		}
	case replay.Stepped:
		if task == 1 {
			break
		}
		m.At(e.Outcome, task == 0 || e.Replayed) // the sequencer learns what others have stepped
		return
	case replay.Following:
		return
	}
	m.Observe(e)
}
