package replay

import (
	"context"
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// exclusions are forgotten nodes that a replay leaves out from its beginning, so that it
// need not restart at each command to forget. The zero value leaves out none.
type exclusions struct {
	forgotten map[event.ID]*exclusion
	// end is the window after the last of these, 0 for none.
	end int64
}

// exclusion is of one node.
type exclusion struct {
	before int64 // the last window in which it was forgotten: its events in earlier ones are left out
	met    bool  // there were such events
}

// covers reports whether the nodes that a window's commands forget are left out already.
func (x *exclusions) covers(window int64) bool { return window < x.end }

// rewrites reports whether nodes are left out that were forgotten only after the window:
// then the state after it differs from that in the ledger. From the last window that
// forgot nodes on, the two are equal again.
func (x *exclusions) rewrites(window int64) bool { return window+1 < x.end }

// add adds the nodes that commands of a window forget.
func (x *exclusions) add(window int64, commands []event.Command) {
	if x.forgotten == nil {
		x.forgotten = make(map[event.ID]*exclusion)
	}
	for i := range commands {
		if commands[i].Name != event.Forget {
			continue
		}
		for _, id := range commands[i].Nodes {
			e := x.forgotten[id]
			if e == nil {
				e = &exclusion{}
				x.forgotten[id.Clone()] = e
			}
			e.before = max(e.before, window)
		}
	}
	x.end = max(x.end, window+1)
}

// remove removes the excluded nodes' events, labels and edges from a window.
func (x *exclusions) remove(w *event.Window) {
	if w.Number >= x.end {
		return
	}
	excluded := func(id event.ID) bool {
		e, ok := x.forgotten[id]
		if !ok || w.Number >= e.before {
			return false
		}
		e.met = true
		return true
	}
	w.Nodes = slices.DeleteFunc(w.Nodes, func(n event.Node) bool {
		if n.Departed && n.ByKey && n.ID.Str == "" {
			// A departure by key does not distinguish an integer id from a string id with
			// the same digits. Both nodes depart, so the record stays unless both are
			// left out.
			return excluded(n.ID) && excluded(event.ID{Str: n.ID.String()})
		}
		return excluded(n.ID) && n.Edges == nil
	})
	for i := range w.Nodes {
		n := &w.Nodes[i]
		if n.Marks != nil {
			i := -1
			n.Marks = slices.DeleteFunc(n.Marks, func(event.Mark) bool { i++; return excluded(n.Neighbours[i]) })
		}
		n.Neighbours = slices.DeleteFunc(n.Neighbours, excluded)
		n.Edges = slices.DeleteFunc(n.Edges, func(e event.Edge) bool { return excluded(e.Source) || excluded(e.Target) })
	}
	w.Labels = slices.DeleteFunc(w.Labels, func(l event.Label) bool { return excluded(l.Node) })
}

// unknown returns those of the commands' nodes of which no event was left out, as text and
// once for each text: an integer and the string of its digits are named together.
func (x *exclusions) unknown(commands []event.Command) (names []string) {
	met := make(map[string]bool)
	for i := range commands {
		for _, id := range commands[i].Nodes {
			name := id.String()
			if _, seen := met[name]; !seen {
				names = append(names, name)
			}
			met[name] = met[name] || x.forgotten[id].met
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return met[name] })
}

// readExclusions returns the nodes that were forgotten in the ledger's windows before
// the given one. It reads only the ledger and the commands topic.
func readExclusions(ctx context.Context, c *kafka.Client, cfg *Config, before int64) (x exclusions, err error) {
	if before == 0 {
		return x, nil
	}
	names := cfg.Terms.Names
	records, err := ledger.Open(ctx, c, names.LedgerAt())
	if err != nil {
		return x, err
	}
	bounds, err := c.Offsets(ctx, names.Commands)
	if err != nil || bounds[names.At(names.Commands)].End == 0 {
		return x, err
	}
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	// No gap is accepted: a command that is gone could be one to forget.
	in, err := intake.OpenCommands(fetching, c, cfg.inputs(false))
	if err != nil {
		return x, err
	}
	moves, err := cfg.moves(ctx, c, 0)
	if err != nil {
		return x, err
	}
	for {
		r, err := records.Next(ctx)
		if err != nil || r == nil || r.Window >= before {
			return x, err
		}
		commands := slices.DeleteFunc(slices.Clone(r.Ranges), func(g ledger.Range) bool { return g.Topic != names.Commands })
		if err := in.Replay(ctx, moves.Ranges(r.Window, commands)); err != nil {
			return x, err
		}
		if r.Forgot != nil {
			obeyed, _ := in.Gather(nil, nil)
			x.add(r.Window, obeyed)
		}
		in.Release()
	}
}
