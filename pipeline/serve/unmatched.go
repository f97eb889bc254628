package serve

import (
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/setting"
	"github.com/gvbll/gvbll/pipeline/store"
)

// waitingLabelBytes bounds the memory of waiting labels. A label's record, which is kept
// for its dead letter, may be megabytes long, so the total size of records is limited to
// this average per label of the bound.
const waitingLabelBytes = 1 << 10

// Unmatched keeps labels whose node has not arrived, one for each node.
type Unmatched struct {
	stands Standing
	queue  *store.Queue[event.ID, early]
	bound  int // number of labels
	bytes  int // of their records, at most waitingLabelBytes*bound
	buffer []byte
}

// early is a label whose node has not arrived.
type early struct {
	label event.Label // a copy without the class's name
	Class int32
	size  int // of its record in a snapshot
	bytes int // see labelBytes
}

// NewUnmatched returns an empty store of at most bound labels.
func NewUnmatched(bound int, stands Standing) Unmatched {
	return Unmatched{stands: stands, queue: store.NewQueue[event.ID, early](), bound: bound}
}

// Standing says which label of a node stands when it gets different ones. The zero value is
// [LastStands].
type Standing uint8

const (
	// LastStands has a later label correct or withdraw the one before.
	LastStands Standing = iota
	// FirstStands refuses later labels.
	FirstStands
)

// Declare declares which label stands.
func (s *Standing) Declare(l *setting.List) {
	l.Add(setting.Setting{
		Name: "labels", Group: "update", Default: "last", Placeholder: "last", Only: []string{"last", "first"},
		Help: "Which label of a node stands: last, a later one corrects it (docs/wire-format.md), or first, later " +
			"ones are refused.",
		Value: setting.Named(s, LastStands, FirstStands),
	})
}

// String returns "last" or "first".
func (s Standing) String() string {
	if s == FirstStands {
		return "first"
	}
	return "last"
}

// Claim removes and returns the label that waits for a node, if there is one.
func (u *Unmatched) Claim(id event.ID) (early, bool) {
	w, waited := u.queue.Remove(id)
	u.bytes -= w.bytes
	return w, waited
}

// AwaitedLongest returns the node for which a label has waited the longest; there must be one.
func (u *Unmatched) AwaitedLongest() event.ID { return u.queue.At(u.queue.Oldest()).Key }

// Wait keeps a label whose node has not arrived, in place of the one that waits. The oldest
// labels are refused to make room. One that is withdrawn, whose class is none, waits no more.
func (u *Unmatched) Wait(class int32, l *event.Label, out *event.Outcome) {
	first := u.queue.Get(l.Node)
	size, most := labelBytes(l), waitingLabelBytes*u.bound
	switch {
	case first != nil && first.Class == class:
		out.Figures.Count(event.LabelsRepeated, 1)
		return
	case first != nil && u.stands == FirstStands:
		out.Refuse(l.Origin, event.ConflictingLabel, "another label of this node, which has not come, waits already")
		return
	case first == nil && class == none:
		out.Refuse(l.Origin, event.OrphanLabel, "its node is not there, and no label waits for it that could be withdrawn")
		return
	case size > most && class != none:
		out.Refuse(l.Origin, event.OrphanLabel, "its node has not come, and its record is too long to be kept until then")
		return
	case first != nil:
		u.Claim(l.Node)
		if class == none {
			out.Figures.Count(event.LabelsWithdrawn, 1)
			return
		}
		out.Figures.Count(event.LabelsCorrected, 1)
	}
	for u.queue.Len() == u.bound || u.bytes+size > most {
		_, oldest := u.queue.RemoveOldest()
		u.bytes -= oldest.bytes
		out.Refuse(oldest.label.Origin, event.OrphanLabel, "its node did not come while the label was kept")
	}
	u.keep(class, event.Label{Origin: l.Origin.Clone(), Node: l.Node.Clone(), Index: class, Time: l.Time})
}

// keep adds a label that shares no memory with the window.
func (u *Unmatched) keep(class int32, l event.Label) {
	u.buffer = appendLabel(u.buffer[:0], &l)
	w := early{label: l, Class: class, size: len(u.buffer), bytes: labelBytes(&l)}
	u.queue.Put(l.Node, w)
	u.bytes += w.bytes
}

// labelBytes estimates the memory of a waiting label.
func labelBytes(l *event.Label) int { return l.Origin.Size() + len(l.Node.Str) }
