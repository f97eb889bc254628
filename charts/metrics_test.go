// Package charts_test checks dashboards, rules and documentation against the
// metrics that the program exports.
package charts_test

import (
	"encoding/json"
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
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

// advice says what to do when a metric looks bad. docs/metrics.md has its order.
var advice = []struct {
	section string
	metrics [][2]string
}{
	{"Scores of what was served", [][2]string{
		{"gvbll_scored_labels_total", "Rate 0: no labels come, `GvbllLabelsStopped`."},
		{"gvbll_correct_labels_total", "Divided by the labels, the accuracy. Falls for static too: the data changed; for online alone: `GvbllOnlineWorse`."},
		{"gvbll_log_loss_nats_total", "Divided by the labels, the NLL."},
		{"gvbll_brier_score_total", ""},
		{"gvbll_log_loss_gain_squares_total", "Gives the standard error of the gain."},
		{"gvbll_prequential", "Of the owner only. For recent scores, take rates of the counters."},
		{"gvbll_prequential_labels", "Few: these scores mean little."},
		{"gvbll_calibration_predictions_total", "With the next two, ECE and reliability: `GvbllCalibrationOff`."},
		{"gvbll_calibration_correct_total", ""},
		{"gvbll_calibration_confidence_total", "Above the correct ones: overconfident."},
		{"gvbll_labelled_classes_total", "The largest share is the accuracy of always saying the most frequent class."},
		{"gvbll_static_predicted_classes_total", "Far from the labels' classes: `GvbllLabelsApart`."},
		{"gvbll_training_share", ""},
		{"gvbll_class_rows_total", "With the next four, AUC, average precision and what a threshold catches: `GvbllClassWorse`."},
		{"gvbll_class_positives_total", "Few: scores of the class mean little."},
		{"gvbll_class_probability_total", "Far from the bin's positives: this class's probability is wrong."},
		{"gvbll_class_rows_from_total", "What a threshold at the bin acts on."},
		{"gvbll_class_positives_from_total", "Divided by the one before, its precision; by the one of bin 0, its recall."},
		{"gvbll_class_average_precision", "Falls: fewer of those ranked first are of the class. Of so few labels it moves by some hundredths by chance."},
		{"gvbll_slice_labels_total", "Divides the next two. One part alone is bad: look at who sends it."},
		{"gvbll_slice_correct_total", "Low at degree 0: neighbours are missing; in fresh neighbourhoods: the graph drifts."},
		{"gvbll_slice_confidence_total", "Above `gvbll_slice_correct_total`: overconfident there."},
		{"gvbll_cohort_labels_total", "Most are (others): the attribute has too many values, such as an id."},
		{"gvbll_cohort_correct_total", "Low for one value: it is rare in training, or its data changed."},
		{"gvbll_cohort_log_loss_nats_total", ""},
		{"gvbll_cohort_set_covered_total", ""},
		{"gvbll_cohort_acted_labels_total", ""},
		{"gvbll_cohort_score", "`ece` above `ece_chance`: probabilities are wrong for this value."},
	}},
	{"The pool of heads", [][2]string{
		{"gvbll_pool_weight", "Near 0 or below: the head adds nothing to the others."},
		{"gvbll_pool_share", "Large for a head: it does better alone than with the others."},
		{"gvbll_pool_bias", "Far from 0: the class is more or less frequent than the heads believe."},
		{"gvbll_pool_label_rate", "Only there with `--label-rates`."},
		{"gvbll_pool_regret_nats", "Above a few nats and rising: one head alone would do better."},
	}},
	{"Predictions, before any label", [][2]string{
		{"gvbll_predictions_total", "Rate 0 while nodes arrive: `GvbllCommitsStopped`, `GvbllNoOwner`."},
		{"gvbll_revisions_total", "At `--rescore-limit` in every window: nodes wait. Raise it, or `--rescore after=N`."},
		{"gvbll_predicted_classes_total", "One class takes over: `GvbllPredictionsShifted`."},
		{"gvbll_prediction_confidence", "All low: arrivals are unlike the training data. All high while accuracy falls: `GvbllCalibrationOff`."},
		{"gvbll_uncertainty_nats_total", "Epistemic rises: labels would help. Aleatoric rises: the data is ambiguous."},
		{"gvbll_prediction_age_seconds", "`GvbllLatencyBurn`. High while step and commit times are low: producers send late, or a backlog. Exemplars have the trace of `traceparent`."},
	}},
	{"Labels", [][2]string{
		{"gvbll_last_label_timestamp_seconds", "`GvbllLabelsStopped`. The newest of all workers counts."},
		{"gvbll_label_delay_seconds", "Longer than predictions are kept: they expire unlabelled."},
	}},
	{"The graph and its events", [][2]string{
		{"gvbll_unknown_fields_total", "A misspelt name; the log has a record."},
		{"gvbll_refused_events_total", "`GvbllDeadLettersRising`; [reasons](hostile-input.md)."},
		{"gvbll_unknown_class_labels_total", "`GvbllUnknownClass`. Series of the first 64 names; \"(other)\" has the rest."},
		{"gvbll_late_events_total", "Raise `lateness` of `--watermark`, or correct the producer's clock."},
		{"gvbll_forget_seconds", "It grows with the history: forget many nodes in one command."},
		{"gvbll_forgotten_nodes_total", "Nobody asked for it: check who may write to the commands topic."},
		{"gvbll_forget_distance", "Large: the forgotten nodes had taught the model much."},
		{"gvbll_early_events_total", "A producer's clock is ahead by over an hour."},
	}},
	{"The posterior", [][2]string{
		{"gvbll_posterior_batches_total", "Rate 0 while labels come: the log says why."},
		{"gvbll_posterior_step_norm", "Stays high: batches contradict each other, or features changed their scale."},
		{"gvbll_posterior_clipped_entries_total", "`GvbllPosteriorAtClip`."},
		{"gvbll_posterior_anchor_distance", "Climbs without end: with `--head paper`, set `--beta` above 0."},
		{"gvbll_posterior_anchor_kl_nats", ""},
		{"gvbll_posterior_entries", ""},
	}},
	{"Models", [][2]string{
		{"gvbll_model_info", "No series with `part=\"shadow\"`: the owner runs without `--shadow`."},
		{"gvbll_trial_labels", "Stands still: no labels, or the model is being loaded."},
		{"gvbll_trial_lead_nats", "Above 0: the model on trial is better."},
		{"gvbll_promotions_total", "Nobody ran `gvbll promote`: check who may write to the commands topic."},
	}},
	{"Drift, sets and fallback", [][2]string{
		{"gvbll_drift_changes_total", "Worse: `GvbllDriftFound`. Other: `GvbllDriftUnlabelled`. See [coverage.md](coverage.md#drift-detectors)."},
		{"gvbll_drift_rise_nats", "`GvbllDriftFound`. Large in adwin-static alone: the heads keep up."},
		{"gvbll_drift_score", "Near the threshold and rising: a change that is not yet certain. ADWIN has none."},
		{"gvbll_drift_threshold", "0: the reference of 512 rows of embeddings is not complete yet."},
		{"gvbll_drift_accuracy", "Estimated below realised: what is served now is right less often. Confidence above both: overconfident."},
		{"gvbll_drift_ece", "Estimated above realised: as for accuracy. Both high: `GvbllCalibrationOff`."},
		{"gvbll_drift_log_loss_nats", "Rises in steps, one at each change."},
		{"gvbll_set_labels_total", "No series: no sets are served, see `--coverage`."},
		{"gvbll_set_covered_total", "Divided by the labels, the realised coverage: `GvbllCoverageOff`."},
		{"gvbll_set_classes_total", "Divided by the labels, the mean size of a set."},
		{"gvbll_abstentions_total", "`empty-set` or `low-confidence` rises: arrivals are unlike what was learned."},
		{"gvbll_set_coverage_target", ""},
		{"gvbll_fallback", "1: `GvbllFallback`. Of the owner only."},
		{"gvbll_fallback_lead_nats", "Rises: learning makes predictions worse."},
	}},
	{"Features by name", [][2]string{
		{"gvbll_attribute_rows_total", "No series of attributes: the model has no schema, see docs/data.md."},
		{"gvbll_attribute_values_total", "Far above training: `GvbllAttributeShifted`. Of the first 64 attributes."},
		{"gvbll_attribute_standard_deviations_total", "Above less below, by the rows, is how far the mean moved: `GvbllAttributeShifted`."},
		{"gvbll_attribute_trained_share", ""},
		{"gvbll_attribute_odd_labels_total", "More than in training: the attribute shifted."},
		{"gvbll_attribute_odd_log_loss_nats_total", "Above the NLL of the others: the shift costs."},
		{"gvbll_attribute_odd_trained_share", ""},
		{"gvbll_attributes_unknown_total", "A name that training did not have, perhaps misspelt."},
	}},
	{"Windows and transactions", [][2]string{
		{"gvbll_windows_total", "Many `full`: the watermark does not advance, because a partition is behind or `lateness` of `--watermark` is too long."},
		{"gvbll_window_number", ""},
		{"gvbll_window_longest_seconds", "`GvbllLagGrowing` is silent above 300."},
		{"gvbll_windows_replayed_total", "Stands still on a standby: `GvbllStandbyBehind`."},
		{"gvbll_window_arrivals", "All at `--window`: a backlog. All at 1: a longer `--linger` costs less."},
		{"gvbll_window_step_seconds", "The rate of its sum is the share of busy time: near 1, no headroom is left. Rises without more arrivals: hubs, or too little processor time."},
		{"gvbll_transactions_total", "Rate 0 while events wait: `GvbllCommitsStopped`."},
		{"gvbll_transaction_retries_total", "Steadily: the broker is in trouble."},
		{"gvbll_commit_seconds", "High: the broker is slow. A longer `--commit-interval` needs fewer."},
		{"gvbll_last_commit_timestamp_seconds", "Old while events come: `GvbllCommitsStopped`."},
		{"gvbll_input_lag_records", "`GvbllLagGrowing`. Of the owner only."},
		{"gvbll_input_withheld_records", "`GvbllInputWithheld`. Of the owner only."},
		{"gvbll_kafka_waiting_seconds", "Above 0 on every worker: `GvbllNoBroker`; `quota`: `GvbllThrottled`."},
		{"gvbll_kafka_throttled_seconds_total", "Rate near 1: `GvbllThrottled`."},
		{"gvbll_topic_at_risk", "`GvbllTopicAtRisk`. No series: nothing is at risk, or the client may not read the settings."},
	}},
	{"Calls, with --decide", [][2]string{
		{"gvbll_decide_calls_total", "Late: `--linger`, `--commit-interval` or the lag. Busy: too many calls. Old: clients send ids again."},
		{"gvbll_decide_seconds", "Far above the commit interval and `--linger`: the windows' time, or the lag."},
	}},
	{"Cells, of a graph of several", [][2]string{
		{"gvbll_cells", "Owners of all workers together are fewer than the graph's cells: `GvbllNoOwner` names one. Counters of such a worker are sums over its cells; gauges of one cell are left out."},
		{"gvbll_cell_owner", "Sum 0 for a cell: `GvbllNoOwner`. Above 1: `GvbllTwoOwners`."},
		{"gvbll_cell_lag_seconds", "Rises: `GvbllLagGrowing` names cell and worker. More workers: an [autoscaler](kubernetes.md#cells) does it."},
		{"gvbll_cell_nodes", "One cell has most of the nodes: its memory and its pace are those of one worker."},
		{"gvbll_cell_last_label_timestamp_seconds", "Long ago: labels of this tenant stopped, `GvbllCellOff`."},
		{"gvbll_cell_verdict_points", "Below -1 or above 10: `GvbllCellOff`, though the sums of all cells look right."},
	}},
	{"Owner, standbys, checkpoints", [][2]string{
		{"gvbll_owner", "Sum 0: `GvbllNoOwner`. Above 1: `GvbllTwoOwners`."},
		{"gvbll_behind_timestamp_seconds", "Long ago: `GvbllStandbyBehind`. Of every worker."},
		{"gvbll_takeover_seconds", "Often: workers restart or lose their session (`--session-timeout`)."},
		{"gvbll_takeover_timestamp_seconds", ""},
		{"gvbll_recovery_windows", "Many: checkpoints are far apart or were rejected."},
		{"gvbll_recovery_seconds", "Long: set `--state-dir`, or shorten `--checkpoints every=…`."},
		{"gvbll_checkpoint_timestamp_seconds", "`GvbllCheckpointOld`."},
		{"gvbll_checkpoint_bytes", "The volume needs room for `--checkpoints keep=…` of these and one more."},
		{"gvbll_checkpoint_seconds", "Near `--checkpoints every=…`: the volume is slow."},
		{"gvbll_checkpoint_failures_total", "`GvbllCheckpointOld`."},
		{"gvbll_base_timestamp_seconds", "`GvbllBaseOld`."},
		{"gvbll_base_every_seconds", "`GvbllBaseOld` fires after three of these without a base."},
		{"gvbll_base_bytes", "A start on an empty disk reads so much."},
		{"gvbll_base_stored_bytes_total", "[What a base costs](reliability.md#bases)."},
		{"gvbll_base_failures_total", "`GvbllBaseOld`. The log says why."},
		{"gvbll_needed_offset", "Behind a topic's first offset: the oldest base is of no use."},
		{"gvbll_needed_timestamp_seconds", "Near the topic's retention: `GvbllTopicAtRisk`."},
	}},
}

// TestMetricsPage: docs/metrics.md is up to date: it lists every exported metric, with
// its help, labels and advice. -update writes it.
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
		t.Errorf("%s differs from what the program exports; to update it: go test ./charts -run TestMetricsPage -update", file)
	}
}

