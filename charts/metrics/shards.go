package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Shards are the metrics of a worker of a graph that has several shards: of its tasks, the
// sequencer and each shard.
type Shards struct {
	owner   *prometheus.GaugeVec
	windows *prometheus.GaugeVec
	waited  *prometheus.CounterVec
	tasks   int
}

// NewShards registers the metrics, for a number of shards.
func NewShards(reg prometheus.Registerer, shards int) *Shards {
	r := register{promauto.With(reg)}
	s := &Shards{
		owner:   r.gauges("gvbll_shard_owner", "1 for each task of a sharded graph that this worker owns, else 0: the lead, and the shards from 1 on.", "shard"),
		windows: r.gauges("gvbll_shard_windows", "Windows that this worker has stepped of a task that it owns or stands by for, else 0.", "shard"),
		waited:  r.counters("gvbll_shard_barrier_wait_seconds_total", "Time for which this worker's tasks have waited for another task in the exchange.", "from"),
		tasks:   shards + 1,
	}
	for task := range s.tasks {
		s.waited.WithLabelValues(taskLabel(task))
	}
	s.Show(nil)
	return s
}

// Task is a task that a worker owns or stands by for.
type Task struct {
	Number  int // 0 is the sequencer
	Owner   bool
	Windows int64
}

// Show shows the tasks of this worker.
func (s *Shards) Show(tasks []Task) {
	owner, windows := make([]float64, s.tasks), make([]float64, s.tasks)
	for _, t := range tasks {
		windows[t.Number] = float64(t.Windows)
		if t.Owner {
			owner[t.Number] = 1
		}
	}
	for task := range s.tasks {
		s.owner.WithLabelValues(taskLabel(task)).Set(owner[task])
		s.windows.WithLabelValues(taskLabel(task)).Set(windows[task])
	}
}

// Waited adds a time for which a task has waited for another. It may be called from any
// goroutine.
func (s *Shards) Waited(from int, d time.Duration) {
	s.waited.WithLabelValues(taskLabel(from)).Add(d.Seconds())
}

// taskLabel names a task: 0 is the sequencer, labelled lead; shards are numbered from 1.
func taskLabel(task int) string {
	if task == 0 {
		return "lead"
	}
	return strconv.Itoa(task)
}
