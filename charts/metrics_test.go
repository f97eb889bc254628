// Package charts_test holds what is configured here to what the program exports.
package charts_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gvbll/gvbll/charts/metrics"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/worker"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

// advice is what to do when a metric looks bad, in the order of the page.
var advice = []struct {
	section string
	metrics [][2]string
}{
	{"Scores of what was served", [][2]string{
		{"gvbll_scored_labels_total", "Its rate is 0: labels stopped, see `GvbllLabelsStopped`. All scores are of these labels."},
		{"gvbll_correct_labels_total", "By `gvbll_scored_labels_total` it is accuracy. Falls for static too: the data changed. For online alone: `GvbllOnlineWorse`."},
		{"gvbll_log_loss_nats_total", "By `gvbll_scored_labels_total` it is NLL. Jumps of single labels are confident errors: look at their nodes."},
		{"gvbll_brier_score_total", "As NLL, and less moved by single labels."},
		{"gvbll_prequential", "Cumulative: it moves slowly. For now, take rates of the counters. Of the owner alone."},
		{"gvbll_prequential_labels", "Few: the cumulative scores mean little yet."},
		{"gvbll_calibration_predictions_total", "ECE and reliability are worked out of this and the next two; see `GvbllCalibrationOff`."},
		{"gvbll_calibration_correct_total", "By the one before: how often predictions of this confidence were right."},
		{"gvbll_calibration_confidence_total", "By the first: their mean confidence. Above accuracy: overconfident."},
		{"gvbll_slice_labels_total", "The next two by this: accuracy and confidence of a part of the graph. One part bad alone: look at who sends it."},
		{"gvbll_slice_correct_total", "Low at degree 0: neighbours are missing. Low where neighbourhoods are fresh: the graph drifts."},
		{"gvbll_slice_confidence_total", "Above `gvbll_slice_correct_total`: overconfident there."},
	}},
	{"The pool of heads", [][2]string{
		{"gvbll_pool_weight", "Which heads are listened to. One near 0 or below adds nothing beside the others; all move when the data does."},
		{"gvbll_pool_bias", "A class far from 0 is commoner or rarer than the heads believe."},
		{"gvbll_pool_regret_nats", "Rises above a few nats: one head alone would do better, see its scores. Below 0 is as it should be."},
		{"gvbll_pool_compatibility", "Large on the diagonal: like is next to like. A row that changes: so does whom that class is next to."},
	}},
	{"Predictions, before any label", [][2]string{
		{"gvbll_predictions_total", "Rate 0 while nodes arrive: `GvbllCommitsStopped`, `GvbllNoOwner`."},
		{"gvbll_revisions_total", "Rate at `--rescore-limit` times that of windows: nodes wait to be predicted again; raise it, or `--rescore-after`."},
		{"gvbll_predicted_classes_total", "One class takes over: `GvbllPredictionsShifted`."},
		{"gvbll_prediction_confidence", "All low: arrivals are unlike what was learned. All high while accuracy falls: do not trust it, forget faster."},
		{"gvbll_uncertainty_nats_total", "Epistemic rises: the posterior knows too little here, labels would help. Aleatoric rises: the data is ambiguous."},
		{"gvbll_prediction_age_seconds", "High with low step and commit times: producers send late, or there is a backlog."},
	}},
	{"Labels", [][2]string{
		{"gvbll_labels_total", "Many repeated: a producer sends again and again. Many of context: labels are sent of nodes that nobody asked about."},
		{"gvbll_label_delay_seconds", "Rises: learning is late by as much. Near the time that predictions are kept: they expire unlabelled."},
		{"gvbll_predictions_expired_total", "Labels come too late or never: only 262,144 of them are kept."},
	}},
	{"The graph and its events", [][2]string{
		{"gvbll_arrivals_total", "Rate 0: the producer stopped, or `GvbllLagGrowing`."},
		{"gvbll_context_nodes_total", "Nodes that nobody asked about; no prediction is missing."},
		{"gvbll_node_updates_total", "High: a producer sends nodes again, at the cost of arrivals."},
		{"gvbll_edges_total", "By arrivals: falls when a producer stops naming neighbours, and accuracy follows."},
		{"gvbll_edges_dropped_total", "Many expired: ids of neighbours do not match any node's."},
		{"gvbll_departures_total", "Many unknown: the keys of tombstones, or ids, do not match any node's; or nodes are sent away twice."},
		{"gvbll_edges_removed_total", "By departures: how well connected those are that leave. High means that much is made anew for them."},
		{"gvbll_level", "Waiting labels or edges rise: ids differ between producers. Nodes: memory, it does not come back."},
		{"gvbll_refused_events_total", "`GvbllDeadLettersRising`; [hostile-input.md](hostile-input.md) has each reason."},
		{"gvbll_late_events_total", "Raise `--lateness`, or mend the clock of the producer."},
		{"gvbll_forget_seconds", "Nothing is served for so long. It grows with the history: forget many at once, and keep standbys for what must be answered meanwhile."},
		{"gvbll_forgotten_nodes_total", "Grows without anyone having asked: who may write to the topic of commands?"},
		{"gvbll_forget_distance", "Large: the nodes had taught much."},
		{"gvbll_early_events_total", "A producer's clock is ahead by over an hour."},
	}},
	{"The posterior", [][2]string{
		{"gvbll_posterior_batches_total", "Rate 0 while labels come: nothing is learned; the log says why."},
		{"gvbll_posterior_updates", "Falls on a new start: the ledger was replayed by another prefix or is gone."},
		{"gvbll_posterior_step_norm", "Rises and stays: batches contradict each other, or features changed their scale."},
		{"gvbll_posterior_clipped_entries_total", "`GvbllPosteriorAtClip`."},
		{"gvbll_posterior_anchor_distance", "Climbs without end: set `--beta` above 0."},
		{"gvbll_posterior_anchor_kl_nats", "As the distance; falls of precision show here too."},
		{"gvbll_posterior_precision_mean", "Falls: more is forgotten than comes; raise `--lambda`."},
		{"gvbll_posterior_precision_min", "Near 0: a weight is forgotten. No harm where no node uses it; else raise `--lambda`."},
		{"gvbll_posterior_variance_mean", "The other way round, with the largest weighing most."},
		{"gvbll_posterior_entries", "Fixed by the model; the share of clipped weights is worked out of it."},
		{"gvbll_posterior_memory_batches", "Reaches 1/(1-λ) and stays: right. Few batches: nothing much is learned yet."},
	}},
	{"Models", [][2]string{
		{"gvbll_model_info", "No series with `part=\"shadow\"`: `--shadow` was not given to the owner."},
		{"gvbll_promotions_total", "Moves when nobody ran `gvbll promote`: who may write to the topic of commands?"},
		{"gvbll_shadow_labels_total", "As `gvbll_scored_labels_total`, of the model in the shadow; so are the next three."},
		{"gvbll_shadow_correct_labels_total", "By `gvbll_shadow_labels_total` above what serves has: `gvbll promote`."},
		{"gvbll_shadow_log_loss_nats_total", "By `gvbll_shadow_labels_total` below what serves has: `gvbll promote`."},
		{"gvbll_shadow_brier_score_total", "As the one before."},
		{"gvbll_shadow_prequential", "As `gvbll_prequential`. Of the owner alone."},
		{"gvbll_shadow_prequential_labels", "Few: its scores mean little yet."},
	}},
	{"Drift, sets and who serves", [][2]string{
		{"gvbll_drift_changes_total", "Worse: `GvbllDriftFound`. Other: `GvbllDriftUnlabelled`. Better: the head learned, or the stream became easier. The first rows after a start, or after a change, are the new reference."},
		{"gvbll_drift_score", "By its threshold: near 1 and rising is drift that is not yet found. Of the owner alone. ADWIN has none: its window is the next but last two."},
		{"gvbll_drift_threshold", "0: the reference is not full yet; embeddings take 256 rows of at most 8 a window, classes 1024 predictions."},
		{"gvbll_drift_accuracy", "Estimated falls below realised: what is served now will be right less often than what labels have been seen of. Confidence above both: overconfident."},
		{"gvbll_drift_ece", "Estimated above realised: as accuracy. Both high: `GvbllCalibrationOff`."},
		{"gvbll_drift_log_loss_nats", "Rises in steps, at each change. Compare with the NLL since the first window."},
		{"gvbll_drift_log_loss_labels", "Falls to few at every change, and grows while nothing changes."},
		{"gvbll_set_labels_total", "No series: no sets are served, see `--coverage`."},
		{"gvbll_set_covered_total", "By `gvbll_set_labels_total` it is the realised coverage: `GvbllCoverageOff`."},
		{"gvbll_set_classes_total", "By `gvbll_set_labels_total` the mean size of a set: large sets keep their promise and say little; the model is unsure."},
		{"gvbll_abstentions_total", "By predictions: how many come with the advice not to act. Out of distribution rises: arrivals are like none that were trained on."},
		{"gvbll_set_coverage_target", "What the realised coverage is held against."},
		{"gvbll_fallback", "1: `GvbllFallback`. Of the owner alone."},
		{"gvbll_fallback_lead_nats", "Rises: learning makes it worse; at the threshold the model as trained takes over."},
		{"gvbll_fallback_windows_total", "Its rate by that of windows is how much of the time learning was worse."},
	}},
	{"Windows and transactions", [][2]string{
		{"gvbll_windows_total", "Many `full`: the watermark does not pass, a partition is behind or `--lateness` too long."},
		{"gvbll_window_number", "Apart between instances: `GvbllStandbyBehind`."},
		{"gvbll_windows_replayed_total", "Of a standby it follows the owner's. Of an owner it moves at the start alone."},
		{"gvbll_window_arrivals", "All windows at `--window`: there is a backlog. All at 1: a longer `--linger` costs less."},
		{"gvbll_window_step_seconds", "Rises with the arrivals a window, else: hubs, or a starved processor."},
		{"gvbll_transactions_total", "Rate 0 while events wait: `GvbllCommitsStopped`."},
		{"gvbll_transaction_retries_total", "Above 0 now and then is a moved leader. Steadily: the broker is ill."},
		{"gvbll_commit_seconds", "High: the broker's disks or replicas. A longer `--commit-interval` means fewer."},
		{"gvbll_last_commit_timestamp_seconds", "Old is right when nothing comes; else `GvbllCommitsStopped`."},
		{"gvbll_input_lag_records", "`GvbllLagGrowing`. As of the last commit, of the owner alone."},
	}},
	{"Owner, standbys, checkpoints", [][2]string{
		{"gvbll_owner", "Sum 0: `GvbllNoOwner`. Above 1: `GvbllTwoOwners`."},
		{"gvbll_takeover_seconds", "Its count rises often: workers restart or lose their session; see their logs, `--session-timeout`."},
		{"gvbll_recovery_windows", "Many: checkpoints are far apart or were passed over; the log says."},
		{"gvbll_recovery_seconds", "Long: give `--checkpoint-dir`, or shorten `--checkpoint-every`."},
		{"gvbll_checkpoint_timestamp_seconds", "`GvbllCheckpointOld`."},
		{"gvbll_checkpoint_bytes", "Room for `--checkpoint-keep` and one of these is needed on the volume."},
		{"gvbll_checkpoint_seconds", "Near `--checkpoint-every`: a slow volume."},
		{"gvbll_checkpoint_failures_total", "`GvbllCheckpointOld`."},
	}},
}