func metricsPage(t *testing.T) string {
	families := exported(t)
	var b strings.Builder
	row := func(name, advice string) { // once
		f := families[name]
		if f == nil {
			return
		}
		delete(families, name)
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		series := name
		if labels != nil {
			series += "{" + strings.Join(labels, ",") + "}"
		}
		if strings.HasPrefix(name, "gvbll_shadow_") {
			b.WriteString("`" + series + "`, ")
			return
		}
		of := ""
		if f.GetType() == dto.MetricType_HISTOGRAM {
			of = " (histogram)"
		}
		if advice != "" {
			advice = " *" + advice + "*"
		}
		fmt.Fprintf(&b, "- `%s`%s: %s%s\n", series, of, f.GetHelp(), advice)
	}
	b.WriteString(`# Metrics

Every metric of ` + "`/metrics`" + `, and in italics what to do when it looks bad; made by
` + "`go test ./charts -run TestMetricsPage -update`" + `. Names that begin with ` + "`Gvbll`" + ` are alerts: [runbook.md](runbook.md);
in braces stand labels; counters end in ` + "`_total`" + `, what is no histogram is a gauge.

- Only the owner of a graph counts. Sum counters over instances: the sum survives a takeover. A standby sets its gauges at its
  start and not again: select the owner's with ` + "`and on (cluster, graph, job, instance) (gvbll_owner == 1)`" + `.
- Histograms have classic and native buckets. The dashboards need the classic ones: ` + "`always_scrape_classic_histograms: true`" + `
  where Prometheus scrapes native ones (` + "`scrape_classic_histograms`" + ` before 3.0).
- Every label is scored against all heads. Series with ` + "`serving=\"true\"`" + ` are of the head that served its node, and add
  up to the scores of what was served, through fallbacks and promotions; sum without ` + "`serving`" + ` for a head's own.
- Labels have few values: of classes the first 64, all others as ` + "`(other)`" + `.
- Workers export the backlog, so it is unknown while none lives. With [kafka_exporter](https://github.com/danielqsj/kafka_exporter)
  under the same label ` + "`cluster`" + `, rules and dashboards then have it from the brokers: workers commit their offsets to the group
  ` + "`<prefix>.ledger`" + ` (` + "`kafka_consumergroup_lag`" + `).

`)
	b.WriteString(queries)
	for _, s := range advice {
		fmt.Fprintf(&b, "## %s\n\n", s.section)
		for _, m := range s.metrics {
			if families[m[0]] == nil {
				t.Errorf("there is advice on %s, which is not exported", m[0])
			}
			row(m[0], m[1])
		}
		if s.section == "Models" {
			b.WriteString("- ")
			for _, name := range slices.Sorted(maps.Keys(families)) {
				if strings.HasPrefix(name, "gvbll_shadow_") {
					row(name, "")
				}
			}
			b.WriteString("as those without `shadow`. *NLL below the serving model's: `gvbll promote`.*\n")
		}
		b.WriteString("\n")
	}
	b.WriteString("## What the engine counts\n\nEach is in the ledger's records, in `gvbll status --json` and on page and report, too.\n\n")
	for _, f := range figure.All() {
		row("gvbll_"+f.Name, f.Advice)
	}
	b.WriteString("\n")
	for _, name := range slices.Sorted(maps.Keys(families)) {
		t.Errorf("%s is exported, but there is no advice on it", name)
	}
	b.WriteString("## The program\n\n`gvbll_info` is always 1; its labels `version`, `model` and `encoder` say what runs. `go_*`, `process_*` and\n`promhttp_*` are those of the Prometheus client library.\n")
	return b.String()
}

