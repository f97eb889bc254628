package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/ledger"
)

type reportCmd struct {
	Kafka flags.Kafka `embed:""`

	Since moment `help:"Beginning of the time: a duration before its end such as 24h, or a time such as 2026-11-22 or 2026-11-22T10:00:00Z." default:"24h" placeholder:"24h"`
	Until moment `help:"End of the time: a duration before now, or a time; now when left out." default:"0s" placeholder:"TIME"`
	Out   string `help:"File to write, - for standard output." default:"report.html" type:"path" placeholder:"FILE"`
}

// Help is shown by gvbll report --help.
func (reportCmd) Help() string {
	return "Writes how a graph did over a time as one HTML file, to look at, to print or to mail: predictions, labels and refused events, scores over time by head, reliability, slices by degree, classes, drift found, models promoted. " +
		"The file needs nothing else and has no script. All of it comes from the ledger."
}

// Run writes the report.
func (c reportCmd) Run(ctx context.Context, p flags.Process) error {
	to := c.Until.before(time.Now())
	from := c.Since.before(to)
	if !from.Before(to) {
		return flags.Usagef("--since %s: it is not before the end, %s", c.Since.text, utc(to))
	}
	if err := flags.CheckOutput("--out", c.Out); err != nil {
		return err
	}
	client, names, err := c.Kafka.Connect(ctx, p)
	if err != nil {
		return err
	}
	defer client.Close()
	r := page.Report{Graph: c.Kafka.Prefix, Version: p.Version, Made: time.Now(), Periods: periods(from, to)}
	shards, err := topics.Shards(ctx, client, names)
	if err != nil {
		return err
	}
	seen := make(map[string]bool) // what happened in a window
	err = scanWindows(ctx, client, names, shards, from, func(w *ledger.Record) {
		if !w.Stepped.Before(to) {
			return
		}
		// The owners' clocks may differ a little, so that a time may lie before the first.
		i := max(int(w.Stepped.Sub(from)/r.Periods[0].To.Sub(from)), 0)
		addWindow(&r.Periods[min(i, len(r.Periods)-1)], w)
		r.Model = w.Serves()
		for _, what := range events(w) {
			if said := fmt.Sprint(w.Window, " ", what); !seen[said] { // each of several shards may say so
				seen[said] = true
				r.Events = append(r.Events, page.Event{At: w.Stepped, What: what})
			}
		}
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(r.Events, func(a, b page.Event) int { return a.At.Compare(b.At) })
	html, err := r.HTML()
	if err != nil {
		return err
	}
	if c.Out == "-" {
		_, err = p.Out.Write(html)
		return err
	}
	if err := os.WriteFile(c.Out, html, 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "wrote %s: %s to %s\n", c.Out, utc(from), utc(to))
	return err
}

// mostPeriods bounds the periods of a report.
const mostPeriods = 48

// periods divides a time into periods of equal and usual length; the last one may be
// shorter.
func periods(from, to time.Time) (list []page.Period) {
	length := time.Second
	for _, l := range []time.Duration{
		5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	} {
		if to.Sub(from) > mostPeriods*length {
			length = l
		}
	}
	for to.Sub(from) > mostPeriods*length {
		length *= 2
	}
	for at := from; at.Before(to); at = at.Add(length) {
		list = append(list, page.Period{From: at, To: at.Add(length)})
	}
	list[len(list)-1].To = to
	return list
}

// events describes what happened in a window beside predictions and labels.
func events(r *ledger.Record) (list []string) {
	if b := r.Begins; b != nil {
		list = append(list, fmt.Sprintf("epoch %d begins with model %s: %s", r.Epoch, r.Model, b.Why))
	}
	for _, c := range r.Changes {
		what := "drift found by " + c.Detector
		if c.Worse {
			what += ": the loss of what was served has risen"
		}
		list = append(list, what)
	}
	if r.Promoted != "" {
		list = append(list, fmt.Sprintf("model %s promoted in place of %s", r.Promoted, r.Model))
	}
	if f := r.Forgot; f != nil {
		list = append(list, fmt.Sprintf("forgot %d ids by a replay of %d windows", f.Nodes, f.Windows))
	}
	return list
}

// moment is a time, or a duration before one that is known later.
type moment struct {
	text string
	at   time.Time // zero for a duration
	ago  time.Duration
}

func (m moment) String() string { return m.text }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *moment) UnmarshalText(text []byte) error {
	m.text = string(text)
	var err error
	if m.ago, err = time.ParseDuration(m.text); err == nil && m.ago >= 0 {
		return nil
	}
	if m.at, err = parseTime(m.text); err == nil {
		return nil
	}
	return fmt.Errorf("%.40q: give a duration such as 24h, or a time such as 2026-11-22T10:00:00Z", m.text)
}

// parseTime reads a time, or a date: its beginning in UTC.
func parseTime(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	return time.Parse(time.DateOnly, text)
}

// before returns the moment as a time.
func (m moment) before(end time.Time) time.Time {
	if m.at.IsZero() {
		return end.Add(-m.ago)
	}
	return m.at
}
