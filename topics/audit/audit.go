// Package audit compares what a graph has published with a replay of its ledger, byte by byte, and
// counts it where there can be no replay. It writes nothing.
package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
)

// Result is the result of an audit.
type Result struct {
	First int64 `json:"first_window"` // the windows before it are in the checkpoint or base
	// Base is the name of the base that the audit began with: its state is taken on trust.
	Base        string `json:"base,omitempty"`
	Windows     int64  `json:"windows"`            // the ledger's up to the last one audited
	Predictions int64  `json:"predictions"`        // compared byte by byte, revisions included
	DeadLetters int64  `json:"dead_letters"`       // likewise
	Asked       int64  `json:"to_label,omitempty"` // nodes to be labelled, likewise
	// Elsewhere counts the windows that models or settings served which the audit does
	// not have. Of their predictions it checks only whether each arrival has one, or, where another
	// map made events of the records, whether there are as many as the ledger says.
	Elsewhere int64         `json:"windows_of_other_terms,omitempty"`
	Epochs    []epoch       `json:"epochs"`
	Chain     string        `json:"chain"` // SHA-256 over all predictions and learned labels
	Took      time.Duration `json:"-"`
}

// mapSetting is the setting that says what event a record is: by another map, others arrived.
const mapSetting = "map"

// epoch is the result for one epoch. A window is proved if a replay gives its hashes,
// and its predictions and dead letters byte by byte. In other windows, which another
// program, settings or model served, what is checked needs no engine: the records of the
// window were in none before it, each of its arrivals has one prediction or dead letter,
// and there are as many of both as the ledger says.
type epoch struct {
	Number      int64  `json:"epoch"`
	First       int64  `json:"first_window"`
	Windows     int64  `json:"windows"`
	Proved      int64  `json:"windows_proved"`
	Predictions int64  `json:"predictions"`         // of proved windows
	DeadLetters int64  `json:"dead_letters"`        // of proved windows
	Checked     int64  `json:"predictions_checked"` // of other windows
	Model       string `json:"model"`               // that served its first window
	Program     string `json:"program,omitempty"`   // version of the one that began it, if known
	Why         string `json:"why,omitempty"`
}

// Merge takes over what another audit of the same ledger, with other settings, proved.
func (a *Result) Merge(other Result) {
	for i := range min(len(a.Epochs), len(other.Epochs)) {
		mine, theirs := &a.Epochs[i], &other.Epochs[i]
		if theirs.Proved > mine.Proved {
			a.Predictions += theirs.Predictions - mine.Predictions
			a.DeadLetters += theirs.DeadLetters - mine.DeadLetters
			a.Elsewhere -= theirs.Proved - mine.Proved
			*mine = *theirs
		}
	}
	a.Took += other.Took
}

// Run replays the ledger from its beginning through a fresh engine and compares the
// outcome with the published records: the hashes of every window, and every committed
// prediction and dead letter, byte by byte and in order. The error names the first
// record that differs. An audit writes nothing and can run beside a live worker; it ends
// when it has reached the end of the ledger.
//
// The audit begins after the state of from, if it has one: its hash is
// compared with the ledger's, and records that were published before are skipped. A dead
// letter does not name its window, so the audit searches for the first one to compare.
//
// If a model was promoted, the audit needs only one of the two models. In windows that the
// other model served, it compares the chain of its own model in the shadow. Of what was
// published in them, and in epochs of other terms, it checks what needs no engine; see
// epoch.
//
// Windows before a gap that was accepted cannot be replayed, and those behind it only from a
// checkpoint that is behind it too.
//
// progress, when not nil, is called after every window.
func Run(ctx context.Context, c *kafka.Client, e replay.Engine, cfg replay.Config, from From,
	progress func(windows int64),
) (Result, error) {
	began := time.Now()
	if !from.some() {
		switch gap, err := replay.LastGap(ctx, c, cfg.Terms.Names.LedgerAt()); {
		case err != nil:
			return Result{}, err
		case gap != nil:
			return Result{}, fmt.Errorf("ledger %s: epoch %d begins at window %d behind a gap (%s), and nothing proves "+
				"the windows before it: give --checkpoint with one before window %d or a later one, and those from "+
				"there on are proved", cfg.Terms.Names.Ledger, gap.Epoch, gap.Window, gap.Begins.Describe(gap.Window), gap.Window+1)
		}
	}
	a := &auditor{
		cfg: cfg, client: c, replay: replay.New(c, cfg, e), found: make(map[kafka.TopicPartition]bool),
		refused: make(map[place]bool),
	}
	err := a.run(ctx, from, progress)
	a.audited.Took = time.Since(began)
	return a.audited, err
}