// queries are the sections on the ECE and on single classes.
const queries = `## Calibration, over any range

ECE over all labels of a range, here a day:

    sum by (graph) (abs(sum by (graph, bin) (increase(gvbll_calibration_correct_total{serving="true"}[1d]))
                      - sum by (graph, bin) (increase(gvbll_calibration_confidence_total{serving="true"}[1d]))))
      / (sum by (graph) (increase(gvbll_calibration_predictions_total{serving="true"}[1d])) > 0)

The [rules](../charts/gvbll/rules/gvbll.yml) have it over the last hour, ` + "`graph:gvbll_served_ece:ratio1h`" + `, and its chance level,
` + "`graph:gvbll_served_ece_by_chance:bound1h`" + `, which calibrated probabilities do not exceed by chance with as many labels
([ADR 27](adr/0027-ece-and-chance.md)): copy them with another range. By how many points the first is above the second is
` + "`graph:gvbll_verdict:points1h`" + `: 0 where it is not, below 0 where labels cannot tell. Never average the ECE of short ranges: of few labels it is
mostly chance.

## Rare classes, over any range

The probability of the class that is acted on (` + "`--act`" + `), of those that are named (` + "`--by class=`" + `), and of the two rarest of the
training nodes, is counted in forty bins of log odds ([ADR 36](adr/0036-rare-classes.md)). Counters say how much is in a bin or above; what is in
it is that less what is in the next one, which the label ` + "`next`" + ` names. The rules have bins, AUC and average precision over a day, with
standard errors (` + "`graph_class:gvbll_auc:ratio1d`, `graph_class:gvbll_auc:error1d`" + `). Precision and recall by threshold, the label ` + "`bin`" + `:

    sum by (graph, class, bin) (increase(gvbll_class_positives_from_total[1d])) / (sum by (graph, class, bin) (increase(gvbll_class_rows_from_total[1d])) > 0)
    sum by (graph, class, bin) (increase(gvbll_class_positives_from_total[1d]))
      / on (graph, class) group_left () (sum by (graph, class) (increase(gvbll_class_positives_total[1d])) > 0)

All are of what was served, against the first label of a node. Binning costs less than .005 where a class has a few hundred labels; of fewer, ` + "`gvbll_class_average_precision`" + ` is exact.

`

