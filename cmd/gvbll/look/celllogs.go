package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline/event"
)

// A model of a graph of several cells is trained on the windows of all, as one stream: in the order in which they were stepped, of two at
// the same millisecond that of the cell with the lower number first. A node's id has the number of its cell before it there, so
// that those of two cells are never one node.

// OpenLogs is OpenLog for all cells of a graph, or for one.
func OpenLogs(ctx context.Context, graphs []Graph, f Span) (*Log, error) {
	if len(graphs) == 1 {
		return OpenLog(ctx, graphs[0], f)
	}
	if f.Since.text != "" && f.Since.time.IsZero() {
		return nil, flags.Usagef("--since %s: each of %d cells has such a window: give a time, or --cell", f.Since, len(graphs))
	}
	var all *Log
	var order []turn
	for _, g := range graphs {
		windows, err := LedgerWindows(ctx, g.Client, g.Names)
		if err != nil {
			return nil, err
		}
		if windows == 0 {
			continue
		}
		l, err := OpenLog(ctx, g, Span{Until: f.Until})
		switch {
		case errors.Is(err, errNoWindows):
			continue
		case err != nil:
			return nil, fmt.Errorf("%s%w", g.Label(), err)
		case all == nil:
			all = &Log{Graph: g, Serves: l.Serves, known: l.known, classes: l.classes, features: l.features, written: l.written}
		case l.Serves != all.Serves || l.written != all.written || !slices.Equal(l.classes, all.classes):
			return nil, fmt.Errorf("%sits model, its settings or its classes differ from those of cell %d: give --cell with one of them",
				g.Label(), all.Names.Cell)
		}
		for class := range l.known {
			all.known[class] = true
		}
		all.refused += l.refused
		for _, at := range l.stepped {
			order = append(order, turn{at, len(all.cells)})
		}
		all.cells = append(all.cells, l)
	}
	if all == nil {
		return nil, fmt.Errorf("the ledgers of all %d cells: %w", len(graphs), errNoWindows)
	}
	slices.SortStableFunc(order, func(a, b turn) int { return cmp.Or(cmp.Compare(a.at, b.at), a.log-b.log) })
	all.order, all.Windows = order, int64(len(order))
	if f.Since.text != "" {
		i := slices.IndexFunc(order, func(t turn) bool { return t.at >= f.Since.time.UnixMilli() })
		if i < 0 {
			return nil, fmt.Errorf("--since %s: the %d windows of all cells that are read end before it", f.Since, len(order))
		}
		all.since = int64(i)
	}
	return all, nil
}

// turn is a window in the order of all cells.
type turn struct {
	at  int64 // when it was stepped, Unix milliseconds
	log int   // the index of the cell's log
}

// playCells plays the windows of all cells.
func (l *Log) playCells(ctx context.Context, visit func(*event.Window) error) error {
	type next func() (*event.Window, error, bool)
	cells := make([]next, len(l.cells))
	for i, cell := range l.cells {
		of, stop := iter.Pull2(func(yield func(*event.Window, error) bool) {
			ended := errors.New("nobody wants more")
			err := cell.play(ctx, func(w *event.Window) error {
				if !yield(w, nil) {
					return ended
				}
				return nil
			})
			if err != nil && !errors.Is(err, ended) {
				yield(nil, err)
			}
		})
		defer stop()
		cells[i] = of
	}
	for number, t := range l.order {
		w, err, more := cells[t.log]()
		switch {
		case err != nil:
			return fmt.Errorf("%s%w", l.cells[t.log].Label(), err)
		case !more:
			return fmt.Errorf("%sthe ledger ends earlier than before", l.cells[t.log].Label())
		}
		w.Number = int64(number)
		inCell(w, l.cells[t.log].Names.Cell)
		if err := visit(w); err != nil {
			return err
		}
	}
	return nil
}

// inCell puts the number of the cell before all ids of a window.
func inCell(w *event.Window, cell int32) {
	rename := func(id *event.ID) { *id = event.ID{Str: fmt.Sprintf("%d/%s", cell, spelled(*id))} }
	for i := range w.Nodes {
		n := &w.Nodes[i]
		rename(&n.ID)
		for _, ids := range [][]event.ID{n.Neighbours, n.Dropped, n.Implicit} {
			for k := range ids {
				rename(&ids[k])
			}
		}
		for k := range n.Edges {
			rename(&n.Edges[k].Source)
			rename(&n.Edges[k].Target)
		}
	}
	for i := range w.Labels {
		rename(&w.Labels[i].Node)
	}
}

// inGraph returns the id that a node has in its own cell.
func inGraph(id event.ID) event.ID {
	_, text, _ := strings.Cut(id.Str, "/")
	if own, err := strconv.Unquote(text); err == nil && text[0] == '"' {
		return event.ID{Str: own}
	}
	return event.IDsOf(text)[0]
}

// spelled returns an id as text, in quotes if it is a string that would be read as something else.
func spelled(id event.ID) string {
	if id.Str != "" && (id.Str[0] == '"' || len(event.IDsOf(id.Str)) > 1) {
		return strconv.Quote(id.Str)
	}
	return id.String()
}
