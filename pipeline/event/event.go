// Package event has the plain values that pass between Kafka and the engine: events
// (Node, Label, Command), a window of them (Window), and the engine's result (Outcome).
// It imports neither the model nor Kafka, so that package topics need not know the one,
// nor the engine the other.
package event

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn/spelling"
)

// ID names a node: a non-empty string, or a 64-bit integer when Str is empty.
// "7" and 7 are different nodes. The zero ID is the integer 0.
type ID struct {
	Str string
	Num int64
}

// Compare orders ids: integers by value, then strings.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Str, other.Str), cmp.Compare(id.Num, other.Num))
}

// String returns Str, or Num in decimal.
func (id ID) String() string {
	if id.Str != "" {
		return id.Str
	}
	return strconv.FormatInt(id.Num, 10)
}

// IDsOf returns the ids that a text may stand for: the integer first, where it is written as integers are, and the string.
func IDsOf(text string) []ID {
	if n, ok := spelling.Integer(text); ok {
		return []ID{{Num: n}, {Str: text}}
	}
	return []ID{{Str: text}}
}

// MarshalJSON returns the string or the integer.
func (id ID) MarshalJSON() ([]byte, error) {
	if id.Str != "" {
		return json.Marshal(id.Str)
	}
	return strconv.AppendInt(nil, id.Num, 10), nil
}

// Clone returns a copy that shares no memory with id. A decoder's strings may be parts of
// large blocks, which one string would keep in memory.
func (id ID) Clone() ID { return ID{Str: strings.Clone(id.Str), Num: id.Num} }

// Header is one record header.
type Header struct {
	Key   string
	Value []byte
}

// Origin is the Kafka record that an event was read from. A dead letter carries all
// of it.
type Origin struct {
	Topic     string
	Partition int32
	Offset    int64
	Time      int64 // the record's timestamp, not the event's: milliseconds since the Unix epoch
	Key       []byte
	Value     []byte // nil for a null value, which differs from an empty one
	Headers   []Header
}

// String returns where the record is: topic/partition:offset.
func (o *Origin) String() string { return fmt.Sprintf("%s/%d:%d", o.Topic, o.Partition, o.Offset) }

// Clone returns a copy that shares no memory with o.
func (o *Origin) Clone() *Origin {
	c := *o
	c.Key, c.Value = bytes.Clone(o.Key), bytes.Clone(o.Value)
	c.Headers = slices.Clone(o.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = bytes.Clone(c.Headers[i].Value)
	}
	return &c
}