// ownQueries are the metrics that are on no panel and in no alert, each with a reason.
var ownQueries = []struct {
	why     string
	metrics []string
}{
	{"the NLL says the same, and is there", []string{"gvbll_brier_score_total", "gvbll_shadow_brier_score_total"}},
	{"panels are of the range that one looks at, from counters; these are since the first window, as `gvbll status` and the page have them", []string{
		"gvbll_prequential", "gvbll_shadow_prequential", "gvbll_shadow_prequential_labels",
	}},
	{"the panel of the shadow compares the NLL; a model is not promoted by its accuracy", []string{"gvbll_shadow_correct_labels_total"}},
	{"overconfidence of a slice, less labels than a line needs", []string{"gvbll_slice_confidence_total"}},
	{"for a reader of the paper: the live page draws the posterior and the pool", []string{
		"gvbll_uncertainty_nats_total", "gvbll_pool_regret_nats", "gvbll_posterior_step_norm", "gvbll_posterior_anchor_distance",
		"gvbll_posterior_anchor_kl_nats", "gvbll_asked_log_loss_nats_total", "gvbll_asked_weighed_log_loss_nats_total",
		"gvbll_asked_weight_squares_total", "gvbll_asked_weighed_correct_squares_total",
	}},
	{"*Changes found* has what comes of it", []string{"gvbll_drift_score", "gvbll_drift_threshold", "gvbll_drift_log_loss_nats", "gvbll_drift_ece"}},
	{"for tuning windows; *Latency* and *Busy* have what they cost", []string{"gvbll_windows_total", "gvbll_window_arrivals"}},
	{"for planning: how long starts, takeovers and forgetting take, and what checkpoints and bases weigh. Where they fail, an alert says so", []string{
		"gvbll_windows_replayed_total", "gvbll_takeover_seconds", "gvbll_recovery_windows", "gvbll_recovery_seconds", "gvbll_checkpoint_bytes",
		"gvbll_checkpoint_seconds", "gvbll_base_bytes", "gvbll_base_stored_bytes_total", "gvbll_base_failures_total", "gvbll_forget_seconds",
		"gvbll_forget_distance",
	}},
	{"*Oldest record that is needed* has its age; this is for who deletes records by offset", []string{"gvbll_needed_offset"}},
}

