package shards

import (
	"encoding/binary"
	"fmt"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/structure"
)

// softLabelExchange makes nodes without a label count at their neighbours for what was served for
// them (ADR 18), where several shards serve a graph. Each shard predicts its own arrivals, and
// sends their soft labels to all. Every shard sets those of window s after window s+1+lag has
// entered, and before later ones enter. So what a node counts for depends neither on the speed of
// a shard nor on the number of processes.
//
// Until then a node may have left, and its number may have another node, or its label may have
// come. Then nothing is set: it counts for nothing, or for its label, as it would if its part
// had been set at once.
//
// It is nil where heads read no labels around a node, or count nothing for those that have none:
// then its methods do nothing.
type softLabelExchange struct {
	nodes  *structure.Nodes
	by     *heads.Pool
	shards int
	lag    int64
	// waiting are the windows whose parts were not set, the oldest first, without gaps.
	waiting []arrivalsOf
}

// newSoftLabels returns the exchange of a shard with these heads.
func newSoftLabels(n *structure.Nodes, by *heads.Pool, shards int, lag int64) *softLabelExchange {
	if by.Around.Reader.PartBytes() == 0 {
		return nil
	}
	return &softLabelExchange{nodes: n, by: by, shards: shards, lag: lag}
}

// arrivalsOf are the arrivals of a window that were predicted.
type arrivalsOf struct {
	window int64
	own    [][]arrival // by shard, in canonical order
}

// arrival is the arrival of a node, whose number may have another node later.
type arrival struct {
	number int32
	born   int64 // see [structure.Nodes.Born]
}

// arrived notes the arrivals of a window that has entered; owner has the shard that predicts
// each.
func (h *softLabelExchange) arrived(window int64, owner []uint8) {
	if h == nil {
		return
	}
	w := arrivalsOf{window: window, own: make([][]arrival, h.shards)}
	for i, v := range h.nodes.ToPredict() {
		w.own[owner[i]] = append(w.own[owner[i]], arrival{v, h.nodes.Born(v)})
	}
	h.waiting = append(h.waiting, w)
}

// due returns the window whose parts are set when the given one has entered, below 0 for none.
func (h *softLabelExchange) due(window int64) int64 { return window - 1 - h.lag }

// set is called when a window has entered, with what appendOwn of every shard gave for the window
// that is due then, and sets its parts. On an error nothing is set.
func (h *softLabelExchange) set(window int64, lists [][]byte) error {
	if h == nil || h.due(window) < 0 {
		return nil
	}
	w, around := h.waiting[0], h.by.Around
	if len(lists) != h.shards {
		return fmt.Errorf("what was served in window %d is of %d shards, there are %d", w.window, len(lists), h.shards)
	}
	width := around.Reader.PartBytes()
	parts := make([][]byte, h.shards)
	for q, list := range lists {
		var err error
		if parts[q], err = readParts(list, w.window, len(w.own[q]), width); err == nil {
			err = around.CheckParts(parts[q])
		}
		if err != nil {
			return fmt.Errorf("what shard %d served in window %d: %w", q, w.window, err)
		}
	}
	h.waiting = h.waiting[1:]
	for q, own := range w.own {
		for i, a := range own {
			if v := a.number; !h.nodes.HasLeft(v) && h.nodes.Class(v) == none && h.nodes.Born(a.number) == a.born {
				around.SetServed(a.number, parts[q][i*width:(i+1)*width])
			}
		}
	}
	return nil
}

// appendOwn appends the soft labels of the n arrivals of a window, the last one, that this shard
// served.
func (h *softLabelExchange) appendOwn(b []byte, window int64, n int) []byte {
	if h == nil {
		return b
	}
	return appendParts(b, window, n, h.by.Served[:n*h.by.Around.Reader.PartBytes()])
}

// partsFormat is the version of the bytes of a window's parts.
const partsFormat = 1

// partsHeader is the number of bytes before the parts: format, window, number of arrivals.
const partsHeader = 1 + 8 + 4

// appendParts appends the parts of n arrivals of a window for all shards: the format, the
// window, n, and the parts in canonical order, all little-endian.
func appendParts(b []byte, window int64, n int, parts []byte) []byte {
	b = append(b, partsFormat)
	b = binary.LittleEndian.AppendUint64(b, uint64(window))
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	return append(b, parts...)
}

// readParts returns the parts, of width bytes each, of n arrivals of a window. They share the
// memory of b.
func readParts(b []byte, window int64, n, width int) ([]byte, error) {
	if len(b) < partsHeader || b[0] != partsFormat {
		return nil, fmt.Errorf("%d bytes that are no parts of format %d", len(b), partsFormat)
	}
	if of := int64(binary.LittleEndian.Uint64(b[1:])); of != window {
		return nil, fmt.Errorf("they are of window %d", of)
	}
	if count := binary.LittleEndian.Uint32(b[9:]); int64(count) != int64(n) || int64(len(b)-partsHeader) != int64(n)*int64(width) {
		return nil, fmt.Errorf("%d parts in %d bytes, there were %d arrivals of %d bytes each", count, len(b), n, width)
	}
	return b[partsHeader:], nil
}

// state declares the arrivals whose soft labels are not set before the next window.
func (h *softLabelExchange) state(s *snapshot.Schema, next int64) {
	if h == nil {
		return
	}
	var list []int64
	for _, w := range h.waiting {
		for q, own := range w.own {
			for _, a := range own {
				list = append(list, w.window, int64(q), int64(a.number), a.born)
			}
		}
	}
	const width = 4
	if n := s.Len("heard.arrivals", len(list)/width, h.nodes.Numbers()*int(h.lag+1)); n > 0 {
		list = snapshot.Array(s, "heard.arrivals", list, n, width)
	}
	s.Check(func() error {
		first := max(h.due(next), 0)
		for window := first; window < next; window++ {
			h.waiting = append(h.waiting, arrivalsOf{window: window, own: make([][]arrival, h.shards)})
		}
		for ; len(list) > 0; list = list[width:] {
			window, q, v := list[0], list[1], list[2]
			if window < first || window >= next || q < 0 || q >= int64(h.shards) || v < 0 || v >= int64(h.nodes.Numbers()) {
				return snapshot.Damaged("node %d was served in window %d by shard %d, and neighbours have not heard of it", v, window, q)
			}
			own := &h.waiting[window-first].own[q]
			*own = append(*own, arrival{int32(v), list[3]})
		}
		return nil
	})
}
