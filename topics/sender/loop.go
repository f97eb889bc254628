package sender

import (
	"context"
	"fmt"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// idIn returns the id of a node in pass number n of a loop, from 0 on: node 7 is 7/2 in
// pass 1, then 7/3.
func idIn(n int, id event.ID) event.ID {
	if n == 0 {
		return id
	}
	return event.ID{Str: fmt.Sprintf("%s/%d", id, n+1)}
}

// again returns the steps as pass number n of a loop sends them. From 1 on their nodes are
// new ones, which have the same features, neighbours and classes. Neighbours in the context
// are the same in all passes. So each pass is the same stream anew, and where it drifts, its
// end and the beginning of the next are a return to what was before.
func again(steps [][]Item, n int) [][]Item {
	if n == 0 {
		return steps
	}
	ids := make(map[event.ID]event.ID)
	for _, step := range steps {
		for i := range step {
			ids[step[i].Node.ID] = idIn(n, step[i].Node.ID)
		}
	}
	passed := make([][]Item, len(steps))
	for t, step := range steps {
		for _, item := range step {
			item.Node.ID = ids[item.Node.ID]
			neighbours := make([]event.ID, len(item.Node.Neighbours))
			for k, id := range item.Node.Neighbours {
				if other, ok := ids[id]; ok {
					id = other
				}
				neighbours[k] = id
			}
			item.Node.Neighbours = neighbours
			passed[t] = append(passed[t], item)
		}
	}
	return passed
}

// loop sends pass after pass. When one has ended, the nodes of the one before leave the
// graph, which so has no more than two passes beside the context. A sender that resumes
// goes on with the last pass that the topic has nodes of.
func (r *run) loop(ctx context.Context, predictions *kafka.Reader, s *Stream) error {
	if len(s.Steps) == 0 || len(s.Steps[0]) == 0 {
		return fmt.Errorf("there are no nodes to send again: the data set has no stream")
	}
	n := 0
	for r.sentNodes[string(wire.AppendKey(nil, idIn(n+1, s.Steps[0][0].Node.ID)))] {
		n++
	}
	for ; ; n++ {
		pass := &Stream{Steps: again(s.Steps, n)}
		if n == 0 {
			pass.Context = s.Context // whose late labels come once
		}
		if err := r.steps(ctx, predictions, pass); err != nil {
			return err
		}
		if n > 0 {
			if err := r.leave(ctx, s.Steps, n-1); err != nil {
				return err
			}
		}
	}
}

// leave sends the departures of all nodes of pass number n: a null value under the key of
// each.
func (r *run) leave(ctx context.Context, steps [][]Item, n int) error {
	for _, step := range steps {
		records := make([]kafka.Record, len(step))
		for i := range step {
			of := step[i].Node
			of.ID = idIn(n, of.ID)
			var err error
			if records[i], err = r.record(r.cfg.Names.Nodes, &of, wire.AppendKey(nil, of.ID), nil); err != nil {
				return err
			}
		}
		if err := r.send(ctx, records); err != nil {
			return err
		}
	}
	return nil
}
