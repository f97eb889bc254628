package worker

import (
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/meter"
	"github.com/gvbll/gvbll/topics/replay"
)

// causes are the causes of all policies. Each has a series from the start, so that its
// rate before the first window is 0 instead of missing.
var causes = [...]string{"count", "linger", "schedule", "event-time", "full", "idle", "command"}

// windowMetrics are those of the windows that are stepped.
type windowMetrics struct {
	cut                 *prometheus.CounterVec
	replayed            prometheus.Counter
	number, longest     prometheus.Gauge
	age, step, arrivals prometheus.Histogram
	labelled            prometheus.Gauge
}

func newWindowMetrics(r meter.Register) windowMetrics {
	m := windowMetrics{
		cut: r.Counters("gvbll_windows_total", "Windows cut, by cause.", "cause"),
		number: r.Gauge("gvbll_window_number",
			"Number of the last window stepped, replayed ones included: how far a standby has followed."),
		replayed: r.Counter("gvbll_windows_replayed_total",
			"Windows of the ledger that were replayed, at the start and while standing by."),
		longest: r.Gauge("gvbll_window_longest_seconds",
			"For how long a window may stay open while events come."),
		age: r.Histogram("gvbll_prediction_age_seconds",
			"Time from an arrival's event time to its prediction, of arrivals with an event time.",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600}),
		step: r.Histogram("gvbll_window_step_seconds",
			"Time to step the engine over a window, and to encode what comes of it.",
			prometheus.ExponentialBuckets(0.0001, 2, 14)),
		labelled: r.Gauge("gvbll_last_label_timestamp_seconds",
			"Unix time at which this worker last joined a label to a prediction; 0 before it did."),
		arrivals: r.Histogram("gvbll_window_arrivals", "Arrivals in a window.", prometheus.ExponentialBuckets(1, 4, 7)),
	}
	for _, cause := range causes {
		m.cut.WithLabelValues(cause)
	}
	return m
}

// observe counts a window, but one that is replayed as replayed only: another worker has counted it.
func (m *windowMetrics) observe(e replay.Stepped) {
	m.number.Set(float64(e.Outcome.Window))
	if e.Replayed {
		m.replayed.Inc()
		return
	}
	now, traced := time.Now(), false
	for i := range e.Outcome.Predictions {
		p := &e.Outcome.Predictions[i]
		if p.Time <= 0 {
			continue
		}
		age := max(now.Sub(time.UnixMilli(p.Time)).Seconds(), 0)
		if !traced { // one in a window
			if id := traceOf(p.Origin); id != "" {
				m.age.(prometheus.ExemplarObserver).ObserveWithExemplar(age, prometheus.Labels{"trace_id": id})
				traced = true
				continue
			}
		}
		m.age.Observe(age)
	}
	if e.Outcome.Figures.Int(event.LabelsJoined) > 0 {
		m.labelled.Set(unix(now))
	}
	m.cut.WithLabelValues(e.Cause).Inc()
	m.step.Observe(e.Took.Seconds())
	m.arrivals.Observe(float64(e.Outcome.Figures.Int(event.Arrivals)))
}

var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceOf returns the id of the trace that a record's header traceparent names (W3C Trace Context), "" for none.
func traceOf(o *event.Origin) string {
	if o == nil {
		return ""
	}
	for i := range o.Headers {
		if h := &o.Headers[i]; h.Key == "traceparent" {
			if m := traceparent.FindSubmatch(h.Value); m != nil {
				return string(m[1])
			}
		}
	}
	return ""
}

// commitMetrics are those of Kafka transactions.
type commitMetrics struct {
	transactions, retries prometheus.Counter
	seconds               prometheus.Histogram
	last                  prometheus.Gauge
}

func newCommitMetrics(r meter.Register) commitMetrics {
	return commitMetrics{
		transactions: r.Counter("gvbll_transactions_total", "Kafka transactions committed."),
		retries:      r.Counter("gvbll_transaction_retries_total", "Transactions produced again because their outcome was unknown."),
		seconds: r.Histogram("gvbll_commit_seconds",
			"Time to commit a transaction, retries included.",
			prometheus.ExponentialBuckets(0.0005, 2, 14)),
		last: r.Gauge("gvbll_last_commit_timestamp_seconds", "Unix time of the last commit."),
	}
}

