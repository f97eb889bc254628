package structure

import (
	"math"
	"strings"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/store"
)

// kept has by node number what the model's schema made of the latest features by name, so
// that an event may update some of them: "" for a node that has none, or has left. Methods do
// nothing on nil.
type kept struct {
	rows  store.Chunked[string]
	bytes int
	room  []byte
}

func (k *kept) at(v int32) string {
	if k == nil {
		return ""
	}
	return *k.rows.At(v)
}

// set sets the row of node v, which may be one past the last.
func (k *kept) set(v int32, row string) {
	if k == nil {
		return
	}
	if int(v) == k.rows.Len() {
		k.rows.Add("")
	}
	old := k.rows.At(v)
	k.bytes += len(row) - len(*old)
	*old = row
}

// keep keeps the features of an event that was just encoded, of node v.
func (n *inputs) keep(v int32, node *event.Node) {
	if n.numbers.kept == nil {
		return
	}
	n.numbers.change(v)
	n.numbers.kept.room = n.numbers.kept.room[:0]
	if node.Named != nil {
		n.numbers.kept.room = n.named.Keep(n.numbers.kept.room)
	}
	n.numbers.kept.set(v, string(n.numbers.kept.room))
}

// keptState declares the rows of count nodes.
func (n *inputs) keptState(s *snapshot.Schema, count int) {
	if n.numbers.kept == nil {
		return
	}
	length, row := n.numbers.walk(), n.numbers.walk()
	lengths := snapshot.Column(s, "nodes.kept", func() int32 { return int32(len(length().kept)) }, count)
	var room []byte
	text := string(snapshot.Lists(s, "nodes.features", func() []byte {
		room = append(room[:0], row().kept...)
		return room
	}, s.Len("nodes.features", n.numbers.kept.bytes, math.MaxInt)))
	s.Check(func() error {
		for v, length := range lengths {
			if length < 0 || int(length) > len(text) || !n.named.Resume(0, []byte(text[:length])) {
				return snapshot.Damaged("the features of node %d have %d bytes, of %d", v, length, len(text))
			}
			n.numbers.kept.set(int32(v), strings.Clone(text[:length]))
			text = text[length:]
		}
		if text != "" {
			return snapshot.Damaged("%d bytes more than features", len(text))
		}
		return nil
	})
}