// TestEveryMetricIsSomewhere: a metric is on a panel, or in the rule of an alert, or documented as one for queries of
// one's own, and not two of these; or it is a figure with words, which status, report and page show. What a recording
// rule is computed from is where the rule is, and each rule is somewhere.
func TestEveryMetricIsSomewhere(t *testing.T) {
	rules := read(t, "gvbll/rules/gvbll.yml")
	name := regexp.MustCompile(`[\w:]*gvbll_[\w:]+`)
	recorded, shown := make(map[string]string), ""
	for _, r := range strings.Split(rules, "      - ")[1:] {
		if m := regexp.MustCompile(`^record: (\S+)\n`).FindStringSubmatch(r); m != nil {
			recorded[m[1]] = strings.TrimPrefix(r, m[0])
		} else {
			shown += r
		}
	}
	for _, d := range dashboards(t) {
		for _, p := range d.all() {
			for _, q := range p.Targets {
				shown += q.Expr + "\n"
			}
		}
	}
	shown += strings.Join(found(`"expr": "(.*)",?\n`, read(t, "gvbll/dashboards/calibration.json")), "\n") // annotations
	seen := make(map[string]bool)
	for todo := name.FindAllString(shown, -1); len(todo) > 0; {
		next := todo[len(todo)-1]
		if todo = todo[:len(todo)-1]; !seen[next] {
			seen[next] = true
			todo = append(todo, name.FindAllString(recorded[next], -1)...)
		}
	}
	for r := range recorded {
		if !seen[r] && !strings.Contains(read(t, "../docs/kubernetes.md"), r) { // of an autoscaler
			t.Errorf("%s is recorded, and on no panel and in no alert", r)
		}
	}
	own := make(map[string]bool)
	for _, o := range ownQueries {
		for _, m := range o.metrics {
			own[m] = true
		}
	}
	said := make(map[string]bool)
	for _, f := range figure.All() {
		said["gvbll_"+f.Name] = said["gvbll_"+f.Name] || f.Words != ""
	}
	all := exported(t)
	for m, f := range all {
		on := seen[m] || f.GetType() == dto.MetricType_HISTOGRAM && (seen[m+"_bucket"] || seen[m+"_sum"])
		if on == own[m] && (on || !said[m]) {
			t.Errorf("%s is on a panel or in an alert: %t, and for queries of one's own: %t; a figure with Words may be neither", m, on, own[m])
		}
	}
	for m := range own {
		if all[m] == nil {
			t.Errorf("%s is not exported", m)
		}
	}
}