func (m *commitMetrics) observe(e replay.Committed) {
	m.transactions.Inc()
	m.retries.Add(float64(e.Tries - 1))
	m.seconds.Observe(e.Took.Seconds())
	m.last.SetToCurrentTime()
}

// topicMetrics are those of the topics: what is not in windows yet, what is odd in it, what may be lost.
type topicMetrics struct {
	lag, withheld, risks *prometheus.GaugeVec
	late, early, unknown *prometheus.CounterVec
}

func newTopicMetrics(r meter.Register) topicMetrics {
	return topicMetrics{
		lag: r.Gauges("gvbll_input_lag_records", "Committed records of an input topic that are in no window yet.", "topic"),
		withheld: r.Gauges("gvbll_input_withheld_records",
			"Records of an input topic behind a transaction that its producer has not ended.",
			"topic"),
		risks: r.Gauges("gvbll_topic_at_risk",
			"1 for each setting of a topic by which records will be lost, or are lost with one broker. Read every hour.",
			"topic", "setting"),
		late: r.Counters("gvbll_late_events_total",
			"Events that arrived after their event-time window was closed, and are in a later one.",
			"topic"),
		early: r.Counters("gvbll_early_events_total", "Events whose time is too far ahead of the clock to be used.", "topic"),
		unknown: r.Counters("gvbll_unknown_fields_total",
			"Records with a field that is not of the wire format, or a time that looks like another unit.",
			"topic", "field"),
	}
}

func (m *topicMetrics) observe(e replay.Event) {
	switch e := e.(type) {
	case replay.Lag:
		m.lag.WithLabelValues(e.Topic).Set(float64(e.Records))
		m.withheld.WithLabelValues(e.Topic).Set(float64(e.Withheld))
	case replay.UnknownField:
		m.unknown.WithLabelValues(e.Topic, e.Name).Add(float64(e.Records))
	case replay.Untimely:
		m.late.WithLabelValues(e.Topic).Add(float64(e.Late))
		m.early.WithLabelValues(e.Topic).Add(float64(e.Early))
	}
}

// ownerMetrics are those of who serves, and how it came to.
type ownerMetrics struct {
	recoveredWindows, recovery, tookOver, behind, owner prometheus.Gauge
	takeover                                            prometheus.Histogram
}

func newOwnerMetrics(r meter.Register) ownerMetrics {
	return ownerMetrics{
		recoveredWindows: r.Gauge("gvbll_recovery_windows", "Windows replayed from the ledger at the start."),
		recovery:         r.Gauge("gvbll_recovery_seconds", "Time to read the checkpoint and to replay the ledger at the start."),
		takeover: r.Histogram("gvbll_takeover_seconds",
			"Time from being elected to serving: fencing the former owner and replaying what it still committed.",
			prometheus.ExponentialBuckets(0.001, 2, 16)),
		tookOver: r.Gauge("gvbll_takeover_timestamp_seconds",
			"Unix time at which this worker last began to serve; 0 before it did."),
		behind: r.Gauge("gvbll_behind_timestamp_seconds",
			"Unix time at which the owner stepped the window that this worker replays; 0 when it has stepped all "+
				"that the ledger has."),
		owner: r.Gauge("gvbll_owner", "1 when this worker owns the graph and serves, 0 while it recovers or stands by."),
	}
}

func (m *ownerMetrics) observe(e replay.Event) {
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
			m.behind.Set(unix(e.Behind))
		}
	}
}

// checkpointMetrics are those of checkpoints.
type checkpointMetrics struct {
	at, bytes prometheus.Gauge
	seconds   prometheus.Histogram
	failures  prometheus.Counter
}

func newCheckpointMetrics(r meter.Register) checkpointMetrics {
	return checkpointMetrics{
		at: r.Gauge("gvbll_checkpoint_timestamp_seconds",
			"Unix time of the newest checkpoint that this worker wrote; 0 before the first."),
		bytes: r.Gauge("gvbll_checkpoint_bytes", "Size of the newest checkpoint that this worker wrote."),
		seconds: r.Histogram("gvbll_checkpoint_seconds",
			"Time to write a checkpoint while serving.",
			prometheus.ExponentialBuckets(0.01, 2, 14)),
		failures: r.Counter("gvbll_checkpoint_failures_total", "Checkpoints that could not be written."),
	}
}

func (m *checkpointMetrics) observe(e replay.Saved) {
	if e.Err != nil {
		m.failures.Inc()
		return
	}
	m.at.SetToCurrentTime()
	m.bytes.Set(float64(e.Bytes))
	m.seconds.Observe(e.Took.Seconds())
}

