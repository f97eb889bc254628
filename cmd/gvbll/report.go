package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
)

type reportCmd struct {
	Kafka flags.Kafka `embed:""`
	Cell  flags.Cell  `embed:""`

	Since flags.Moment `help:"@report_since" default:"24h" placeholder:"24h"`
	Until flags.Moment `help:"End: a duration before now, or a time; now when left out." default:"0s" placeholder:"TIME"`
	Out   string       `help:"File to write, - for standard output." default:"report.html" type:"path" placeholder:"report.html"`
}

var reportHelp = flags.Texts{
	"report_since": "Beginning: 24h before the end, or 2026-11-22T10:00:00Z, or 2026-11-22.",
}

// Help is shown by gvbll report --help.
func (reportCmd) Help() string {
	return "One file without scripts, to look at, to print or to mail, from the ledger: predictions, labels, " +
		"refused events, scores by head, reliability, slices, classes, drift found, models promoted."
}

// Run writes the report.
func (c reportCmd) Run(ctx context.Context, p flags.Process) error {
	to := c.Until.Before(time.Now())
	from := c.Since.Before(to)
	if !from.Before(to) {
		return flags.Usagef("--since %s: it is not before the end, %s", c.Since, look.UTC(to))
	}
	if err := flags.CheckOutput("--out", c.Out); err != nil {
		return err
	}
	g, err := look.Connect(ctx, p, c.Kafka, c.Cell)
	if err != nil {
		return err
	}
	defer g.Client.Close()
	r, err := look.ReadReport(ctx, g, from, to)
	if err != nil {
		return err
	}
	if r.Model == "" {
		return fmt.Errorf("nothing is written: the ledger %s has no window from %s to %s: see --since, --until and --prefix",
			g.Names.Ledger, look.UTC(from), look.UTC(to))
	}
	r.Graph, r.Version, r.Made = c.Kafka.Prefix, p.Version, time.Now()
	html, err := r.HTML()
	if err != nil {
		return err
	}
	if c.Out == "-" {
		_, err = p.Out.Write(html)
		return err
	}
	if err := os.WriteFile(c.Out, html, 0o600); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "wrote %s: %s to %s\n", c.Out, look.UTC(r.Periods[0].From), look.UTC(to))
	return err
}
