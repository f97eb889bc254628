package look

import (
	"fmt"
	"io"
	"strings"

	"github.com/gvbll/gvbll/topics/ledger"
)

// rangesOf returns the ranges as the ledger is printed with them.
func rangesOf(ranges []ledger.Range) (notes []string) {
	for _, g := range ranges {
		notes = append(notes, fmt.Sprintf("%s/%d:%d-%d", g.Topic, g.Partition, g.From, g.To-1))
	}
	return notes
}

// LedgerTable prints ledger records as lines of a table.
type LedgerTable struct {
	Out      io.Writer
	settings string // of the records so far
	model    string // that serves after the last one printed, "" before the first
}

// Note stores the settings of a record that holds them, or else their hash.
func (t *LedgerTable) Note(r *ledger.Record) {
	if r.Configuration != "" {
		t.settings = string(r.Configuration)
	} else if t.settings == "" {
		t.settings = r.Settings
	}
}

// Print prints the line of a record, and lines before and after it where an epoch begins or another
// model serves.
func (t *LedgerTable) Print(r *ledger.Record) error {
	switch t.model {
	case "":
		fmt.Fprintf(t.Out, "model %s\nsettings %s\n\n%8s %-8s %11s %7s %7s %8s  %-12s %-12s %s\n", r.Model, t.settings,
			"WINDOW", "CUT BY", "PREDICTIONS", "LABELS", "REFUSED", "UPDATES", "POSTERIOR", "CHAIN", "OFFSETS")
	case r.Model:
	default:
		t.printSwitch(r.Window, r.Model)
	}
	if b := r.Begins; b != nil && r.Epoch > 0 {
		fmt.Fprintf(t.Out, "%8d epoch %d begins, by gvbll %s: %s\nsettings %s\n", r.Window, r.Epoch, b.Program, b.Why, t.settings)
		if r.HasGap() {
			fmt.Fprintf(t.Out, "%8d behind a gap, with the state before window %d and what is left since; gone: %s\n",
				r.Window, b.Checkpoint, b.Describe(r.Window))
		}
	}
	t.model = r.Model
	notes := rangesOf(r.Ranges)
	if r.Forgot != nil {
		notes = append(notes, fmt.Sprintf("forgot %d", r.Forgot.Nodes))
	}
	if decision := r.Trial.Decision(); decision != "" {
		notes = append(notes, decision)
	}
	if r.Head != "" {
		notes = append(notes, "served by "+r.Head)
	}
	_, err := fmt.Fprintf(t.Out, "%8d %-8s %11d %7d %7d %8d  %-12.12s %-12.12s %s\n",
		r.Window, r.Cause, r.Predictions, r.Labels, r.Refused, r.Updates, r.Posterior, r.Chain, strings.Join(notes, " "))
	if r.Promoted != "" {
		t.printSwitch(r.Window+1, r.Promoted)
	}
	return err
}

// printSwitch prints that another model serves from a window on.
func (t *LedgerTable) printSwitch(window int64, model string) {
	fmt.Fprintf(t.Out, "%8d model %s serves from here on, before it model %s\n", window, model, t.model)
	t.model = model
}