// TestMetricsPage: docs/metrics.md has every metric, as it is exported. With
// -update it is written anew.
func TestMetricsPage(t *testing.T) {
	const file = "../docs/metrics.md"
	page := metricsPage(t)
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != page {
		t.Errorf("%s is not what the program exports: go test ./charts -run TestMetricsPage -update", file)
	}
}

func metricsPage(t *testing.T) string {
	families := exported(t)
	var b strings.Builder
	b.WriteString(`# Metrics

Every metric of ` + "`/metrics`" + `, and what to do when it looks bad. Generated from the program: ` + "`go test ./charts -run TestMetricsPage -update`" + `.
Names that begin with ` + "`Gvbll`" + ` are alerts; [runbook.md](runbook.md) has each.

Counters move on the owner of a graph alone, so they are summed over instances and survive a takeover.
Gauges of a standby are as old as its start: keep to the owner with
` + "`and on (cluster, graph, job, instance) (gvbll_owner == 1)`" + `. Histograms have classic buckets and native ones; a
Prometheus that scrapes native histograms needs ` + "`always_scrape_classic_histograms: true`" + ` for the dashboards
(` + "`scrape_classic_histograms`" + ` before 3.0). Labels have few values: heads, ten confidence bins, 64 classes and
the rest as ` + "`(other)`" + `, reasons from a closed list, topics.

`)
	for _, s := range advice {
		fmt.Fprintf(&b, "## %s\n\n| metric | type | labels | what it is | when it looks bad |\n|---|---|---|---|---|\n", s.section)
		for _, m := range s.metrics {
			f := families[m[0]]
			if f == nil {
				t.Errorf("advice on %s, which is not exported", m[0])
				continue
			}
			delete(families, m[0])
			labels := make([]string, 0, 3)
			for _, l := range f.Metric[0].Label {
				labels = append(labels, "`"+l.GetName()+"`")
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m[0], strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp(), m[1])
		}
		b.WriteString("\n")
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		t.Errorf("%s is exported and not in the page", name)
	}
	b.WriteString("## The program\n\n`gvbll_info` is always 1; its labels `version`, `model` and `encoder` say what runs. `go_*`, `process_*` and\n`promhttp_*` are those of the Prometheus client library.\n")
	return b.String()
}

