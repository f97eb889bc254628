package pipeline

import (
	"encoding/binary"
	"fmt"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/neighbourhood"
)

// hearsay makes nodes without a label count at their neighbours for what was served for them,
// where several slices serve a graph. Each slice predicts its own arrivals, and sends what they
// count for to all; every slice sets the parts of all arrivals of window s after window
// s+1+lag has entered, and before it is served. So it depends neither on the speed of a slice
// nor on the number of processes.
//
// Until then a node may have left, and its number may have another node, or its label may have
// come. Then nothing is set: it counts for nothing, or for its label, as it would if its part
// had been set at once.
type hearsay struct {
	nodes  *nodes
	around *neighbourhood.Features
	slices int
	// waiting are the windows whose parts were not set, the oldest first, without gaps.
	waiting []arrivalsOf
}

// arrivalsOf are the arrivals of a window that were predicted.
type arrivalsOf struct {
	window int64
	own    [][]arrival // by slice, in canonical order
}

// arrival is the arrival of a node, whose number may have another node later.
type arrival struct {
	number int32
	born   int64 // see nodes.born
}

// born returns how many nodes arrived before node v.
func (n *nodes) born(v int32) int64 {
	if n.departed.order == nil {
		return int64(v)
	}
	return n.departed.order[v]
}

// arrived keeps the arrivals of a window that has entered. owner returns the slice that
// predicts a node.
func (h *hearsay) arrived(window int64, owner func(v int32) int) {
	w := arrivalsOf{window: window, own: make([][]arrival, h.slices)}
	if h.around.PartBytes() > 0 {
		for _, v := range h.nodes.arrivals.toPredict {
			q := owner(v)
			w.own[q] = append(w.own[q], arrival{v, h.nodes.born(v)})
		}
	}
	h.waiting = append(h.waiting, w)
}

// set sets the parts of a window, the oldest that waits: lists has what each slice sent. On an
// error nothing is set.
func (h *hearsay) set(window int64, lists [][]byte) error {
	w := h.waiting[0]
	if w.window != window || len(lists) != h.slices {
		panic(fmt.Sprintf("pipeline: what %d slices served in window %d is set, %d slices in window %d are next", len(lists), window, h.slices, w.window))
	}
	width := h.around.PartBytes()
	parts := make([][]byte, h.slices)
	for q, list := range lists {
		var err error
		if parts[q], err = readParts(list, window, len(w.own[q]), width); err == nil {
			err = h.around.CheckParts(parts[q])
		}
		if err != nil {
			return fmt.Errorf("what slice %d served in window %d: %w", q, window, err)
		}
	}
	h.waiting = h.waiting[1:]
	for q, own := range w.own {
		for i, a := range own {
			if s := h.nodes.states.at(a.number); !s.gone && s.label == none && h.nodes.born(a.number) == a.born {
				h.around.SetServed(a.number, parts[q][i*width:(i+1)*width])
			}
		}
	}
	return nil
}

// partsFormat is the version of the bytes of a window's parts.
const partsFormat = 1

// partsHeader is the number of bytes before the parts: format, window, number of arrivals.
const partsHeader = 1 + 8 + 4

// appendParts appends the parts of n arrivals of a window for the other slices: the format, the
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

// state declares the arrivals whose parts were not set. When restoring, next is the number of
// the next window, and lag how many more windows than the last one wait.
func (h *hearsay) state(s *snapshot.Schema, next, lag int64) {
	var list []int64
	for _, w := range h.waiting {
		for q, own := range w.own {
			for _, a := range own {
				list = append(list, w.window, int64(q), int64(a.number), a.born)
			}
		}
	}
	const width = 4
	if n := s.Len("hearsay.arrivals", len(list)/width, h.nodes.states.len()*int(lag+1)); n > 0 {
		list = snapshot.Array(s, "hearsay.arrivals", list, n, width)
	}
	s.Check(func() error {
		first := max(next-1-lag, 0)
		for window := first; window < next; window++ {
			h.waiting = append(h.waiting, arrivalsOf{window: window, own: make([][]arrival, h.slices)})
		}
		for ; len(list) > 0; list = list[width:] {
			window, q, v := list[0], list[1], list[2]
			if window < first || window >= next || q < 0 || q >= int64(h.slices) || v < 0 || v >= int64(h.nodes.states.len()) {
				return snapshot.Damaged("node %d of slice %d was served in window %d and is not heard of", v, q, window)
			}
			own := &h.waiting[window-first].own[q]
			*own = append(*own, arrival{int32(v), list[3]})
		}
		return nil
	})
}
