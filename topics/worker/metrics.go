package worker

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/replay"
)

// Metrics are the metrics of a worker that concern the stream: windows, transactions,
// lag, recovery, checkpoints. Predictions and labels are counted elsewhere, from the
// outcomes.
type Metrics struct {
	windows                                  *prometheus.CounterVec
	number, lastCommit, longest              prometheus.Gauge
	behind, owner                            prometheus.Gauge
	replayed, transactions, retries          prometheus.Counter
	age, step, arrivals, commit              prometheus.Histogram
	lag, withheld, risks                     *prometheus.GaugeVec // of the input topics
	late, early, unknown                     *prometheus.CounterVec
	recoveredWindows, recovery, tookOver     prometheus.Gauge
	takeover                                 prometheus.Histogram
	savedAt, savedBytes                      prometheus.Gauge // of checkpoints
	saveSeconds                              prometheus.Histogram
	saveFailures                             prometheus.Counter
	basedAt, baseEvery, baseBytes            prometheus.Gauge
	baseStored, baseFailures, forgottenNodes prometheus.Counter
	neededOffset, neededSince                *prometheus.GaugeVec
	forgetSeconds                            prometheus.Histogram
	forgetDistance                           *prometheus.GaugeVec
	kafka                                    *kafkaMetrics
}

