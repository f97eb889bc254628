package look

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/gvbll/gvbll/charts/page"
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

// Print prints a line for each cell, the sums, which worker has which, and what is wrong.
func (c *Cells) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', tabwriter.AlignRight)
	ago := func(s *Status, t *time.Time) string {
		if t == nil {
			return page.Undefined
		}
		return roughly(s.at.Sub(*t))
	}
	fmt.Fprintln(w, "CELL\tWINDOWS\tNODES\tPREDICTED\tLABELS\tWAITING\tCOMMIT\tLABEL\t VERDICT")
	var windows, waiting int64
	nodes, predictions, labels := 0, 0, 0
	has := make(map[string]*[2][]int) // cells that a worker owns, and those that it stands by for
	role := func(m *Member, role, cell int) {
		if has[m.Where()] == nil {
			has[m.Where()] = &[2][]int{}
		}
		has[m.Where()][role] = append(has[m.Where()][role], cell)
	}
	var alone []int
	for number, s := range c.Cells {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t %s\n", number, s.Windows, s.evidence.nodes, s.Last.Predictions,
			s.Last.Labels, s.waiting(), ago(s, s.Committed), ago(s, s.LastLabel), s.Verdict)
		windows, waiting = windows+s.Windows, waiting+s.waiting()
		nodes, predictions, labels = nodes+s.evidence.nodes, predictions+s.Last.Predictions, labels+s.Last.Labels
		if s.Owner != nil {
			role(s.Owner, 0, number)
		}
		for i := range s.Standbys {
			role(&s.Standbys[i], 1, number)
		}
		if len(s.Standbys) == 0 {
			alone = append(alone, number)
		}
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\t%d\t%d\t\t\t\n", windows, nodes, predictions, labels, waiting)
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, worker := range slices.Sorted(maps.Keys(has)) {
		var roles []string
		for role, cells := range has[worker] {
			if len(cells) > 0 {
				roles = append(roles, []string{"owns ", "stands by for "}[role]+ranges(cells))
			}
		}
		fold(out, "", 2, worker+" "+strings.Join(roles, ", "))
	}
	if i := slices.IndexFunc(c.Cells, func(s *Status) bool { return s.evidence.purged }); i >= 0 {
		fold(out, "", 2, fmt.Sprintf("cell %d: %s", i, c.Cells[i].shortened()))
	}
	if len(alone) > 0 {
		fold(out, "", 2, "no worker stands by for "+ranges(alone))
	}
	const most = 10 // --cell and --json have all
	found := 0
	for number, s := range c.Cells {
		for _, f := range s.Wrong {
			if found++; found <= most {
				fold(out, "", 2, fmt.Sprintf("wrong: cell %d: %s (docs/runbook.md#%s)", number, f.What, anchor(f.Alert)))
			}
		}
	}
	if found > most {
		fmt.Fprintf(out, "and %d more: 'gvbll status --cell N' has those of one\n", found-most)
	}
	return nil
}

// ranges writes ascending numbers of cells, such as 0-3, 7.
func ranges(cells []int) string {
	var list []string
	for i := 0; i < len(cells); {
		from := i
		for i++; i < len(cells) && cells[i] == cells[i-1]+1; i++ {
		}
		text := strconv.Itoa(cells[from])
		if i-from > 1 {
			text += "-" + strconv.Itoa(cells[i-1])
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}
