package worker

import (
	"context"
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// exclusions are forgotten nodes that a replay leaves out from its beginning, so that it
// need not begin anew at each command to forget. The zero value leaves out none.
type exclusions struct {
	// forgotten has for every node the last window in which it was forgotten: its
	// events in windows before that one are left out.
	forgotten map[event.ID]int64
	// end is the window behind the last of these, 0 for none.
	end int64
}

// covers tells whether what a window's commands forget has been left out already.
func (x *exclusions) covers(window int64) bool { return window < x.end }

// rewrites tells whether nodes are left out behind the window that were still there
// when it was served: then its hash is not the ledger's. The last window that forgot
// nodes brings the state back to the ledger's.
func (x *exclusions) rewrites(window int64) bool { return window+1 < x.end }

// add notes the nodes that commands of a window forget.
func (x *exclusions) add(window int64, commands []event.Command) {
	if x.forgotten == nil {
		x.forgotten = make(map[event.ID]int64)
	}
	for i := range commands {
		if commands[i].Name != event.Forget {
			continue
		}
		for _, id := range commands[i].Nodes {
			x.forgotten[id.Clone()] = max(x.forgotten[id], window)
		}
	}
	x.end = max(x.end, window+1)
}

// remove removes from a window what belongs to the nodes that are left out of it: their
// events, their labels and the edges that name them.
func (x *exclusions) remove(w *event.Window) {
	if w.Number >= x.end {
		return
	}
	out := func(id event.ID) bool {
		window, is := x.forgotten[id]
		return is && w.Number < window
	}
	w.Nodes = slices.DeleteFunc(w.Nodes, func(n event.Node) bool {
		if n.Departed && n.ByKey && n.ID.Str == "" {
			// The key of the record is an integer, and may be a string: either node
			// may be meant, and the one that is not left out must leave.
			return out(n.ID) && out(event.ID{Str: n.ID.String()})
		}
		return out(n.ID)
	})
	for i := range w.Nodes {
		n := &w.Nodes[i]
		n.Neighbours = slices.DeleteFunc(n.Neighbours, out)
	}
	w.Labels = slices.DeleteFunc(w.Labels, func(l event.Label) bool { return out(l.Node) })
}

// readExclusions reads which nodes were forgotten in the ledger's windows before the
// given one.
func (p *replayer) readExclusions(ctx context.Context, before int64) (x exclusions, err error) {
	bounds, err := p.client.Offsets(ctx, p.cfg.Names.Commands)
	if err != nil || bounds[kafka.TopicPartition{Topic: p.cfg.Names.Commands}].End == 0 {
		return x, err
	}
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	in, err := intake.OpenCommands(fetching, p.client, p.intake())
	if err != nil {
		return x, err
	}
	l, err := ledger.Open(ctx, p.client, p.cfg.Names.Ledger)
	if err != nil {
		return x, err
	}
	for {
		r, err := l.Next(ctx)
		if err != nil || r == nil || r.Window >= before {
			return x, err
		}
		commands := slices.DeleteFunc(slices.Clone(r.Ranges), func(g ledger.Range) bool { return g.Topic != p.cfg.Names.Commands })
		if err := in.Replay(ctx, commands); err != nil {
			return x, err
		}
		if r.Forgot != nil {
			named, _ := in.Gather(nil, nil)
			x.add(r.Window, named)
		}
		in.Release()
	}
}
