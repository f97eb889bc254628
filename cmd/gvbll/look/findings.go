package look

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
)

// Finding is something that is wrong with a graph. Alert is the alert of charts/gvbll and
// the section of docs/runbook.md that has the remedy.
type Finding struct {
	Alert string `json:"alert"`
	What  string `json:"what"`
}

// unseen are the alerts that need metrics: neither the ledger nor the brokers have what they ask for.
// Without a broker there is no status at all, which is GvbllNoBroker.
var unseen = []string{
	"GvbllPredictionsShifted", "GvbllDriftUnlabelled", "GvbllCoverageOff", "GvbllPosteriorAtClip",
	"GvbllThrottled", "GvbllLatencyBurn",
	"GvbllTwoOwners", "GvbllStandbyMissing", "GvbllStandbyBehind", "GvbllCheckpointOld", "GvbllBaseOld", "GvbllCellOff",
}

// The bounds of the alerts, for one look at a graph.
const (
	commitsOverdue   = 5 * time.Minute
	longOpen         = 2 * time.Minute // twice what producers' transactions take at most by default
	keepAhead        = 5 * time.Minute
	longBacklog      = 10 * time.Minute
	muchECE          = 0.1
	muchAccuracy     = 0.05 // lost
	muchNLL          = 0.05 // nats behind the model as trained
	manyRefused      = 20   // events
	manyMistimed     = 20   // labels
	manyUnknown      = 20   // labels of classes that the model lacks
	enoughRows       = 200  // to judge attributes by
	muchMissing      = 0.1  // of the rows, beyond the share in training
	muchMoved        = 1    // standard deviations
	muchOfAllRefused = 0.01
	muchUnmet        = 0.5 // of the edges, or of the labels
	muchUneven       = 0.2 // of the labels
)

