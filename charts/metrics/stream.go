package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
)

// stream are the metrics of the events in windows, and of what the engine holds.
type stream struct {
	counts       []counted
	refused      map[event.Reason]prometheus.Counter
	unknownClass byClass[prometheus.Counter]
	level        *prometheus.GaugeVec
}

// counted is a counter of events, and how many a window had of them.
type counted struct {
	prometheus.Counter
	in func(*event.Outcome) int
}

func newStream(r register) stream {
	dropped := r.counters("gvbll_edges_dropped_total", "Edges that were not added: named before, from a node to itself, or dropped while waiting for their other node.", "reason")
	labels := r.counters("gvbll_labels_total", "Labels accepted: joined to a prediction, repeated, of a context node, of a node that the model was trained on, corrected (the node had another one), or withdrawn.", "result")
	departures := r.counters("gvbll_departures_total", "Departures of nodes: left, expired after the time of --keep, or unknown when the node was not in the graph.", "result")
	s := stream{
		counts: []counted{
			{r.counter("gvbll_arrivals_total", "Nodes that arrived to be classified."), func(o *event.Outcome) int { return o.Counts.Arrivals }},
			{r.counter("gvbll_context_nodes_total", "Nodes that arrived as context, which are not classified."), func(o *event.Outcome) int { return o.Counts.Context }},
			{r.counter("gvbll_node_updates_total", "Nodes that were sent again: features replaced, edges added."), func(o *event.Outcome) int { return o.Counts.Updates }},
			{r.counter("gvbll_features_cleared_total", "Nodes that were sent again with an empty list of indices: all their features became zero."), func(o *event.Outcome) int { return o.Counts.Cleared }},
			{r.counter("gvbll_edges_total", "Edges added to the graph."), func(o *event.Outcome) int { return o.Counts.Edges }},
			{r.counter("gvbll_edges_removed_total", "Edges removed, with a node that left or by events, including waiting ones."), func(o *event.Outcome) int { return o.Counts.EdgesRemoved }},
			{r.counter("gvbll_edges_expired_total", "Edges removed after the time of --keep that did not leave with a node."), func(o *event.Outcome) int { return o.Counts.EdgesExpired }},
			{r.counter("gvbll_edge_removals_unknown_total", "Edges that events remove and that are not in the graph, ignored."), func(o *event.Outcome) int { return o.Counts.RemovalsUnknown }},
			{r.counter("gvbll_edge_kinds_unknown_total", "Edges of a kind that the model does not know, if it has kinds. They count as edges without a kind if the model has those, or else for the labels around a node alone."), func(o *event.Outcome) int { return o.Counts.KindsUnknown }},
			{dropped.WithLabelValues("duplicate"), func(o *event.Outcome) int { return o.Counts.DuplicateEdges }},
			{dropped.WithLabelValues("self-loop"), func(o *event.Outcome) int { return o.Counts.SelfLoops }},
			{dropped.WithLabelValues("expired"), func(o *event.Outcome) int { return o.Counts.EdgesDropped }},
			{labels.WithLabelValues("joined"), func(o *event.Outcome) int { return len(o.Labelled) }},
			{labels.WithLabelValues("repeated"), func(o *event.Outcome) int { return o.Counts.LabelsRepeated }},
			{labels.WithLabelValues("context"), func(o *event.Outcome) int { return o.Counts.LabelsOfContext }},
			{labels.WithLabelValues("trained"), func(o *event.Outcome) int { return o.Counts.LabelsOfTraining }},
			{labels.WithLabelValues("corrected"), func(o *event.Outcome) int { return o.Counts.LabelsCorrected }},
			{labels.WithLabelValues("withdrawn"), func(o *event.Outcome) int { return o.Counts.LabelsWithdrawn }},
			{r.counter("gvbll_predictions_expired_total", "Predictions dropped to make room before their label came."), func(o *event.Outcome) int { return o.Counts.Expired }},
			{departures.WithLabelValues("left"), func(o *event.Outcome) int { return o.Counts.Departures - o.Counts.NodesExpired }},
			{departures.WithLabelValues("expired"), func(o *event.Outcome) int { return o.Counts.NodesExpired }},
			{departures.WithLabelValues("unknown"), func(o *event.Outcome) int { return o.Counts.DeparturesUnknown }},
		},
		level:   r.gauges("gvbll_level", "What the engine holds: nodes and edges of the graph, predictions without a label, labels and edges that wait for their node.", "of"),
		refused: make(map[event.Reason]prometheus.Counter),
	}
	// Every reason has a series from the start, so that a rate sees its first event.
	refused := r.counters("gvbll_refused_events_total", "Events refused and sent to the dead-letter topic.", "reason")
	for _, reason := range event.Reasons() {
		s.refused[reason] = refused.WithLabelValues(string(reason))
	}
	unknown := r.counters("gvbll_unknown_class_labels_total", "Labels of classes that the model lacks, by name.", "class")
	s.unknownClass = newByClass(func(name string) prometheus.Counter { return unknown.WithLabelValues(name) })
	return s
}

func (s *stream) observe(out *event.Outcome) {
	for _, c := range s.counts {
		c.Add(float64(c.in(out)))
	}
	for i := range out.Refused {
		s.refused[out.Refused[i].Reason].Inc()
	}
	for _, name := range out.UnknownClasses {
		s.unknownClass.of(seriesName(name)).Inc()
	}
}

// maxSeriesName bounds the name of a class in a series, in bytes.
const maxSeriesName = 100

// seriesName returns a name from outside as a series can have it: of bounded length, valid
// UTF-8, and with memory of its own.
func seriesName(name string) string {
	return strings.ToValidUTF8(strings.Clone(name[:min(len(name), maxSeriesName)]), "�")
}

func (s *stream) show(out *event.Outcome) {
	l := &out.Levels
	set := func(of string, n int) { s.level.WithLabelValues(of).Set(float64(n)) }
	set("nodes", l.Nodes)
	set("edges", l.Edges)
	set("pending-predictions", l.Pending)
	set("waiting-labels", l.WaitingLabels)
	set("waiting-edges", l.WaitingEdges)
}