// kafkaMetrics are those of a client, as it is when they are collected. There are series of all
// values from the start.
type kafkaMetrics struct {
	client             atomic.Pointer[kafka.Client]
	waiting, throttled *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (k *kafkaMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- k.waiting
	to <- k.throttled
}

// Collect implements prometheus.Collector.
func (k *kafkaMetrics) Collect(to chan<- prometheus.Metric) {
	c := k.client.Load()
	for what, d := range c.Waits() {
		to <- prometheus.MustNewConstMetric(k.waiting, prometheus.GaugeValue, d.Seconds(), what)
	}
	total, _ := c.Throttled()
	for request, d := range total {
		to <- prometheus.MustNewConstMetric(k.throttled, prometheus.CounterValue, d.Seconds(), request)
	}
}

// Watch shows what the client waits for, from now on.
func (m *Metrics) Watch(c *kafka.Client) { m.kafka.client.Store(c) }

// Cuts shows for how long windows of the policy may stay open.
func (m *Metrics) Cuts(p intake.Policy) { m.longest.Set(intake.Longest(p).Seconds()) }

// causes are the causes of all policies. Each has a series from the start, so that its
// rate before the first window is 0 instead of missing.
var causes = [...]string{"count", "linger", "schedule", "event-time", "full", "idle", "command"}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return f.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		})
	}
	m := &Metrics{
		windows:          counters("gvbll_windows_total", "Windows cut, by cause.", "cause"),
		number:           gauge("gvbll_window_number", "Number of the last window stepped, replayed ones included: how far a standby has followed."),
		replayed:         counter("gvbll_windows_replayed_total", "Windows of the ledger that were replayed, at the start and while standing by."),
		age:              histogram("gvbll_prediction_age_seconds", "Time from an arrival's event time to its prediction, of arrivals with an event time.", prometheus.ExponentialBuckets(0.005, 2.5, 16)),
		step:             histogram("gvbll_window_step_seconds", "Time to step the engine over a window, and to encode what comes of it.", prometheus.ExponentialBuckets(0.0001, 2, 14)),
		arrivals:         histogram("gvbll_window_arrivals", "Arrivals in a window.", prometheus.ExponentialBuckets(1, 2, 14)),
		transactions:     counter("gvbll_transactions_total", "Kafka transactions committed."),
		retries:          counter("gvbll_transaction_retries_total", "Transactions produced again because their outcome was unknown."),
		commit:           histogram("gvbll_commit_seconds", "Time to commit a transaction, retries included.", prometheus.ExponentialBuckets(0.0005, 2, 14)),
		lag:              gauges("gvbll_input_lag_records", "Committed records of an input topic that are in no window yet.", "topic"),
		withheld:         gauges("gvbll_input_withheld_records", "Records of an input topic behind a transaction that its producer has not ended: nobody who reads committed records gets them.", "topic"),
		risks:            gauges("gvbll_topic_at_risk", "1 for each setting of a topic by which records will be lost that the graph needs, or are lost with one broker. Read at the start and every hour.", "topic", "setting"),
		late:             counters("gvbll_late_events_total", "Events that arrived after their event-time window was closed, and are in a later one.", "topic"),
		early:            counters("gvbll_early_events_total", "Events whose time is too far ahead of the clock to be used.", "topic"),
		unknown:          counters("gvbll_unknown_fields_total", "Records read, in replays too, with a field that is not of the wire format and is ignored, or a time that looks like seconds (`time in seconds`). At most 64 names of a topic are told apart.", "topic", "field"),
		recoveredWindows: gauge("gvbll_recovery_windows", "Windows replayed from the ledger at the start."),
		recovery:         gauge("gvbll_recovery_seconds", "Time to read the checkpoint and to replay the ledger at the start."),
		takeover:         histogram("gvbll_takeover_seconds", "Time from being elected to serving: fencing the former owner and replaying what it still committed.", prometheus.ExponentialBuckets(0.001, 2, 16)),
		tookOver:         gauge("gvbll_takeover_timestamp_seconds", "Unix time at which this worker last began to serve; 0 before it did."),
		lastCommit:       gauge("gvbll_last_commit_timestamp_seconds", "Unix time of the last commit."),
		longest:          gauge("gvbll_window_longest_seconds", "For how long a window may stay open while events come: --linger, or the width of event-time windows with the lateness and the idle time of their watermark."),
		behind:           gauge("gvbll_behind_timestamp_seconds", "Unix time at which the owner stepped the window that this worker replays; 0 when it has stepped all that the ledger has."),
		owner:            gauge("gvbll_owner", "1 when this worker owns the graph and serves, 0 while it recovers or stands by."),
		savedAt:          gauge("gvbll_checkpoint_timestamp_seconds", "Unix time of the newest checkpoint that this worker wrote; 0 before the first."),
		savedBytes:       gauge("gvbll_checkpoint_bytes", "Size of the newest checkpoint that this worker wrote."),
		saveSeconds:      histogram("gvbll_checkpoint_seconds", "Time to write a checkpoint while serving.", prometheus.ExponentialBuckets(0.01, 2, 14)),
		saveFailures:     counter("gvbll_checkpoint_failures_total", "Checkpoints that could not be written."),
		basedAt:          gauge("gvbll_base_timestamp_seconds", "Unix time of the newest base that the ledger names, or at which it last had all that there is; 0 before this worker knows of one."),
		baseEvery:        gauge("gvbll_base_every_seconds", "Time between bases, of --base-every; 0 without --base."),
		baseBytes:        gauge("gvbll_base_bytes", "Size of the state in the newest base that this worker wrote."),
		baseStored:       counter("gvbll_base_stored_bytes_total", "Bytes that were stored for bases: what was not stored for an earlier one."),
		baseFailures:     counter("gvbll_base_failures_total", "Bases that were not written. One whose store does not answer waits for it, and is none of these."),
		neededOffset:     gauges("gvbll_needed_offset", "Offset from which on a partition of an input or of the ledger is needed: by the oldest base that the ledger names. Read at the start, every hour, and every --base-every if that is less.", "topic", "partition"),
		neededSince:      gauges("gvbll_needed_timestamp_seconds", "Unix time of the oldest record of a topic that is needed, as its producer set it; 0 if nothing is.", "topic"),
		forgetSeconds:    histogram("gvbll_forget_seconds", "Time to forget nodes: a replay from the beginning, during which nothing is served.", prometheus.ExponentialBuckets(0.01, 4, 12)),
		forgottenNodes:   counter("gvbll_forgotten_nodes_total", "Node ids forgotten on command."),
		forgetDistance:   gauges("gvbll_forget_distance", "How far the last exact forgetting moved the posterior: Frobenius norms of the differences of its mean and variance.", "of"),
	}
	m.kafka = &kafkaMetrics{
		waiting:   prometheus.NewDesc("gvbll_kafka_waiting_seconds", "For how long this worker has waited for Kafka, by what it waits for, as /readyz says; 0 for what it does not wait for. It counts from 2 s on.", []string{"what"}, nil),
		throttled: prometheus.NewDesc("gvbll_kafka_throttled_seconds_total", "For how long the brokers have throttled this worker by a quota, by request: fetch, produce or other.", []string{"request"}, nil),
	}
	m.Watch(new(kafka.Client))
	reg.MustRegister(m.kafka)
	for _, cause := range causes {
		m.windows.WithLabelValues(cause)
	}
	return m
}