// findings lists what is wrong, the worst first.
func (s *Status) findings() []Finding {
	found := []Finding{} // a list in JSON, even when empty
	add := func(wrong bool, alert, format string, args ...any) {
		if wrong {
			found = append(found, Finding{alert, fmt.Sprintf(format, args...)})
		}
	}
	now, before, waiting := &s.Last, &s.Before, s.waiting()

	add(len(s.evidence.missing) > 0, "GvbllNoOwner", "topics are missing: %s: check --prefix, or start 'gvbll work'",
		strings.Join(s.evidence.missing, ", "))
	add(s.Owner == nil && len(s.Standbys) == 0, "GvbllNoOwner", "no worker runs: start 'gvbll work'")
	add(s.Owner == nil && len(s.Standbys) > 0, "GvbllNoOwner", "%d workers run, and none owns the graph", len(s.Standbys))
	add(s.evidence.foreign != "", "GvbllNoOwner", "the workers' group has a member that is no worker, %s: end it, or give it a group "+
		"of its own", s.evidence.foreign)
	add(s.evidence.refuses != "", "GvbllNoOwner", "%s", s.evidence.refuses)
	add(s.evidence.tooFew != "", "GvbllNoBroker", "nothing can be committed: %s", s.evidence.tooFew)
	add(s.evidence.withheld != "", "GvbllInputWithheld", "%s", s.evidence.withheld)
	add(s.evidence.lost != "", "GvbllTopicAtRisk", "%s", s.evidence.lost)
	add(len(s.evidence.gone) > 0, "GvbllBaseOld", "%d of %d bases that the ledger names are missing or damaged",
		len(s.evidence.gone), len(s.Bases))
	stopped := waiting > 0 && s.Committed != nil && s.at.Sub(*s.Committed) > commitsOverdue+s.evidence.apart
	if stopped {
		add(true, "GvbllCommitsStopped", "%d events wait, and the last commit was %s ago", waiting, roughly(s.at.Sub(*s.Committed)))
	}
	if backlog := s.backlog(); !stopped {
		add(backlog > longBacklog, "GvbllLagGrowing", "%d events wait, %s of work at the highest rate of late", waiting, roughly(backlog))
	}
	refused := 0
	for _, events := range now.Refused {
		refused += events
	}
	share := float64(refused) / float64(max(refused+now.Predictions+now.Labels, 1))
	add(refused > manyRefused && share > muchOfAllRefused, "GvbllDeadLettersRising",
		"%.1f%% of the events were refused: see 'gvbll dead-letters'", 100*share)
	add(now.Refused[string(event.UnknownClass)] > manyUnknown, "GvbllUnknownClass",
		"%d labels are of classes that the model lacks: see 'gvbll dead-letters --reason %s'",
		now.Refused[string(event.UnknownClass)], event.UnknownClass)
	for _, a := range now.of.Attributes {
		missing, trained, moved := a.Shares()
		came := ""
		if i := slices.IndexFunc(s.Last.Unknown, func(u spelling.Unknown) bool { return u.Meant == a.Name }); i >= 0 {
			came = fmt.Sprintf(": %.40q came instead", s.Last.Unknown[i].Name)
		}
		add(a.Rows >= enoughRows && missing-trained > muchMissing, "GvbllAttributeShifted",
			"attribute %s is missing or unknown in %.1f%% of the events, in training in %.1f%%%s", a.Name, 100*missing, 100*trained, came)
		add(a.Rows >= enoughRows && math.Abs(moved) > muchMoved, "GvbllAttributeShifted",
			"the mean of attribute %s is %.1f standard deviations from that of training", a.Name, moved)
	}
	for _, u := range s.evidence.unmet {
		met, hint := s.evidence.edges, ""
		if u.What == "labels" {
			met = now.Labels + before.Labels
		}
		if u.Otherwise {
			hint = ", which the graph has as a text: ids are texts here and numbers there"
			if strings.HasPrefix(u.Node, `"`) {
				hint = ", which the graph has as a number: ids are numbers here and texts there"
			}
		}
		share := float64(u.Waiting) / float64(u.Waiting+met)
		add(share > muchUnmet, "GvbllIdsDiffer", "%.0f%% of the %s wait for a node that has not come, %d of them, such as for %s%s",
			100*share, u.What, u.Waiting, u.Node, hint)
	}
	mistimed := now.Figures.Int(event.LabelsMistimed)
	add(mistimed > manyMistimed && 2*mistimed > now.Labels, "GvbllLabelTimesOff",
		"%d of %d labels have a time that is days before their node's, or ten years after it: one of the two is in another unit than ms",
		mistimed, now.Labels)
	told := time.UnixMilli(int64(1000 * now.Figures.Of(event.KeepWatermark)))
	add(told.Sub(s.at) > keepAhead, "GvbllKeepAhead",
		"the clock of --keep is %s ahead: %d nodes and %d edges expired", roughly(told.Sub(s.at)), now.Expired.Nodes, now.Expired.Edges)
	add(s.evidence.drift != "", "GvbllDriftFound", "the log loss rose: %s found it", s.evidence.drift)
	add(s.evidence.fallback, "GvbllFallback", "the model as trained serves, because the one that learns was worse")
	add(s.evidence.silent > 0, "GvbllLabelsStopped", "labels stopped: the last one came %s ago", roughly(s.evidence.silent))
	others := now.of.Apart(s.evidence.told)
	add(others > page.MuchApart, "GvbllLabelsApart", "%.0f%% of the labels are of other classes than in training, and than the "+
		"model as trained predicts of all nodes: scores say nothing of these", 100*others)
	for _, w := range now.of.Worse(&before.of) {
		add(true, "GvbllClassWorse", "%s of class %s fell from %.3f to %.3f", w.Score, shown(w.Class), w.Was, w.Is)
	}
	if now.Labels >= page.EnoughLabels {
		add(now.ECE > max(muchECE, now.Chance), "GvbllCalibrationOff",
			"confidence and accuracy differ by %.1f points, and so many labels give at most %.1f by chance", 100*now.ECE, 100*now.Chance)
		add(before.Labels >= page.EnoughLabels && before.Acc-now.Acc > max(muchAccuracy,
			page.Certain*math.Hypot(before.accuracyDeviation(), now.accuracyDeviation())), "GvbllAccuracyFalling",
			"accuracy fell from %.3f to %.3f", before.Acc, now.Acc)
		add(now.StaticNLL > 0 && now.NLL-now.StaticNLL > muchNLL, "GvbllOnlineWorse",
			"what is served is worse than the model as trained, by %.3f nats", now.NLL-now.StaticNLL)
		uneven, often := unevenness(now.of.Classes)
		add(uneven > muchUneven, "GvbllLabelsUneven", "labels come more often for nodes that are predicted as %s "+
			"than for others, by %.0f points of the labels: see --label-rates", often, 100*uneven)
	}
	return found
}

// unevenness returns how much larger the shares are that some classes have of the predictions of labelled
// nodes than of those of arrivals, each beyond its standard deviation, summed, and the class with most
// of it. It is 0 where arrivals were not counted.
func unevenness(classes []page.Group) (uneven float64, often string) {
	labelled, arrived, most := 0.0, 0.0, 0.0
	for i := range classes {
		labelled += float64(classes[i].Predicted.Labels)
		arrived += float64(classes[i].Arrived)
	}
	if labelled == 0 || arrived == 0 {
		return 0, ""
	}
	for i := range classes {
		share := float64(classes[i].Arrived) / arrived
		more := float64(classes[i].Predicted.Labels)/labelled - share - math.Sqrt(share*(1-share)/labelled)
		if uneven += max(more, 0); more > most {
			often, most = classes[i].Name, more
		}
	}
	return uneven, often
}

// backlog estimates how long the events that wait will take: at the highest rate that the
// graph has shown. Its mean rate would be that of its producers, with the time in which it had
// nothing to do or did not run yet. The backlog is 0 if no rate is known.
func (s *Status) backlog() time.Duration {
	if s.evidence.pace == 0 {
		return 0
	}
	return time.Duration(float64(s.waiting()) / s.evidence.pace * float64(time.Second))
}

// accuracyDeviation returns the standard deviation of the accuracy of so many labels.
func (p *statusPeriod) accuracyDeviation() float64 {
	return math.Sqrt(p.Acc * (1 - p.Acc) / float64(p.Labels))
}