// baseMetrics are those of bases, and of what the oldest one needs.
type baseMetrics struct {
	at, every, bytes          prometheus.Gauge
	stored, failures          prometheus.Counter
	neededOffset, neededSince *prometheus.GaugeVec
}

func newBaseMetrics(r meter.Register) baseMetrics {
	return baseMetrics{
		at: r.Gauge("gvbll_base_timestamp_seconds",
			"Unix time of the newest base that the ledger names, or at which it last had all that there is; 0 before "+
				"this worker knows of one."),
		every: r.Gauge("gvbll_base_every_seconds", "Time between bases, of --base-every; 0 without --base."),
		bytes: r.Gauge("gvbll_base_bytes", "Size of the state in the newest base that this worker wrote."),
		stored: r.Counter("gvbll_base_stored_bytes_total",
			"Bytes that were stored for bases: what was not stored for an earlier one."),
		failures: r.Counter("gvbll_base_failures_total",
			"Bases that were not written. One whose store does not answer waits for it, and is none of these."),
		neededOffset: r.Gauges("gvbll_needed_offset",
			"Offset from which on a partition of an input or of the ledger is needed, by the oldest base that the "+
				"ledger names.",
			"topic", "partition"),
		neededSince: r.Gauges("gvbll_needed_timestamp_seconds",
			"Unix time of the oldest record of a topic that is needed, as its producer set it; 0 if nothing is.",
			"topic"),
	}
}

func (m *baseMetrics) observe(e replay.Based) {
	if e.Err != nil {
		m.failures.Inc()
		return
	}
	m.at.Set(unix(e.At))
	if e.Window > 0 {
		m.bytes.Set(float64(e.Bytes))
		m.stored.Add(float64(e.Stored))
	}
}

func (m *baseMetrics) needs(needs []replay.Need, newest time.Time) {
	since := replay.Since(needs)
	for _, n := range needs {
		m.neededOffset.WithLabelValues(n.Topic, strconv.Itoa(int(n.Partition))).Set(float64(n.Offset))
		at := 0.0
		if t := since[n.Topic]; !t.IsZero() {
			at = unix(t)
		}
		m.neededSince.WithLabelValues(n.Topic).Set(at)
	}
	if !newest.IsZero() {
		m.at.Set(unix(newest))
	}
}

// forgetMetrics are those of nodes that are forgotten.
type forgetMetrics struct {
	seconds  prometheus.Histogram
	nodes    prometheus.Counter
	distance *prometheus.GaugeVec
}

func newForgetMetrics(r meter.Register) forgetMetrics {
	return forgetMetrics{
		seconds: r.Histogram("gvbll_forget_seconds",
			"Time to forget nodes: a replay from the beginning, during which nothing is served.",
			prometheus.ExponentialBuckets(0.01, 4, 12)),
		nodes: r.Counter("gvbll_forgotten_nodes_total", "Node ids forgotten on command."),
		distance: r.Gauges("gvbll_forget_distance",
			"How far the last exact forgetting moved the posterior: Frobenius norms of the differences of its mean "+
				"and variance.",
			"of"),
	}
}

func (m *forgetMetrics) observe(e replay.Forgotten) {
	m.seconds.Observe(e.Took.Seconds())
	if !e.Replayed {
		m.nodes.Add(float64(e.Nodes))
	}
	m.distance.WithLabelValues("mean").Set(e.Mean)
	m.distance.WithLabelValues("variance").Set(e.Variance)
}

// kafkaMetrics are those of a client, as it is when they are collected. There are series of all
// values from the start.
type kafkaMetrics struct {
	client             atomic.Pointer[kafka.Health]
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

func newKafkaMetrics(reg prometheus.Registerer) *kafkaMetrics {
	k := &kafkaMetrics{
		waiting: prometheus.NewDesc("gvbll_kafka_waiting_seconds",
			"For how long this worker has waited for Kafka, by what it waits for, as /readyz says; from 2 s on.",
			[]string{"what"}, nil),
		throttled: prometheus.NewDesc("gvbll_kafka_throttled_seconds_total",
			"For how long the brokers have throttled this worker by a quota, by request: fetch, produce or other.",
			[]string{"request"}, nil),
	}
	k.client.Store(&kafka.Health{})
	reg.MustRegister(k)
	return k
}
