package pipeline

import "github.com/gvbll/gvbll/pipeline/event"

// waitingLabelBytes bounds what the waiting labels hold in bytes, too, for a
// label's record, which is kept for its dead letter, may be megabytes long: it is
// what a record may take on average.
const waitingLabelBytes = 1 << 10

// unmatched are labels whose node has not come.
type unmatched struct {
	queue  *queue[event.ID, waiting]
	bound  int // of labels
	bytes  int // of their records, at most waitingLabelBytes*bound
	buffer []byte
}

// waiting is a label whose node has not come.
type waiting struct {
	label event.Label // without the class's name, in memory of its own
	class int32
	size  int // of its record in a snapshot
	bytes int // see labelBytes
}

func newUnmatched(bound int) unmatched {
	return unmatched{queue: newQueue[event.ID, waiting](), bound: bound}
}

// claim removes and returns the label of a node that comes, if one waits.
func (u *unmatched) claim(id event.ID) (waiting, bool) {
	w, waited := u.queue.remove(id)
	u.bytes -= w.bytes
	return w, waited
}

// wait keeps the label of a node that has not come. The oldest are refused to make
// room.
func (u *unmatched) wait(class int32, l *event.Label, out *event.Outcome) {
	if first := u.queue.get(l.Node); first != nil {
		if first.class == class {
			out.Counts.LabelsRepeated++
		} else {
			refuse(out, l.Origin, event.ConflictingLabel, "another label of this node, which has not come, waits already")
		}
		return
	}
	size, most := labelBytes(l), waitingLabelBytes*u.bound
	if size > most {
		refuse(out, l.Origin, event.OrphanLabel, "its node has not come, and its record is too long to be kept until then")
		return
	}
	for u.queue.len() == u.bound || u.bytes+size > most {
		_, oldest := u.queue.removeOldest()
		u.bytes -= oldest.bytes
		refuse(out, oldest.label.Origin, event.OrphanLabel, "its node did not come while the label was kept")
	}
	u.keep(class, event.Label{Origin: l.Origin.Clone(), Node: l.Node.Clone(), Index: class, Time: l.Time})
}

// keep keeps a label, in memory of its own, until its node comes.
func (u *unmatched) keep(class int32, l event.Label) {
	u.buffer = appendLabel(u.buffer[:0], &l)
	w := waiting{label: l, class: class, size: len(u.buffer), bytes: labelBytes(&l)}
	u.queue.put(l.Node, w)
	u.bytes += w.bytes
}

// labelBytes is about how many bytes a label takes while it waits.
func labelBytes(l *event.Label) int { return l.Origin.Size() + len(l.Node.Str) }
