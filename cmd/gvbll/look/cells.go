package look

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	bases "github.com/gvbll/gvbll/topics/base"
)

// Cells is how the cells of a graph are doing.
type Cells struct {
	Prefix string    `json:"prefix"`
	Cells  []*Status `json:"cells"` // by number
}

// ReadCells is ReadStatus for all cells of a graph. open opens the store of bases of one of them, nil for none.
func ReadCells(ctx context.Context, g Graph, prefix string, last time.Duration, open func(Graph) (bases.Store, error)) (*Cells, error) {
	c := &Cells{Prefix: prefix}
	members, err := allMembers(ctx, g.Client, g.Names)
	if err != nil {
		return nil, err
	}
	all := g.All()
	c.Cells = make([]*Status, len(all))
	errs := make([]error, len(all))
	var reading sync.WaitGroup
	turns := make(chan struct{}, readsAtOnce)
	for i, of := range all {
		turns <- struct{}{}
		reading.Go(func() {
			defer func() { <-turns }()
			store, err := open(of)
			if err == nil {
				c.Cells[i], err = ReadStatus(ctx, of, store, prefix, ofCell(members, of.Names.Cell), last)
			}
			if err != nil {
				errs[i] = fmt.Errorf("%s%w", of.Label(), err)
			}
		})
	}
	reading.Wait()
	return c, cmp.Or(errs...)
}

// readsAtOnce is how many cells are read beside each other.
const readsAtOnce = 8

// Worst says what is wrong first, "" for nothing.
func (c *Cells) Worst() string {
	for number, s := range c.Cells {
		if worst := s.Worst(); worst != "" {
			return fmt.Sprintf("cell %d: %s", number, worst)
		}
	}
	return ""
}

// Print prints a line for each cell, the sums, and what is wrong.
func (c *Cells) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	ago := func(s *Status, t *time.Time) string {
		if t == nil {
			return "-"
		}
		return roughly(s.at.Sub(*t)) + " ago"
	}
	fmt.Fprintln(w, "CELL\tOWNER\tSTANDBY\tWINDOWS\tNODES\tPREDICTIONS\tLABELS\tWAITING\tLAST COMMIT\tLAST LABEL\tVERDICT")
	var windows, waiting int64
	nodes, predictions, labels, owned := 0, 0, 0, 0
	for number, s := range c.Cells {
		owner, standby := "none", "none"
		if s.Owner != nil {
			owner = s.Owner.Where()
			owned++
		}
		if len(s.Standbys) > 0 {
			standby = s.Standbys[0].Where()
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", number, owner, standby, s.Windows,
			s.evidence.nodes, s.Last.Predictions,
			s.Last.Labels, s.waiting(), ago(s, s.Committed), ago(s, s.LastLabel), s.Verdict)
		windows, waiting = windows+s.Windows, waiting+s.waiting()
		nodes, predictions, labels = nodes+s.evidence.nodes, predictions+s.Last.Predictions, labels+s.Last.Labels
	}
	fmt.Fprintf(w, "all\t%d of %d\t\t%d\t%d\t%d\t%d\t%d\t\t\t\n", owned, len(c.Cells), windows, nodes, predictions, labels, waiting)
	if err := w.Flush(); err != nil {
		return err
	}
	const most = 10 // --cell and --json have all
	found := 0
	for number, s := range c.Cells {
		for _, f := range s.Wrong {
			if found++; found > most {
				continue
			}
			fmt.Fprintf(out, "wrong: cell %d: %s (docs/runbook.md#%s)\n", number, f.What, anchor(f.Alert))
		}
	}
	if found > most {
		fmt.Fprintf(out, "and %d more: 'gvbll status --cell N' has those of one\n", found-most)
	}
	return nil
}
