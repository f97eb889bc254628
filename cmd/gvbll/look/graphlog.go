package look

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/retrain"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// Span choose windows of a ledger.
type Span struct {
	Since Place `help:"Train on nodes that came in this window or later, or since this time; all are in the graph." placeholder:"WINDOW|TIME" group:"log"`
	Until Place `help:"Read the windows before this one, or those committed before this time; all when left out." placeholder:"WINDOW|TIME" group:"log"`
}

// Place is a place in a ledger: a window by number, or a time, such as
// 2026-11-22T10:00:00Z or 2026-11-22. The zero value is none.
type Place struct {
	text   string
	window int64
	time   time.Time // zero where the place is a window
}

func (p Place) String() string { return p.text }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Place) UnmarshalText(text []byte) error {
	p.text = string(text)
	var err error
	if p.window, err = strconv.ParseInt(p.text, 10, 64); err == nil && p.window >= 0 {
		return nil
	}
	if p.time, err = flags.ParseTime(p.text); err == nil {
		return nil
	}
	return fmt.Errorf("%.40q: give the number of a window, or a time such as 2026-11-22T10:00:00Z", p.text)
}

// reached reports whether a window that was committed at a time is at the place or after
// it. No window is at the zero place.
func (p Place) reached(window int64, at time.Time) bool {
	switch {
	case p.text == "":
		return false
	case p.time.IsZero():
		return window >= p.window
	}
	return !at.Before(p.time)
}

// Log is the part of a graph's ledger that a model is trained on.
type Log struct {
	Graph

	Windows  int64           // read are those before this one
	since    int64           // training nodes came in this one or later
	Serves   string          // the model that serves after the last of them
	known    map[string]bool // classes of all models
	classes  []string        // of the model that the ledger began with
	refused  int             // events
	features int             // of a node, for the models that served last: events with others were refused
	written  event.Settings  // that the records hold last
	stepped  []int64         // when each of the windows was, Unix milliseconds

	cells []*Log // of all cells, where it is of several
	order []turn // whose window is next
}

// OpenLog finds the windows that the flags name.
func OpenLog(ctx context.Context, g Graph, f Span) (*Log, error) {
	l := &Log{Graph: g, known: make(map[string]bool)}
	records, err := ledger.Open(ctx, g.Client, g.Names.LedgerAt())
	if err != nil {
		return nil, err
	}
	found := f.Since.text == ""
	for {
		r, err := records.Next(ctx)
		if err != nil {
			return nil, err
		}
		if r == nil || f.Until.reached(r.Window, r.Stepped) {
			break
		}
		if !found && f.Since.reached(r.Window, r.Stepped) {
			found, l.since = true, r.Window
		}
		if r.Begins != nil {
			l.features = r.Begins.Features
		}
		l.refused += r.Refused
		for _, class := range r.Classes {
			l.known[class] = true
		}
		if r.Classes != nil && l.classes == nil {
			l.classes = r.Classes
		}
		if r.Configuration != "" {
			l.written = r.Configuration
		}
		l.Windows, l.Serves = r.Window+1, r.Serves()
		l.stepped = append(l.stepped, r.Stepped.UnixMilli())
	}
	switch {
	case l.Windows == 0:
		return nil, fmt.Errorf("ledger %s %w", g.Names.Ledger, errNoWindows)
	case !found:
		return nil, fmt.Errorf("--since %s: the %d windows of ledger %s that are read end before it", f.Since, l.Windows, g.Names.Ledger)
	}
	return l, nil
}

// errNoWindows says that nothing can be read.
var errNoWindows = errors.New("has no windows to read: start 'gvbll work' first, or leave out --until")

// play implements retrain.Stream.
func (l *Log) play(ctx context.Context, visit func(*event.Window) error) error {
	if l.cells != nil {
		return l.playCells(ctx, visit)
	}
	cfg := replay.Config{Terms: &replay.Terms{Names: l.Names, Settings: l.written}}
	return replay.Windows(ctx, l.Client, cfg, l.Windows, visit)
}

