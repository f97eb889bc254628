package event

import "github.com/gvbll/gvbll/pipeline/figure"

var level = figure.Family{
	Name: "level", Label: "of", Level: true,
	Help:   "What the engine holds: nodes and edges of the graph, predictions without a label, labels and edges that wait for their node.",
	Advice: "Waiting labels or edges rise: producers use different ids. Nodes rise: so does memory.",
}

// What the engine holds after a window.
var (
	GraphNodes    = level.Of("nodes", "nodes")
	GraphEdges    = level.Of("edges", "edges")
	Pending       = level.Of("pending-predictions", "predictions without a label")
	WaitingLabels = level.Of("waiting-labels", "labels without a node")
	WaitingEdges  = level.Of("waiting-edges", "edges without a node")
	Keys          = level.Of("keys", "keys of accounts and the like")
)

var (
	dropped = figure.Family{
		Name: "edges_dropped_total", Label: "reason",
		Help:   "Edges that were not added: named before, from a node to itself, or dropped while waiting for their other node.",
		Advice: "Many expired: the ids of neighbours match no node's.",
	}
	labels = figure.Family{
		Name: "labels_total", Label: "result",
		Help: "Labels accepted: joined to a prediction, repeated, of a context node, of a node that the model was " +
			"trained on, corrected, or withdrawn.",
		Advice: "Many repeated: a producer sends labels again. Those of trained and context nodes are not scored.",
	}
	departures = figure.Family{
		Name: "departures_total", Label: "result",
		Help: "Departures of nodes: left, expired after the time of --keep, or unknown to the graph.",
		Advice: "Expired far from what arrived a keep ago: times of events are wrong. Many unknown: keys of " +
			"tombstones match no node.",
	}
)

// What became of the events of a window.
var (
	Arrivals = figure.Sum("arrivals_total",
		"Nodes that arrived to be classified.",
		"", "Rate 0: the producer stopped, or `GvbllLagGrowing`.")
	ContextNodes = figure.Sum("context_nodes_total",
		"Nodes that arrived as context, which are not classified.",
		"", "")
	Updates = figure.Sum("node_updates_total",
		"Nodes that were sent again: features replaced, edges added.",
		"", "High: it slows down arrivals.")
	Cleared = figure.Sum("features_cleared_total",
		"Nodes that were sent again with an empty list of indices: all their features became zero.",
		"nodes whose features were cleared", "Not meant: leave `indices` out instead of `[]`.")
	EdgesAdded = figure.Sum("edges_total",
		"Edges added to the graph.",
		"", "Falls, by arrival: a producer stopped naming neighbours.")
	EdgesRemoved = figure.Sum("edges_removed_total",
		"Edges removed, with a node that left or by events, including waiting ones.",
		"", "")
	RemovalsUnknown = figure.Sum("edge_removals_unknown_total",
		"Edges that events remove and that are not in the graph, ignored.",
		"removals of edges that are not there", "A producer removes edges twice, or under other ids.")
	KindsUnknown = figure.Sum("edge_kinds_unknown_total",
		"Edges of a kind that the model does not know, if it has kinds.",
		"edges of an unknown kind", "A producer misspells a kind, or names none.")
	DuplicateEdges = dropped.Of("duplicate", "")
	SelfLoops      = dropped.Of("self-loop", "")
	EdgesDropped   = dropped.Of("expired", "edges dropped while they waited")

	KeysDropped = figure.Sum("keys_dropped_total",
		"Keys, such as accounts, that came longest ago and made room for new ones. Their next event is like a first one.",
		"keys dropped", "Above zero: more keys are active than \"max\" of the model's keys has room for (docs/transactions.md).")

	LabelsJoined    = labels.Of("joined", "")
	LabelsRepeated  = labels.Of("repeated", "")
	LabelsOfContext = labels.Of("context", "")
	// LabelsOfTraining are of nodes that the model was trained on, and that it predicted all the
	// same: seen by neighbours, but neither scored nor learned again.
	LabelsOfTraining = labels.Of("trained", "labels of training nodes")
	LabelsCorrected  = labels.Of("corrected", "labels corrected")
	LabelsWithdrawn  = labels.Of("withdrawn", "labels withdrawn")

	// LabelsMistimed have a time that is a day before that of their node, or ten years after it.
	LabelsMistimed = figure.Sum("labels_mistimed_total",
		"Labels joined whose time is more than a day before their node's, or ten years after it: not a delay.",
		"labels with a time of another unit", "Above zero: `GvbllLabelTimesOff`.")

	PredictionsExpired = figure.Sum("predictions_expired_total",
		"Predictions dropped to make room before their label came.",
		"predictions dropped before their label", "Labels come too late or never: see `--pending max=`.")
	Departures    = departures.Of("left", "nodes that left")
	NodesExpired  = departures.Of("expired", "nodes that expired")
	KeepWatermark = figure.New(figure.Figure{
		Name: "keep_watermark_timestamp_seconds", Level: true,
		Help:   "Event time by which `--keep` lets nodes and edges leave.",
		Advice: "Ahead of the clock: `GvbllKeepAhead`.",
	})
	DeparturesUnknown = departures.Of("unknown", "departures of unknown nodes")
	EdgesExpired      = figure.Sum("edges_expired_total",
		"Edges removed after the time of --keep that did not leave with a node.",
		"edges that expired", "0 with edges in `--keep`: edges are renewed, leave with their nodes, or time stands still.")
)
