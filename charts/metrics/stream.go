package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
)

// stream are the metrics of the events in windows, and of what the engine holds.
type stream struct {
	arrivals, context, updates, cleared     prometheus.Counter
	edges, edgesRemoved, removalsUnknown    prometheus.Counter
	duplicates, loops, edgesExpired         prometheus.Counter
	joined, repeated, ofContext, ofTraining prometheus.Counter
	predictionsExpired                      prometheus.Counter
	departures, departuresOfUnknown         prometheus.Counter
	refused                                 map[event.Reason]prometheus.Counter
	unknownClass                            byClass[prometheus.Counter]
	level                                   *prometheus.GaugeVec
}

func newStream(r register) stream {
	dropped := r.counters("gvbll_edges_dropped_total", "Edges that were not added: named before, from a node to itself, or dropped while waiting for their other node.", "reason")
	labels := r.counters("gvbll_labels_total", "Labels accepted: joined to a prediction, repeated, of a context node, or of a node that the model was trained on.", "result")
	departures := r.counters("gvbll_departures_total", "Departures of nodes: left, or unknown when the node was not in the graph.", "result")
	s := stream{
		arrivals:            r.counter("gvbll_arrivals_total", "Nodes that arrived to be classified."),
		context:             r.counter("gvbll_context_nodes_total", "Nodes that arrived as context, which are not classified."),
		updates:             r.counter("gvbll_node_updates_total", "Nodes that were sent again: features replaced, edges added."),
		cleared:             r.counter("gvbll_features_cleared_total", "Nodes that were sent again with an empty list of indices: all their features became zero."),
		edges:               r.counter("gvbll_edges_total", "Edges added to the graph."),
		edgesRemoved:        r.counter("gvbll_edges_removed_total", "Edges removed, with a node that left or by events, including waiting ones."),
		removalsUnknown:     r.counter("gvbll_edge_removals_unknown_total", "Edges that events remove and that are not in the graph, ignored."),
		duplicates:          dropped.WithLabelValues("duplicate"),
		loops:               dropped.WithLabelValues("self-loop"),
		edgesExpired:        dropped.WithLabelValues("expired"),
		joined:              labels.WithLabelValues("joined"),
		repeated:            labels.WithLabelValues("repeated"),
		ofContext:           labels.WithLabelValues("context"),
		ofTraining:          labels.WithLabelValues("trained"),
		predictionsExpired:  r.counter("gvbll_predictions_expired_total", "Predictions dropped to make room before their label came."),
		departures:          departures.WithLabelValues("left"),
		departuresOfUnknown: departures.WithLabelValues("unknown"),
		level:               r.gauges("gvbll_level", "What the engine holds: nodes and edges of the graph, predictions without a label, labels and edges that wait for their node.", "of"),
		refused:             make(map[event.Reason]prometheus.Counter),
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
	c := &out.Counts
	s.arrivals.Add(float64(c.Arrivals))
	s.context.Add(float64(c.Context))
	s.updates.Add(float64(c.Updates))
	s.cleared.Add(float64(c.Cleared))
	s.edges.Add(float64(c.Edges))
	s.edgesRemoved.Add(float64(c.EdgesRemoved))
	s.removalsUnknown.Add(float64(c.RemovalsUnknown))
	s.duplicates.Add(float64(c.DuplicateEdges))
	s.loops.Add(float64(c.SelfLoops))
	s.edgesExpired.Add(float64(c.EdgesDropped))
	s.joined.Add(float64(len(out.Labelled)))
	s.repeated.Add(float64(c.LabelsRepeated))
	s.ofContext.Add(float64(c.LabelsOfContext))
	s.ofTraining.Add(float64(c.LabelsOfTraining))
	s.predictionsExpired.Add(float64(c.Expired))
	s.departures.Add(float64(c.Departures))
	s.departuresOfUnknown.Add(float64(c.DeparturesUnknown))
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