// exported returns all metric families of the program. It fails if one has no series,
// because the outcome here lacks what it counts.
func exported(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	described := &describing{Registerer: reg}
	m, stream := metrics.New(described), worker.NewMetrics(described)
	metrics.NewCalls(described).Ended("answered", time.Millisecond, true)
	now := time.Now()
	metrics.RegisterCells(described, func(time.Time) []metrics.Cell { return []metrics.Cell{{Owner: true, LastLabel: &now}} })
	out := &event.Outcome{
		Predictions: []event.Prediction{{Class: "a", Time: 1, Set: &event.Set{}, Act: new(bool)}},
		Labelled:    []event.Labelled{{Delay: 1000}},
		Watched:     []int32{0},
		AsTrained:   []int32{1},
		Heads:       []event.Head{{Name: "online", Scores: make([]event.Score, 1), Version: 1, Step: 1}},
		Shadow:      &event.Outcome{Model: "b", Heads: []event.Head{{Name: "online"}}},
		Drift:       &event.Drift{Detectors: []event.Detector{{Name: "adwin"}}, ServedRows: 1, LabelledRows: 1},
		Coverage:    &event.Coverage{Labels: []event.Covered{{Held: true}}},
		Cohorts:     &event.Cohorts{By: "country", Values: []string{"FR"}, Odd: []uint64{1}},
		Odd: event.Odd{
			Classes:    []string{"born"},
			Attributes: &event.Attributes{Gaps: []int64{1}, Others: []int64{0}, Clipped: []int64{0}, Sum: []float64{0}},
		},
	}
	schema := &attributes.Schema{Attributes: []attributes.Attribute{{Name: "amount", Kind: attributes.Number, SD: 1}}}
	m.ShowModels(&model.Model{ID: "a", Meta: model.Meta{Schema: schema, Classes: []string{"a", "b"}, Training: model.Training{Labels: []int{1, 1}}}}, &model.Model{ID: "b"})
	m.Observe(out)
	for i := range 60 {
		labels := []event.Labelled{{Class: int32(i % 2)}}
		m.Observe(&event.Outcome{Labelled: labels, Watched: out.Watched, Heads: []event.Head{{Name: "online", Scores: make([]event.Score, 1)}}})
	}
	m.Trial("b", 20, 40, 1.5)
	m.ShowShadow("b", []pipeline.Summary{{Head: "online"}})
	m.Show(out, []pipeline.Summary{{Head: "online"}})
	m.ShowCohorts(pipeline.Cohorts{By: "country", List: []serve.Cohort{{Value: "FR", Tally: calibration.Tally{Labels: 50}}}})
	q := &posterior.Gaussian{Dim: 1, Classes: 1, Mean: []float64{0}, Precision: []float64{1}}
	m.ShowPosterior("online", q, q)
	m.ShowPool(&pipeline.Pooled{Heads: []string{"online"}, Weights: []float64{1}, Parts: []string{"online"}, Shares: []float64{1}, Bias: []float64{0}, LabelRates: []float64{1}, Compatibility: []float64{1}}, []string{"a"})
	stream.Observe(replay.Stepped{Outcome: out, Cause: "count"})
	stream.Observe(replay.TookOver{Took: time.Second})
	stream.Observe(replay.Saved{Bytes: 1, Took: time.Second})
	stream.Observe(replay.Lag{Topic: "t", Records: 1, Withheld: 1})
	stream.AtRisk([]topics.Risk{{Topic: "t", Setting: "retention.ms"}})
	stream.Observe(replay.Based{Window: 1, At: time.Now()})
	stream.Needed([]replay.Need{{TopicPartition: kafka.TopicPartition{Topic: "t"}, Since: time.Now()}}, time.Now())
	stream.Observe(replay.Untimely{Topic: "t", Late: 1, Early: 1})
	stream.Observe(replay.UnknownField{Topic: "t", Name: "f", Records: 1})
	stream.Observe(replay.Forgotten{Forgot: ledger.Forgot{Nodes: 1}})
	stream.Observe(replay.Committed{Tries: 1, Took: time.Second})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	by := make(map[string]*dto.MetricFamily)
	for _, f := range families {
		by[f.GetName()] = f
	}
	for _, f := range families {
		for _, b := range f.Metric[0].Histogram.GetBucket() {
			if le := fmt.Sprint(b.GetUpperBound()); len(le) > 12 {
				t.Errorf("%s has a bucket up to %s", f.GetName(), le)
			}
		}
	}
	for _, name := range described.names() {
		if by[name] == nil {
			t.Errorf("%s has no series: the outcome of this test lacks what it counts", name)
		}
	}
	return by
}