// From is the state that an audit begins with: at most one of the two.
type From struct {
	Checkpoint string       // its path
	Base       *ledger.Base // that the ledger names, in the store of the configuration
}

func (f From) some() bool { return f.Checkpoint != "" || f.Base != nil }

// auditor is a replayer that compares every window with the published records.
type auditor struct {
	cfg     replay.Config
	client  *kafka.Client
	replay  *replay.Replayer
	outputs *outputs
	audited Result
	// after a state, or where letters are not counted: the partition's first record to compare was found
	found   map[kafka.TopicPartition]bool
	lost    bool           // dead letters of some windows were not counted
	refused map[place]bool // the records that the window's dead letters are about
	newest  *ledger.Record // the last one replayed
	proved  bool           // a ledger record had a chain of one of our models
	present arrivals
}

// run audits the windows behind a state, or all.
func (a *auditor) run(ctx context.Context, from From, progress func(windows int64)) error {
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	if err := a.open(ctx, fetching, from); err != nil {
		return err
	}
	for {
		r, err := a.replay.Ledger.Next(ctx)
		if err != nil {
			return err
		}
		if r == nil {
			break
		}
		if err := a.window(ctx, r); err != nil {
			return err
		}
		if progress != nil {
			progress(a.audited.Windows)
		}
	}
	if a.newest != nil && !a.proved && a.replay.Stretch().Settings().Own {
		return fmt.Errorf("ledger %s belongs to model %s, and this is model %s: give the file of a model that served",
			a.cfg.Terms.Names.Ledger, a.newest.Model, a.cfg.Terms.Model)
	}
	return a.checkNothingElse(ctx)
}

func (a *auditor) open(ctx, fetching context.Context, from From) (err error) {
	if a.outputs, err = openOutputs(ctx, a.client, a.cfg.Terms); err != nil {
		return err
	}
	switch {
	case from.Base != nil:
		a.audited.Base = from.Base.Name.String()
		err = a.replay.OpenBase(ctx, fetching, from.Base)
	case from.Checkpoint != "":
		err = a.replay.OpenCheckpoint(ctx, fetching, from.Checkpoint)
	default:
		err = a.replay.OpenFirst(ctx, fetching, 0)
	}
	if err != nil {
		return err
	}
	first := a.replay.Next()
	a.audited.First, a.audited.Windows, a.audited.Chain = first, first, a.replay.Last().Chain
	if first == 0 {
		a.present.nodes = make(map[event.ID]bool)
	}
	return nil
}

// window replays one window, which compares the hashes where it can, and then compares or
// checks the published records.
func (a *auditor) window(ctx context.Context, r *ledger.Record) error {
	out, err := a.replay.Step(ctx, r)
	if err != nil {
		return err
	}
	defer a.replay.Inputs.Release()
	a.newest, a.proved = r, a.proved || a.replay.Compared()
	e := a.epoch(r)
	e.Windows++
	a.audited.Windows, a.audited.Chain = out.Window+1, r.Chain
	proves := a.replay.Stretch().Settings().Own && a.cfg.Terms.Has(r.Model)
	if err := a.outputs.in(r, a.replay.Ranges(r)); err != nil {
		return err
	}
	if proves {
		err = a.compareLetters(ctx, out, e)
	} else {
		err = a.checkLetters(ctx, r)
	}
	if a.replay.Stretch().Settings().All.Value("keep") != "" { // an engine alone knows what has left
		a.present.nodes = nil
	}
	arrivals := a.present.take(a.replay.Window(), a.refused, r.Forgot != nil)
	switch {
	case err != nil:
		return err
	case proves:
		e.Proved++
		return a.comparePredictions(ctx, out, e)
	}
	a.audited.Elsewhere++
	theirs, ours := a.replay.Stretch().Settings().All, a.cfg.Terms.Settings
	if theirs.Value(mapSetting) != ours.Value(mapSetting) || theirs.FirstReading() != ours.FirstReading() ||
		!slices.Equal(a.outputs.now, r.Ranges) {
		arrivals = nil
	}
	return a.checkPredictions(ctx, r, arrivals, e)
}

