package worker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/meter"
	"github.com/gvbll/gvbll/topics/replay"
)

// Metrics are the metrics of a worker that concern the stream: windows, transactions,
// lag, recovery, checkpoints. Predictions and labels are counted elsewhere, from the
// outcomes.
type Metrics struct {
	windows     windowMetrics
	commits     commitMetrics
	topics      topicMetrics
	owner       ownerMetrics
	checkpoints checkpointMetrics
	bases       baseMetrics
	forgetting  forgetMetrics
	kafka       *kafkaMetrics
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	r := meter.With(reg)
	return &Metrics{
		windows: newWindowMetrics(r), commits: newCommitMetrics(r), topics: newTopicMetrics(r), owner: newOwnerMetrics(r),
		checkpoints: newCheckpointMetrics(r), bases: newBaseMetrics(r), forgetting: newForgetMetrics(r), kafka: newKafkaMetrics(reg),
	}
}

// Observe updates the metrics.
func (m *Metrics) Observe(e replay.Event) {
	switch e := e.(type) {
	case replay.Recovered, replay.TookOver, replay.Following:
		m.owner.observe(e)
	case replay.Stepped:
		m.windows.observe(e)
	case replay.Committed:
		m.commits.observe(e)
	case replay.Lag, replay.UnknownField, replay.Untimely:
		m.topics.observe(e)
	case replay.Saved:
		m.checkpoints.observe(e)
	case replay.Based:
		m.bases.observe(e)
	case replay.Forgotten:
		m.forgetting.observe(e)
	}
}

// WatchClient registers and shows what the client of several workers waits for.
func WatchClient(reg prometheus.Registerer, c *kafka.Client) {
	newKafkaMetrics(reg).client.Store(c.Health)
}

// Watch shows what the client waits for, from now on.
func (m *Metrics) Watch(c *kafka.Client) { m.kafka.client.Store(c.Health) }

// Cuts shows for how long windows of the policy may stay open.
func (m *Metrics) Cuts(p intake.Policy) { m.windows.longest.Set(intake.Longest(p).Seconds()) }

// BasesEvery shows the time between bases.
func (m *Metrics) BasesEvery(every time.Duration) { m.bases.every.Set(every.Seconds()) }

// Needed shows from where on the topics are needed, and when the newest base was taken. It may be
// called from any goroutine.
func (m *Metrics) Needed(needs []replay.Need, newest time.Time) { m.bases.needs(needs, newest) }

// AtRisk shows the settings by which topics will lose records. It may be called from any goroutine.
func (m *Metrics) AtRisk(risks []topics.Risk) {
	m.topics.risks.Reset()
	for _, r := range risks {
		m.topics.risks.WithLabelValues(r.Topic, r.Setting).Set(1)
	}
}

// unix returns the Unix time in seconds, to the millisecond.
func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