// describing is a registerer that records the descriptions of all metrics, also of
// those that have no series yet.
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

// names returns the names of the registered metrics.
func (d *describing) names() (names []string) {
	for _, s := range d.descs {
		if m := fqName.FindStringSubmatch(s); m != nil {
			names = append(names, m[1])
		}
	}
	return names
}

// TestRunbook: every alert has a section in the runbook, an annotation and a label that
// link to it, a test that fires it, and a part in the test of an outage, in which it must
// end. The runbook has no other sections.
func TestRunbook(t *testing.T) {
	rules, runbook := read(t, "gvbll/rules/gvbll.yml"), read(t, "../docs/runbook.md")
	tests := read(t, "prometheus/tests/alerts.yml") + read(t, "prometheus/tests/day.yml") + read(t, "prometheus/tests/classes.yml")
	outages := read(t, "prometheus/tests/outages.yml")
	alerts := found(`(?m)^ *- alert: (\w+)$`, rules)
	if len(alerts) == 0 {
		t.Fatal("no alerts")
	}
	for _, a := range alerts {
		if !strings.Contains(tests, `{alertname="`+a) && !strings.Contains(tests, "alertname: "+a) {
			t.Errorf("no test fires %s", a)
		}
		section := strings.ToLower(a)
		if !strings.Contains(rules, "docs/runbook.md#"+section+"\n") || !strings.Contains(rules, ", runbook: "+section+"}\n") {
			t.Errorf("%s has no link to its section", a)
		}
		if !strings.Contains(outages, `{alertname="`+a+`",graph=`) {
			t.Errorf("%s is not in the test of all workers gone", a)
		}
	}
	sections := found(`(?m)^## (\w+)$`, runbook)
	slices.Sort(alerts)
	slices.Sort(sections)
	if !slices.Equal(alerts, sections) {
		t.Errorf("the runbook has sections %v, want one for each alert %v", sections, alerts)
	}
	for _, a := range found("`(Gvbll\\w+)`", read(t, "../docs/metrics.md")) {
		if !slices.Contains(alerts, a) {
			t.Errorf("metrics.md names %s, which is not an alert", a)
		}
	}
}

