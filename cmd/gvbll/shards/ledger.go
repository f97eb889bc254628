package shards

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/topics/shards/cuts"
)

// PrintCuts prints the cuts of a graph from a window on.
func PrintCuts(ctx context.Context, p flags.Process, g look.Graph, from int64, asJSON bool) error {
	chain, err := cuts.OpenCuts(ctx, g.Client, g.Names.LedgerAt(0), cuts.Place{})
	if err != nil {
		return err
	}
	for model := ""; ; {
		cut, err := chain.Next(ctx)
		if cut == nil || err != nil {
			return err
		}
		if cut.Window < from {
			continue
		}
		if asJSON {
			_, err = fmt.Fprintf(p.Out, "%s\n", cut.Append(nil))
		} else {
			if cut.Begins != nil || model == "" {
				model = cut.Model
				fmt.Fprintf(p.Out, "model %s\nsettings %s\n\n%8s %-8s %-12s %8s %-12s %s\n", model, cmp.Or(string(cut.Configuration), cut.Settings), "WINDOW", "CUT BY", "HASH", "COMPLETE", "CHAIN", "OFFSETS")
			}
			done := cuts.Complete{Window: -1, Chain: "-"}
			if cut.Done != nil {
				done = *cut.Done
			}
			_, err = fmt.Fprintf(p.Out, "%8d %-8s %-12.12s %8d %-12.12s %s\n", cut.Window, cut.Cause, cut.Hash, done.Window+1, done.Chain, strings.Join(look.RangesOf(cut.Ranges), " "))
		}
		if err != nil {
			return err
		}
	}
}