// exported returns every family of the program, each with a series.
func exported(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	described := &describing{Registerer: reg}
	m, hooks := metrics.New(described), worker.NewMetrics(described).Hooks()
	out := &event.Outcome{
		Predictions: []event.Prediction{{Class: "a", Time: 1, Set: &event.Set{}}},
		Labelled:    []event.Labelled{{Delay: 1000}},
		Heads:       []event.Head{{Name: "online", Scores: make([]calibration.Score, 1), Version: 1}},
		Shadow:      &event.Outcome{Model: "b", Heads: []event.Head{{Name: "online"}}},
		Drift:       &event.Drift{Detectors: []event.Detector{{Name: "adwin"}}, ServedRows: 1, LabelledRows: 1},
		Coverage:    &event.Coverage{Labels: []event.Covered{{Held: true}}},
	}
	m.Observe(out)
	m.ShowModels(&model.Model{ID: "a"}, &model.Model{ID: "b"})
	m.ShowShadow("b", []pipeline.Summary{{Head: "online"}})
	m.Show(out, []pipeline.Summary{{Head: "online"}})
	q := &posterior.Gaussian{Dim: 1, Classes: 1, Mean: []float64{0}, Precision: []float64{1}}
	m.ShowPosterior(&metrics.Posterior{Head: "online", Classes: []string{"a"}, Now: q, Trained: q})
	m.ShowPool(&pipeline.Pooled{Heads: []string{"online"}, Weights: []float64{1}, Bias: []float64{0}, Compatibility: []float64{1}}, []string{"a"})
	hooks.Stepped(worker.Stepped{Outcome: out, Cause: "count"})
	hooks.Lag("t", 1)
	hooks.Untimely("t", 1, 1)
	hooks.Forgot(worker.Forgotten{Forgot: ledger.Forgot{Nodes: 1}})
	hooks.Committed(worker.Committed{Tries: 1, Took: time.Second})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	by := make(map[string]*dto.MetricFamily)
	for _, f := range families {
		by[f.GetName()] = f
	}
	for _, name := range described.names() {
		if by[name] == nil {
			t.Errorf("%s has no series after an outcome of everything", name)
		}
	}
	return by
}