// AtRisk shows the settings by which topics will lose records. It may be called from any
// goroutine.
func (m *Metrics) AtRisk(risks []topics.Risk) {
	m.risks.Reset()
	for _, r := range risks {
		m.risks.WithLabelValues(r.Topic, r.Setting).Set(1)
	}
}

// BasesEvery shows the time between bases.
func (m *Metrics) BasesEvery(every time.Duration) { m.baseEvery.Set(every.Seconds()) }

// Needed shows from where on the topics are needed, and when the newest base was taken. It may be called from any goroutine.
func (m *Metrics) Needed(needs []replay.Need, newest time.Time) {
	since := replay.Since(needs)
	for _, n := range needs {
		m.neededOffset.WithLabelValues(n.Topic, strconv.Itoa(int(n.Partition))).Set(float64(n.Offset))
		at := 0.0
		if t := since[n.Topic]; !t.IsZero() {
			at = float64(t.UnixMilli()) / 1000
		}
		m.neededSince.WithLabelValues(n.Topic).Set(at)
	}
	if !newest.IsZero() {
		m.basedAt.Set(float64(newest.UnixMilli()) / 1000)
	}
}

// observeAges observes how old the arrivals of a window are when they are predicted.
func (m *Metrics) observeAges(out *event.Outcome, now time.Time) {
	for i := range out.Predictions {
		if t := out.Predictions[i].Time; t > 0 {
			m.age.Observe(max(now.Sub(time.UnixMilli(t)).Seconds(), 0))
		}
	}
}

// Observe updates the metrics. Replayed windows are not counted again.
func (m *Metrics) Observe(e replay.Event) {
	switch e := e.(type) {
	case replay.Recovered:
		m.recoveredWindows.Set(float64(e.Windows - e.Checkpoint))
		m.recovery.Set(e.Took.Seconds())
	case replay.TookOver:
		m.owner.Set(1)
		m.takeover.Observe(e.Took.Seconds())
		m.tookOver.SetToCurrentTime()
		m.behind.Set(0)
	case replay.Following:
		m.behind.Set(0)
		if !e.Behind.IsZero() {
			m.behind.Set(float64(e.Behind.UnixMilli()) / 1000)
		}
	case replay.Stepped:
		m.number.Set(float64(e.Outcome.Window))
		if e.Replayed {
			m.replayed.Inc()
			return
		}
		m.observeAges(e.Outcome, time.Now())
		m.windows.WithLabelValues(e.Cause).Inc()
		m.step.Observe(e.Took.Seconds())
		m.arrivals.Observe(float64(e.Outcome.Figures.Int(event.Arrivals)))
	case replay.Committed:
		m.transactions.Inc()
		m.retries.Add(float64(e.Tries - 1))
		m.commit.Observe(e.Took.Seconds())
		m.lastCommit.SetToCurrentTime()
	case replay.Lag:
		m.lag.WithLabelValues(e.Topic).Set(float64(e.Records))
		m.withheld.WithLabelValues(e.Topic).Set(float64(e.Withheld))
	case replay.Saved:
		if e.Err != nil {
			m.saveFailures.Inc()
			return
		}
		m.savedAt.SetToCurrentTime()
		m.savedBytes.Set(float64(e.Bytes))
		m.saveSeconds.Observe(e.Took.Seconds())
	case replay.Based:
		m.based(e)
	case replay.Forgotten:
		m.forgetSeconds.Observe(e.Took.Seconds())
		if !e.Replayed {
			m.forgottenNodes.Add(float64(e.Nodes))
		}
		m.forgetDistance.WithLabelValues("mean").Set(e.Mean)
		m.forgetDistance.WithLabelValues("variance").Set(e.Variance)
	case replay.UnknownField:
		m.unknown.WithLabelValues(e.Topic, e.Name).Add(float64(e.Records))
	case replay.Untimely:
		m.late.WithLabelValues(e.Topic).Add(float64(e.Late))
		m.early.WithLabelValues(e.Topic).Add(float64(e.Early))
	}
}

func (m *Metrics) based(e replay.Based) {
	if e.Err != nil {
		m.baseFailures.Inc()
		return
	}
	m.basedAt.Set(float64(e.At.UnixMilli()) / 1000)
	if e.Window > 0 {
		m.baseBytes.Set(float64(e.Bytes))
		m.baseStored.Add(float64(e.Stored))
	}
}