// TestEveryWaitIsRed: whatever a worker may wait for at Kafka, which makes /readyz answer 503, has a verdict that is red, see
// prometheus/tests/verdict.yml; and so does a worker that replays the ledger.
func TestEveryWaitIsRed(t *testing.T) {
	cases := read(t, "prometheus/tests/verdict.yml")
	reds := make(map[string]bool)
	for _, p := range dashboards(t)["calibration"].panel(t, "Verdict").FieldConfig.Defaults.Mappings {
		var options map[string]struct{ Color string }
		if p.Type == "value" {
			if err := json.Unmarshal(p.Options, &options); err != nil {
				t.Fatal(err)
			}
		}
		for value, o := range options {
			reds[value] = o.Color == "red"
		}
	}
	for _, what := range append(slices.Collect(maps.Keys(new(kafka.Health).Waits())), "replaying") {
		m := regexp.MustCompile(`points1h{graph="` + what + `"}', value: (-\d+)}`).FindStringSubmatch(cases)
		if m == nil || !reds[m[1]] || what != "replaying" && !strings.Contains(cases, `what="`+what+`"}', values: '0x5 45+60x5'`) {
			t.Errorf("%s: the verdict is tested to be %v, want one that is red of %v", what, m, reds)
		}
	}
}

// TestRunbookNamesPanels: whatever the runbook tells to look at on a dashboard, in
// italics, is the beginning of a panel's title.
func TestRunbookNamesPanels(t *testing.T) {
	var titles []string
	for _, name := range []string{"calibration", "graphs", "posterior", "stream"} {
		titles = append(titles, found(`(?m)^ +"title": "(.*)",$`, read(t, "gvbll/dashboards/"+name+".json"))...)
	}
	if len(titles) == 0 {
		t.Fatal("no titles")
	}
	for _, name := range found(`[^*\n]\*([A-Z][^*.]+)\*[^*]`, read(t, "../docs/runbook.md")) {
		name = strings.Join(strings.Fields(name), " ")
		if !slices.ContainsFunc(titles, func(title string) bool { return strings.HasPrefix(title, name) }) {
			t.Errorf("the runbook names the panel %q, which no dashboard has", name)
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

// found returns the first group of every match of a pattern in a text.
func found(pattern, text string) (groups []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		groups = append(groups, m[1])
	}
	return groups
}