// describing notes what is registered, with or without a series.
type describing struct {
	prometheus.Registerer
	descs []string
}

// MustRegister implements prometheus.Registerer.
func (d *describing) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		ch := make(chan *prometheus.Desc, 100)
		c.Describe(ch)
		close(ch)
		for desc := range ch {
			d.descs = append(d.descs, desc.String())
		}
	}
	d.Registerer.MustRegister(cs...)
}

var fqName = regexp.MustCompile(`fqName: "([^"]+)"`)

func (d *describing) names() (names []string) {
	for _, s := range d.descs {
		if m := fqName.FindStringSubmatch(s); m != nil {
			names = append(names, m[1])
		}
	}
	return names
}

// TestRunbook: every alert has its section, which its annotation points to, and
// a test that fires it; the runbook has no other.
func TestRunbook(t *testing.T) {
	rules, runbook := read(t, "gvbll/rules/gvbll.yml"), read(t, "../docs/runbook.md")
	tests := read(t, "prometheus/tests/alerts.yml") + read(t, "prometheus/tests/day.yml")
	alerts := found(`(?m)^ *- alert: (\w+)$`, rules)
	if len(alerts) == 0 {
		t.Fatal("no alerts")
	}
	for _, a := range alerts {
		if !strings.Contains(tests, `{alertname="`+a) && !strings.Contains(tests, "alertname: "+a) {
			t.Errorf("no test fires %s", a)
		}
		if !strings.Contains(rules, "docs/runbook.md#"+strings.ToLower(a)+"\n") {
			t.Errorf("%s does not point to its section", a)
		}
	}
	sections := found(`(?m)^## (\w+)$`, runbook)
	slices.Sort(alerts)
	slices.Sort(sections)
	if !slices.Equal(alerts, sections) {
		t.Errorf("the runbook has %v, the rules have %v", sections, alerts)
	}
	for _, a := range found("`(Gvbll\\w+)`", read(t, "../docs/metrics.md")) {
		if !slices.Contains(alerts, a) {
			t.Errorf("metrics.md names %s, which is no alert", a)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// found returns the first group of every match.
func found(pattern, text string) (groups []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		groups = append(groups, m[1])
	}
	return groups
}