// settings returns the settings of the ledger's engine after these windows.
func (l *Log) settings() (pipeline.Config, error) {
	cfg, err := pipeline.ParseSettings(l.written)
	if err != nil {
		err = fmt.Errorf("ledger %s: %w, or begin an epoch of this one with 'gvbll rebase' first", l.Names.Ledger, err)
	}
	return cfg, err
}

// CheckServes returns an error unless m is the model that serves.
func (l *Log) CheckServes(m *model.Model) error {
	if m.ID != l.Serves {
		return fmt.Errorf("model %s serves in ledger %s, and the file has model %s: give the file of the first", l.Serves,
			l.Names.Ledger, m.ID)
	}
	return nil
}

// Train trains a model on the log. cfg has the constants of the training, the model that serves, or
// nil, and classes to have besides.
func (l *Log) Train(ctx context.Context, cfg retrain.Config) (*retrain.Result, error) {
	if s := cfg.Serving; l.cells != nil && s != nil && s.Schema != nil && s.Schema.Keys != nil {
		return nil, errors.New("the model has keys, which would link the events of two cells whose accounts have the same " +
			"number: give --cell")
	}
	cfg.Name, cfg.Classes, cfg.Since = l.Names.Ledger, l.classes, l.since
	var err error
	if cfg.Settings, err = l.settings(); err != nil {
		return nil, err
	}
	cfg.Features = l.features // unless a model serves
	if l.cells != nil {
		cfg.Own = inGraph
	}
	return retrain.Train(ctx, l.play, cfg)
}

// PrintValidation prints what the candidate scored beside the model that serves.
func PrintValidation(w io.Writer, r *retrain.Result) {
	v := r.Model.Training.Validation
	fmt.Fprintf(w, "trained on the labels of %d windows; a candidate without those from window %d on was scored by %d "+
		"of them:\n", v.Windows, v.Cut, v.Labels)
	fmt.Fprintf(w, "%-16s %9s %8s %8s", "", "accuracy", "NLL", "ECE")
	if len(r.Served) > 0 {
		fmt.Fprintf(w, "   %s %9s %8s %8s", "served:", "accuracy", "NLL", "ECE")
	}
	fmt.Fprintln(w)
	for _, s := range r.Candidate {
		m := v.Scores[s.Head]
		fmt.Fprintf(w, "%-16s %9.4f %8.4f %8.4f", s.Head, m.Acc, m.NLL, m.ECE)
		if m, ok := v.Served[s.Head]; ok {
			fmt.Fprintf(w, "   %7s %9.4f %8.4f %8.4f", "", m.Acc, m.NLL, m.ECE)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "by chance alone the ECE of so many labels is up to %.4f\n", v.Scores[r.Candidate[0].Head].Chance)
	if verdict, _ := Verdict(r.Model.Training.Validation, r.Candidate[0].Head); verdict != "" {
		fmt.Fprintln(w, verdict)
	}
	if len(r.New) > 0 {
		fmt.Fprintf(w, "new classes: %.200q\n", r.New)
	}
	if len(r.Rare) > 0 {
		slices.Sort(r.Rare)
		fmt.Fprintf(w, "left out, with too few labels to be a class: %.200q (name them with --classes to have them)\n", r.Rare)
	}
}

// Verdict says in words how the candidate's head that serves did beside the model that serves, and
// whether it is worse. Without a model that serves there is nothing to say.
func Verdict(v *model.Validation, head string) (text string, worse bool) {
	served, ok := v.Served[head]
	if !ok {
		return "", false
	}
	gap := v.Scores[head].NLL - served.NLL
	switch {
	case gap > 0:
		text = fmt.Sprintf("worse than the model that serves: on the same %d labels its NLL is %.4f higher", v.Labels, gap)
	case gap < 0:
		text = fmt.Sprintf("better than the model that serves: on the same %d labels its NLL is %.4f lower", v.Labels, -gap)
	default:
		text = fmt.Sprintf("as good as the model that serves: on the same %d labels it has the same NLL", v.Labels)
	}
	return text, gap > 0
}