// epoch returns the result of the epoch of a record.
func (a *auditor) epoch(r *ledger.Record) *epoch {
	list := &a.audited.Epochs
	if n := len(*list); n == 0 || (*list)[n-1].Number != r.Epoch {
		e := epoch{Number: r.Epoch, First: r.Window, Model: r.Model}
		if r.Begins != nil {
			e.Program, e.Why = r.Begins.Program, r.Begins.Why
		}
		*list = append(*list, e)
	}
	return &(*list)[len(*list)-1]
}

// comparePredictions compares the published predictions of a window with those of the
// replay.
func (a *auditor) comparePredictions(ctx context.Context, out *event.Outcome, e *epoch) error {
	for _, list := range [...][]event.Prediction{out.Predictions, out.Revisions} {
		for i := range list {
			x := a.outputs.prediction(out.Window, &list[i])
			if err := a.compare(ctx, &x); err != nil {
				return err
			}
			e.Predictions++
			a.audited.Predictions++
			if list[i].Asked == 0 {
				continue
			}
			x = a.outputs.asked(out.Window, &list[i])
			if err := a.compare(ctx, &x); err != nil {
				return err
			}
			a.audited.Asked++
		}
	}
	return nil
}

// compareLetters does the same for the dead letters.
func (a *auditor) compareLetters(ctx context.Context, out *event.Outcome, e *epoch) error {
	clear(a.refused)
	for i := range out.Refused {
		d := &out.Refused[i]
		x := a.outputs.deadLetter(out.Window, d)
		if err := a.compare(ctx, &x); err != nil {
			return err
		}
		a.refused[placeOf(d.Origin)] = true
		e.DeadLetters++
		a.audited.DeadLetters++
	}
	return nil
}

// compare compares the next committed record of the key's partition with the replayed
// one.
func (a *auditor) compare(ctx context.Context, x *expected) error {
	r, err := a.next(ctx, x.at, x)
	switch {
	case err != nil:
		return err
	case r == nil:
		return x.missing()
	case !x.is(r):
		return x.differs(r)
	}
	a.drop(x.at)
	return nil
}

// next returns the next record to compare of a partition, and leaves it there; nil at the end.
// Of the dead letters it is to be x.
func (a *auditor) next(ctx context.Context, at kafka.TopicPartition, x *expected) (*kafka.Record, error) {
	for a.skip(at, x); len(a.outputs.waiting[at]) == 0; a.skip(at, x) {
		if more, err := a.outputs.fetch(ctx, at); !more || err != nil {
			return nil, err
		}
	}
	return &a.outputs.waiting[at][0], nil
}

// drop drops the next record of a partition, which was compared.
func (a *auditor) drop(at kafka.TopicPartition) { a.outputs.waiting[at] = a.outputs.waiting[at][1:] }

// skip drops records that are not compared: predictions of windows before the audit's
// checkpoint, and dead letters before x.
func (a *auditor) skip(at kafka.TopicPartition, x *expected) {
	var p event.Prediction
	for (a.audited.First > 0 || a.lost) && !a.found[at] && len(a.outputs.waiting[at]) > 0 {
		r := &a.outputs.waiting[at][0]
		if at.Topic == a.cfg.Terms.Names.DeadLetters {
			a.found[at] = x.is(r)
		} else {
			// A record that cannot be decoded is kept, to be reported as a difference.
			a.found[at] = wire.DecodePrediction(r.Value, &p) != nil || p.Window >= a.audited.First
		}
		if !a.found[at] {
			a.drop(at)
		}
	}
}

// checkNothingElse returns an error if the topic has a prediction of the replayed windows
// that was not compared. It may have predictions of later windows, by a live worker, which the
// ledger then has.
func (a *auditor) checkNothingElse(ctx context.Context) error {
	for _, at := range append(a.outputs.predictionsAt(), a.outputs.toLabelAt()) {
		if _, err := a.next(ctx, at, nil); err != nil {
			return err
		}
		for i := range a.outputs.waiting[at] {
			if err := a.outputs.checkLater(ctx, &a.outputs.waiting[at][i], a.audited.Windows, a.cfg.Terms.Names.LedgerAt()); err != nil {
				return err
			}
		}
	}
	return nil
}
