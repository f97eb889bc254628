package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// odds are the metrics of what was served for each class that is watched, in bins of log odds. They
// add up over time and over workers, and PromQL has no sum over the bins above one: so a bin
// has the counts of all from it on, too.
type odds struct {
	bins     [len(oddsCounters)]*prometheus.CounterVec
	labelled byClass[prometheus.Counter]
	static   byClass[prometheus.Counter] // arrivals
	trained  *prometheus.GaugeVec
	names    []string // of the classes of the model that serves
	by       map[string]*oddsSeries
}

// oddsSeries are the series of a class.
type oddsSeries [calibration.OddsBins][len(oddsCounters)]prometheus.Counter

// oddsCounters are the names of the counters of a bin, and what they count, in the order of
// [oddsSeries].
var oddsCounters = [...][2]string{
	{"gvbll_class_rows_total", "Labelled predictions by the probability that was served for a class; bin is its least, " +
		"and 28 bins begin below .5, each with 1.41 times the odds of the one before. Of 8 classes: the rarest of the " +
		"training nodes. Of a corrected label, the first."},
	{"gvbll_class_positives_total", "Those among them whose label is the class."},
	{"gvbll_class_probability_total", "Sum of these probabilities."},
	{"gvbll_class_rows_from_total", "Labelled predictions whose probability of a class was in this bin or above it."},
	{"gvbll_class_positives_from_total", "Those among them whose label is the class."},
}

func newOdds(r register) odds {
	labelled := r.counters("gvbll_labelled_classes_total", "Scored labels by their class; classes beyond the first 64 "+
		"are counted as (other).", "class")
	static := r.counters("gvbll_static_predicted_classes_total", "Arrivals by the class that the model as trained predicts, whatever serves; "+
		"classes as above.", "class")
	o := odds{
		by:       make(map[string]*oddsSeries),
		labelled: newByClass(func(class string) prometheus.Counter { return labelled.WithLabelValues(class) }),
		static:   newByClass(func(class string) prometheus.Counter { return static.WithLabelValues(class) }),
		trained: r.gauges("gvbll_training_share", "Share of a class among the training nodes of the model that serves; classes as above. "+
			"No series where the model file does not say.", "class"),
	}
	for i, c := range oddsCounters {
		o.bins[i] = r.counters(c[0], c[1], "class", "bin")
	}
	return o
}

// serve notes the model whose outcomes come from now on, and shows the series of its classes, so
// that a rate sees the first label.
func (o *odds) serve(m *model.Model) {
	o.names = m.Classes
	for _, c := range m.Watched() {
		o.of(c)
	}
	o.trained.Reset()
	shares, of := m.Shares(), newByClass(func(class string) prometheus.Gauge { return o.trained.WithLabelValues(class) })
	for c, name := range o.names {
		o.labelled.of(name)
		o.static.of(name)
		if shares != nil {
			of.of(name).Add(shares[c])
		}
	}
}

func (o *odds) of(class int32) *oddsSeries {
	name := o.names[class]
	if o.by[name] == nil {
		o.by[name] = &oddsSeries{}
		for b := range o.by[name] {
			bin := strconv.FormatFloat(calibration.OddsEdge(b), 'g', 3, 64)
			for i, vec := range o.bins {
				o.by[name][b][i] = vec.WithLabelValues(name, bin)
			}
		}
	}
	return o.by[name]
}

func (o *odds) observe(out *event.Outcome) {
	if len(o.names) == 0 {
		return
	}
	for c, n := range out.AsTrained {
		if n > 0 {
			o.static.of(o.names[c]).Add(float64(n))
		}
	}
	if len(out.Labelled) == 0 {
		return
	}
	for i := range out.Labelled {
		o.labelled.of(o.names[out.Labelled[i].Class]).Inc()
	}
	for k, c := range out.Watched {
		counts, series := serve.Odds(out, k), o.of(c)
		var from calibration.OddsBin
		for b := len(counts) - 1; b >= 0; b-- {
			bin, s := counts[b], &series[b]
			from.Rows, from.Labels = from.Rows+bin.Rows, from.Labels+bin.Labels
			if from.Rows == 0 {
				continue
			}
			for i, n := range [len(oddsCounters)]float64{bin.Rows, bin.Labels, bin.Sum, from.Rows, from.Labels} {
				if n > 0 {
					s[i].Add(n)
				}
			}
		}
	}
}