// Size estimates the memory of a clone of o, in bytes.
func (o *Origin) Size() int {
	const record, header = 128, 48 // sizes of the structures
	n := record + len(o.Key) + len(o.Value) + header*len(o.Headers)
	for _, h := range o.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// Node is an event of the graph: the arrival of a node with its features and the
// neighbours that it names, an update of both, a departure (Departed), or only edges
// (Edges or Featureless). Features are either Dense, or Index and Value, which have the same length;
// Index is strictly increasing. All numbers are finite. Or they are Named, and the engine sets
// the others from these by the schema of its model.
type Node struct {
	Origin     *Origin
	ID         ID
	Dense      []float32
	Index      []uint32
	Value      []float32
	Named      []Attribute // nil where features are numbers
	Odd        uint64      // the attributes that are odd, see [attributes.Encoder.Odd]: set as the node enters
	Also       *Also       // further events of the record, nil in a window
	Graph      *Graph      // what is classified, if that is a graph of its own: then without features and Neighbours
	Neighbours []ID
	Dropped    []ID   // nodes to which the edge is removed, none of Neighbours
	Implicit   []ID   // nodes that enter before this one, as context without features, if they are not there
	Marks      []Mark // by neighbour, what the edges to Neighbours are; nil if all are plain
	Context    bool   // in the graph, but neither predicted nor scored, such as a training node
	Time       int64  // event time, milliseconds since the Unix epoch; 0 when not given
	// Departed means that the node leaves the graph. Features and Neighbours are empty.
	Departed bool
	// ByKey means that ID is from the key of a departure's record. Keys do not
	// distinguish the ids "7" and 7, so both nodes leave.
	ByKey bool
	// Edges, unless nil, are added or removed in this order, and nothing else changes:
	// features, Neighbours and Context are empty, and ID is the source of the first. An
	// edge waits for the ends that are not in the graph.
	Edges []Edge
	// Featureless means that only the edges to Neighbours are added, or removed if Remove
	// is set, and node ID must be in the graph.
	Featureless, Remove bool
	// Predict asks for another prediction of the node, which is in the graph. Without features and
	// edges nothing else changes.
	Predict bool
}

// Graph is a small graph that is classified as a whole.
type Graph struct {
	Nodes [][]float32 // features by node, as many for each, at least one
	Ends  []uint32    // of undirected edges, by two: places in Nodes; loops and repeated edges do not count
}

// Attribute is a value of a node under a name.
type Attribute struct {
	Name    string
	Kind    attributeKind
	Number  float64 // also of a Bool, 0 or 1
	Text    string
	Numbers []float32
}

// String returns the value as a table has it: "" for a gap.
func (a *Attribute) String() string {
	switch a.Kind {
	case Number:
		return strconv.FormatFloat(a.Number, 'f', -1, 64)
	case Bool:
		return strconv.FormatBool(a.Number != 0)
	case Text:
		return a.Text
	case Numbers:
		return strings.Trim(fmt.Sprint(a.Numbers), "[]")
	}
	return ""
}

// Also are the events of a record besides its first node.
type Also struct {
	Nodes  []Node
	Labels []Label
}

// attributeKind says which value an Attribute has.
type attributeKind uint8

// The values that came: null, a number, true or false, a text, a list of numbers; or what is no value.
const (
	Gap attributeKind = iota
	Number
	Bool
	Text
	Numbers
	Nested // an object, or a list of other things than numbers
)

// OnlyEdges reports whether the event adds and removes edges and changes no node.
func (n *Node) OnlyEdges() bool { return n.Edges != nil || n.Featureless }

// OnlyAsks reports whether the event asks for a prediction and changes nothing.
func (n *Node) OnlyAsks() bool {
	return n.Predict && !n.OnlyEdges() && n.Dense == nil && n.Index == nil && n.Named == nil && n.Graph == nil
}

// AllEdges returns the edges of an event of only edges, in their order.
func (n *Node) AllEdges() iter.Seq2[int, Edge] {
	return func(yield func(int, Edge) bool) {
		for i, e := range n.Edges {
			if !yield(i, e) {
				return
			}
		}
		if !n.Featureless {
			return
		}
		for i := range n.Neighbours {
			e := n.To(i)
			e.Remove = n.Remove
			if !yield(i, e) {
				return
			}
		}
	}
}

// To returns the edge to the i-th of Neighbours, of which the node is the source.
func (n *Node) To(i int) Edge {
	e := Edge{Source: n.ID, Target: n.Neighbours[i]}
	if n.Marks != nil {
		e.Mark = n.Marks[i]
	}
	return e
}

// Bounds of an edge's weight, as far apart as sums of some of them in float32 allow.
const (
	LeastWeight   = 1e-9
	LargestWeight = 1e9
)

// Edge is an edge that an event adds or removes. Its direction matters to models that tell
// kinds of edges apart alone.
type Edge struct {
	Source, Target ID
	Remove         bool
	Mark
}

// Mark is what an edge is beside its ends. The zero Mark is of a plain edge.
type Mark struct {
	Kind   string  // "" for an edge without a kind
	Weight float32 // positive and finite, or 0 for 1
	In     bool    // the edge comes from Target to Source
}

// Label is the class of a node, by name or by a number, or that it has none any more.
type Label struct {
	Origin *Origin
	Node   ID
	Class  string // empty when the class was given by a number
	Index  int32  // that number, valid when Class is empty: see In
	Time   int64  // event time, milliseconds since the Unix epoch; 0 when not given
	// Withdrawn means that the label that the node has is withdrawn. Class is empty and Index 0.
	Withdrawn bool
	// Skip means that the record says nothing, by the map.
	Skip bool
}

// Delay returns how long after its node a label came, milliseconds by the times of both, and whether that can be: a clock may
// be a day behind another, but ten years are another unit of time.
func Delay(from, to int64) (delay int64, likely bool) {
	const day = 24 * 3600 * 1000
	delay = to - from
	if to >= from && delay < 0 || to < from && delay >= 0 { // beyond int64
		return 0, false
	}
	return delay, delay >= -day && delay <= 3650*day
}

// Unmet says of edges or labels that many wait for a node.
type Unmet struct {
	What    string // edges or labels
	Waiting int
	Node    ID // that has been waited for the longest
	// Otherwise says that the graph has a node whose id is the same number as a text, or the same text as a number.
	Otherwise bool
}

// Otherwise returns the id as a number in place of a text that is one, or the other way round, and whether there is such an id.
func (id ID) Otherwise() (other ID, ok bool) {
	if id.Str == "" {
		return ID{Str: id.String()}, true
	}
	n, err := strconv.ParseInt(id.Str, 10, 64)
	return ID{Num: n}, err == nil
}

// NoClass as the number of a label is no class of any model.
const NoClass = math.MinInt32

// In returns the index of the label's class among the classes of a model, and whether it is there. A number is
// the class that has it as its name; only where no name is a number, it is the index of a class.
func (l *Label) In(classes []string) (class int32, ok bool) {
	if class, ok = l.FirstIn(classes); ok && l.Class != "" {
		return class, ok
	}
	if l.Class != "" {
		name := spelling.Name(l.Class)
		i := slices.IndexFunc(classes, func(c string) bool { return spelling.Name(c) == name })
		return int32(i), i >= 0
	}
	numbers := false
	for i, name := range classes {
		if v, isNumber := spelling.Number(name); isNumber {
			if numbers = true; v == float64(l.Index) {
				return int32(i), true
			}
		}
	}
	return class, ok && !numbers
}

// FirstIn is In by the rules of 1.0.0: a name as it is, and a number is an index.
func (l *Label) FirstIn(classes []string) (class int32, ok bool) {
	if l.Class == "" {
		return l.Index, l.Index >= 0 && int(l.Index) < len(classes)
	}
	i := slices.Index(classes, l.Class)
	return int32(i), i >= 0
}

// Numbered reports whether numbers are names of these classes, and not indices.
func Numbered(classes []string) bool { return slices.ContainsFunc(classes, spelling.IsNumber) }

// Prediction is the prediction served for one arrival. Probabilities are in the model's
// class order. They are rounded to float32 once, here, and scored exactly as served.
type Prediction struct {
	Node             ID
	Class            string  // name of the most probable class, the lowest index on a tie
	ClassIndex       int32   // its index in the model's class order
	Confidence       float32 // probability of Class
	Probabilities    []float32
	Classes          []string  // their names, shared and not changed; nil where only the model has them, as in msgpack
	Embedding        []float32 // z_v; nil unless the engine is asked for it
	Total            float32   // entropy of the predictive distribution, nats
	Aleatoric        float32   // expected entropy under the posterior, nats
	Epistemic        float32   // Total - Aleatoric: mutual information, nats
	Window           int64     // number of the window the arrival came in, from 0
	PosteriorVersion uint64    // batches that the serving head had learned
	Time             int64     // event time of the arrival
	Model            string    // id of the model file
	Revision         int32     // 0 for the first prediction of the node, then 1, 2, …
	Reason           string    // why it is a revision: [Requested], or "" by a rule
	Asked            float32   // probability with which its label was asked for, 0 if it was not
	Set              *Set      // nil unless sets are configured
	Act              *bool     // whether to act on it, shared and not changed; nil unless that is configured, and of revisions
	Reasons          *Causes   // what moved it; nil unless that is configured, and of revisions
	Origin           *Origin   // the record that asked for it, in its window; nil for a revision by a rule, and where it is decoded
}

// Causes are what moved a prediction most.
type Causes struct {
	Class string  // whose log odds they moved
	List  []Cause // those that moved it most first
}

// Cause is what moved a prediction: something that is left out of the node, alone, on trial.
type Cause struct {
	What  string   // one of the following
	Name  string   // of the attribute, or of the attribute that names the key
	Along []string // attributes that say the same in the training rows, and are left out with it
	Value string   // what the event has of it
	Usual string   // the median of the training rows
	Node  ID       // the neighbour
	// Labelled neighbours of those that are left out, and how many of them are of the class.
	Labelled, OfClass int
	By                float32 // the log odds of the class, less those without it
}

// What a Cause is: an attribute; a key, with the attributes and edges that are made of it; the edge to a neighbour; what is
// known of the labels around.
const (
	OfAttribute = "attribute"
	OfKey       = "key"
	OfNeighbour = "neighbour"
	OfLabels    = "labels"
)

// Words are a cause in words, such as "amount 912 (usually 12): +1.9", in terms of a class.
func (c *Cause) Words(class string) string {
	text := strings.TrimSuffix(c.Name+" "+c.Value, " ")
	switch c.What {
	case OfNeighbour:
		if text = "neighbour " + c.Node.String(); c.OfClass > 0 {
			text += " (" + class + ")"
		} else if c.Labelled > 0 {
			text += " (not " + class + ")"
		}
	case OfLabels:
		text = "labels around"
	}
	for _, name := range c.Along {
		text += " and " + name
	}
	if c.Usual != "" {
		text += " (usually " + c.Usual + ")"
	}
	if c.Labelled > 0 && c.What != OfNeighbour {
		text += fmt.Sprintf(": %d of %d are %s", c.OfClass, c.Labelled, class)
	}
	if c.By > -.1 && c.By < .1 {
		return text + fmt.Sprintf(": %+.2f", c.By)
	}
	return text + fmt.Sprintf(": %+.1f", c.By)
}

// Words are the causes in words, those that moved the prediction most first.
func (r *Causes) Words() string {
	var list []string
	for i := range r.List {
		list = append(list, r.List[i].Words(r.Class))
	}
	return strings.Join(list, "; ")
}

// Requested is the reason of a revision that an event has asked for.
const Requested = "requested"

// Set is a set of classes that holds the label with a given probability.
type Set struct {
	Classes  []string // in the model's order
	Coverage float32  // that probability
	Abstain  string   // why one should not act on the prediction; "" if there is no reason
}

// Reason says why an event was refused. The list is closed, so that a reason can be
// the label of a metric.
type Reason string

// Reasons of refusal.
const (
	Undecodable Reason = "undecodable" // the value is not an event of the wire format
	Empty       Reason = "empty"       // null or empty value
	TooLarge    Reason = "too-large"   // the value is longer than the limit
	BadID       Reason = "bad-id"      // id missing, empty, too long or of another type
	// indices out of order, lengths that differ, or a value that is not of its attribute's kind
	BadFeatures       Reason = "bad-features"
	PartialFeatures   Reason = "partial-features"    // some of the features, where an update replaces all
	NonFinite         Reason = "non-finite"          // NaN or infinity among the features
	HugeNumber        Reason = "huge-number"         // a feature beyond the limit
	TooManyNeighbours Reason = "too-many-neighbours" // neighbour list longer than the limit
	WrongDimension    Reason = "wrong-dimension"     // features do not have the model's dimension
	UnknownClass      Reason = "unknown-class"       // class name or index that the model does not have
	UnknownNode       Reason = "unknown-node"        // a prediction is asked for of a node that is not in the graph
	OrphanLabel       Reason = "orphan-label"        // the node did not arrive while the label was kept
	LateLabel         Reason = "late-label"          // the node's prediction has expired
	ConflictingLabel  Reason = "conflicting-label"   // the node has another label already
	UnknownCommand    Reason = "unknown-command"     // no such command, or its arguments are missing
	ImpossibleCommand Reason = "impossible-command"  // the command cannot be executed now
	UnreadableBatch   Reason = "unreadable-batch"    // a stored batch of records that cannot be unpacked or decoded
)

// Reasons returns every Reason, in the order of declaration.
func Reasons() []Reason {
	return []Reason{
		Undecodable, Empty, TooLarge, BadID, BadFeatures, PartialFeatures, NonFinite, HugeNumber, TooManyNeighbours,
		WrongDimension, UnknownClass, UnknownNode, OrphanLabel, LateLabel, ConflictingLabel, UnknownCommand,
		ImpossibleCommand, UnreadableBatch,
	}
}

// Refusal is an event that was refused, and why.
type Refusal struct {
	Origin *Origin
	Reason Reason
	Detail string // for people; one line
}

// Window is ΔV_t, the events between two cuts. Each list is in canonical order: by
// partition, then offset. Nodes are applied before labels, and commands after both.
type Window struct {
	Number   int64 // from 0, without gaps
	Nodes    []Node
	Labels   []Label
	Commands []Command
	Refused  []Refusal // records in the window's ranges that could not be decoded
}
