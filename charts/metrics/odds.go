package metrics

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics/meter"
)

// odds are the metrics of what was served for the classes that have bins of log odds: the one that is acted on, those that --by
// names, and the rarest two. They add up over time and over workers. PromQL has no sum over the bins above one, but it has
// differences: so a bin has the counts of all from it on, and the label next says from which bin on they are to be taken off.
type odds struct {
	rows, positives  *prometheus.CounterVec                   // of a class
	bins             [len(binCounters)]*prometheus.CounterVec // of a bin
	labelled, static *prometheus.CounterVec                   // labels, and arrivals as the model as trained predicts them
	trained          *prometheus.GaugeVec
	classes          names
	named            []string     // the classes that are acted on or named
	binned           []int32      // the classes that have bins
	model, shown     *model.Model // the one that serves, and the one whose series there are
	by               map[string]*oddsSeries
	precision        *prometheus.GaugeVec
}

// oddsSeries are the series of a class.
type oddsSeries struct {
	rows, positives prometheus.Counter
	bins            [calibration.OddsBins][len(binCounters)]prometheus.Counter
	latest          latest
}

// binCounters are the names of the counters of a bin, and what they count, in the order of [oddsSeries].
var binCounters = [...][2]string{
	{"gvbll_class_probability_total", "Sum of the probabilities of a bin."},
	{"gvbll_class_rows_from_total", "Labelled predictions whose probability of a class was in this bin or above: " +
		"bin is the least probability, next that of the one above, with 1.41 times the odds."},
	{"gvbll_class_positives_from_total", "Those among them whose label is the class."},
}

// rarest is the number of classes that have bins beside those that are named.
const rarest = 2

func newOdds(r meter.Register) odds {
	o := odds{
		rows: r.Counters("gvbll_class_rows_total", "Labelled predictions of which the probability of a class was "+
			"counted: the class that is acted on, those that --by names, the two rarest.", "class"),
		positives: r.Counters("gvbll_class_positives_total", "Those among them whose label is the class.", "class"),

		by:      make(map[string]*oddsSeries),
		classes: make(names),
		labelled: r.Counters("gvbll_labelled_classes_total", "Scored labels by their class; classes beyond the first 64 "+
			"are counted as (other).", "class"),
		static: r.Counters("gvbll_static_predicted_classes_total",
			"Arrivals by the class that the model as trained predicts, whatever serves; classes as above.", "class"),
		trained: r.Gauges("gvbll_training_share", "Share of a class among the training nodes of the model that serves; classes as above. "+
			"No series where the model file does not say.", "class"),
	}
	o.precision = r.Gauges("gvbll_class_average_precision", "Average precision of a class over its latest 64 to 127 "+
		"labels, of 30 to 63 after a start: exact.", "class")
	for i, c := range binCounters {
		o.bins[i] = r.Counters(c[0], c[1], "class", "bin", "next")
	}
	return o
}

// serve notes the model whose outcomes come from now on.
func (o *odds) serve(m *model.Model) {
	o.model, o.binned = m, m.Foremost(rarest, o.named...)
}

// show shows the series of the model's classes from the first window on, so that a rate sees the first label. A standby has none.
func (o *odds) show() {
	if o.shown == o.model {
		return
	}
	o.shown = o.model
	o.trained.Reset()
	shares := o.model.Shares()
	for c, name := range o.model.Classes {
		name = o.classes.of(name)
		o.labelled.WithLabelValues(name)
		o.static.WithLabelValues(name)
		if shares != nil {
			o.trained.WithLabelValues(name).Add(shares[c])
		}
	}
	for _, c := range o.binned {
		o.of(c)
	}
}

func (o *odds) of(class int32) *oddsSeries {
	name := o.model.Classes[class]
	if o.by[name] == nil {
		s := &oddsSeries{rows: o.rows.WithLabelValues(name), positives: o.positives.WithLabelValues(name)}
		for b := range s.bins {
			for i, vec := range o.bins {
				s.bins[b][i] = vec.WithLabelValues(name, edge(b), edge(b+1))
			}
		}
		o.by[name] = s
	}
	return o.by[name]
}

// edge returns the least probability of a bin, and 1 for the one above the last.
func edge(bin int) string {
	if bin == calibration.OddsBins {
		return "1"
	}
	return strconv.FormatFloat(calibration.OddsEdge(bin), 'g', 3, 64)
}

func (o *odds) observe(out *event.Outcome) {
	if o.model == nil || len(o.model.Classes) == 0 {
		return
	}
	o.show()
	for c, n := range out.AsTrained {
		if n > 0 {
			o.static.WithLabelValues(o.classes.of(o.model.Classes[c])).Add(float64(n))
		}
	}
	if len(out.Labelled) == 0 {
		return
	}
	for i := range out.Labelled {
		o.labelled.WithLabelValues(o.classes.of(o.model.Classes[out.Labelled[i].Class])).Inc()
	}
	for k, c := range out.Watched {
		if !slices.Contains(o.binned, c) {
			continue
		}
		counts, series := serve.Odds(out, k), o.of(c)
		var from calibration.OddsBin
		for b := len(counts) - 1; b >= 0; b-- {
			bin := counts[b]
			from.Rows, from.Labels = from.Rows+bin.Rows, from.Labels+bin.Labels
			for i, n := range [len(binCounters)]float64{bin.Sum, from.Rows, from.Labels} {
				if n > 0 {
					series.bins[b][i].Add(n)
				}
			}
		}
		for i := range out.Labelled {
			series.latest.add(out.Labelled[i].Watched[k], out.Labelled[i].Class == c)
		}
		series.rows.Add(from.Rows)
		series.positives.Add(from.Labels)
	}
}

// showLatest sets the gauges of the classes' latest labels.
func (o *odds) showLatest() {
	for class, s := range o.by {
		if ap, ok := s.latest.older.averagePrecision(); ok {
			o.precision.WithLabelValues(class).Set(ap)
		}
	}
}
