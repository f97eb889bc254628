package shards

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	tasks "github.com/gvbll/gvbll/topics/shards"
)

// Metrics are those of a worker of a graph that has several shards: of its tasks, the sequencer and
// each shard.
type Metrics struct {
	owner   *prometheus.GaugeVec
	windows *prometheus.GaugeVec
	waited  *prometheus.CounterVec
	tasks   int
}

// NewMetrics registers the metrics, for a number of shards.
func NewMetrics(reg prometheus.Registerer, shards int) *Metrics {
	r := promauto.With(reg)
	gauges := func(name, help string) *prometheus.GaugeVec {
		return r.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"shard"})
	}
	s := &Metrics{
		owner:   gauges("gvbll_shard_owner", "1 for each task of a sharded graph that this worker owns, else 0: the lead, and the shards from 1 on."),
		windows: gauges("gvbll_shard_windows", "Windows that this worker has stepped of a task that it owns or stands by for, else 0."),
		waited: r.NewCounterVec(prometheus.CounterOpts{
			Name: "gvbll_shard_barrier_wait_seconds_total",
			Help: "Time for which this worker's tasks have waited for another task in the exchange.",
		}, []string{"from"}),
		tasks: shards + 1,
	}
	for task := range s.tasks {
		s.waited.WithLabelValues(taskLabel(task))
	}
	s.show(nil)
	return s
}

// show shows the tasks that this worker owns or stands by for.
func (s *Metrics) show(of []tasks.TaskState) {
	owner, windows := make([]float64, s.tasks), make([]float64, s.tasks)
	for _, t := range of {
		windows[t.Task] = float64(t.Windows)
		if t.Owner {
			owner[t.Task] = 1
		}
	}
	for task := range s.tasks {
		s.owner.WithLabelValues(taskLabel(task)).Set(owner[task])
		s.windows.WithLabelValues(taskLabel(task)).Set(windows[task])
	}
}

// addWait adds a time for which a task has waited for another. It may be called from any goroutine.
func (s *Metrics) addWait(from int, d time.Duration) {
	s.waited.WithLabelValues(taskLabel(from)).Add(d.Seconds())
}

// taskLabel names a task: 0 is the sequencer, labelled lead; shards are numbered from 1.
func taskLabel(task int) string {
	if task == 0 {
		return "lead"
	}
	return strconv.Itoa(task)
}
