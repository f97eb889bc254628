// Package audit compares what a graph has published with a replay of its ledger, byte by byte, and
// counts it where there can be no replay. It writes nothing.
package audit

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
)

// Result is the result of an audit.
type Result struct {
	First       int64 `json:"first_window"` // the windows before it are in the checkpoint
	Windows     int64 `json:"windows"`      // the ledger's up to the last one audited
	Predictions int64 `json:"predictions"`  // compared byte by byte, revisions included
	DeadLetters int64 `json:"dead_letters"` // likewise
	// Elsewhere counts the windows that models or settings served which the audit does
	// not have. Of their predictions it checks only whether each arrival has one.
	Elsewhere int64 `json:"windows_of_other_terms,omitempty"`
	// Counted counts the windows that were not replayed because of a gap. Of these it checks
	// that no record is in two, and that there are as many predictions and dead letters as the
	// ledger says.
	Counted int64 `json:"windows_counted,omitempty"`
	// Behind is the last window that begins an epoch behind a gap, 0 for none. An audit that
	// begins at a checkpoint of it, or of a later one, proves what follows.
	Behind int64         `json:"behind_gap,omitempty"`
	Epochs []Epoch       `json:"epochs"`
	Chain  string        `json:"chain"` // SHA-256 over all predictions and learned labels
	Took   time.Duration `json:"-"`
}

// Epoch is the result for one epoch. A window is proved if a replay gives its hashes,
// and its predictions and dead letters byte by byte. In other windows, which another
// program, settings or model served, what is checked needs no engine: the records of the
// window were in none before it, each of its arrivals has one prediction or dead letter,
// and there are as many of both as the ledger says.
type Epoch struct {
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
	// Counted is the number of windows that were not replayed, and Gap what is gone of the
	// inputs before the epoch.
	Counted int64          `json:"windows_counted,omitempty"`
	Gap     []ledger.Range `json:"gap,omitempty"`
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
// record that differs. Audit writes nothing and can run beside a live worker; it ends
// when it has reached the end of the ledger.
//
// If from is the path of a checkpoint, the audit begins after it: the checkpoint's hash is
// compared with the ledger's, and records that were published before are skipped. A dead
// letter does not name its window, so the audit searches for the first one to compare.
//
// If a model was promoted, the audit needs only one of the two models. In windows that the
// other model served, it compares the chain of its own model in the shadow. Of what was
// published in them, and in epochs of other terms, it checks what needs no engine; see
// [AuditedEpoch].
//
// Windows before a gap that was accepted cannot be replayed, and those behind it only from a
// checkpoint that is behind it too. Of the others the audit checks what needs neither an engine
// nor the inputs; see [Audited].Counted.
//
// Of cfg it uses the names, the models, the settings, Effective, the limits, Fresh and Checkpoints.Restore. progress, when not nil, is called after every window.
func Run(ctx context.Context, c *kafka.Client, e replay.Engine, cfg replay.Config, from string, progress func(windows int64)) (Result, error) {
	began := time.Now()
	gap, err := replay.LastGap(ctx, c, cfg.Terms.LedgerAt())
	if err != nil {
		return Result{}, err
	}
	var found Result
	if gap == nil || from != "" {
		if found, err = replayAudit(ctx, c, e, cfg, from, progress); err != nil {
			return found, err
		}
	}
	if gap != nil {
		found.Behind = gap.Window
		err = found.countBefore(ctx, c, cfg, from != "", progress)
	}
	found.Took = time.Since(began)
	return found, err
}

// replayAudit audits the windows behind a checkpoint, or all.
func replayAudit(ctx context.Context, c *kafka.Client, e replay.Engine, cfg replay.Config, from string, progress func(windows int64)) (Result, error) {
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	a := newAuditor(replay.New(c, cfg, e))
	if err := a.open(ctx, fetching, from); err != nil {
		return a.audited, err
	}
	if err := a.each(ctx, math.MaxInt64, a.window, progress); err != nil {
		return a.audited, err
	}
	if a.newest != nil && !a.proved && a.Replay.Settings.Own {
		return a.audited, fmt.Errorf("ledger %s belongs to model %s, and this is model %s: give the file of a model that served", cfg.Terms.Names.Ledger, a.newest.Model, cfg.Terms.Model)
	}
	return a.audited, a.checkNothingElse(ctx)
}

// each calls visit with the ledger's next windows before end.
func (a *Auditor) each(ctx context.Context, end int64, visit func(context.Context, *ledger.Record) error, progress func(windows int64)) error {
	for {
		r, err := a.Replay.Ledger.Next(ctx)
		if r == nil || err != nil || r.Window >= end {
			return err
		}
		if err := visit(ctx, r); err != nil {
			return err
		}
		if progress != nil {
			progress(a.audited.Windows)
		}
	}
}

// Auditor is a replayer that compares every window with the published records.
type Auditor struct {
	Cfg        replay.Config
	Client     *kafka.Client
	Replay     *replay.Replayer
	published  *kafka.Reader
	Partitions map[string]int                          // of the output topics
	Waiting    map[kafka.TopicPartition][]kafka.Record // fetched and not compared
	audited    Result
	found      map[kafka.TopicPartition]bool // after a checkpoint, or where letters are not counted: the partition's first record to compare was found
	lost       bool                          // dead letters of some windows were not counted
	refused    map[place]bool                // the records that the window's dead letters are about
	newest     *ledger.Record                // the last one replayed
	proved     bool                          // a ledger record had a chain of one of our models
	census     arrivals

	key, value []byte // reused
}

func newAuditor(p *replay.Replayer) *Auditor {
	return &Auditor{Cfg: p.Cfg, Client: p.Client, Replay: p, found: make(map[kafka.TopicPartition]bool), refused: make(map[place]bool)}
}

func (a *Auditor) open(ctx, fetching context.Context, from string) (err error) {
	var inputs intake.Position
	if from == "" {
		if a.Replay.Ledger, err = ledger.Open(ctx, a.Client, a.Cfg.Terms.LedgerAt()); err != nil {
			return err
		}
	} else {
		if inputs, err = a.Replay.Load(ctx, from); err != nil {
			return fmt.Errorf("checkpoint %s: %w", from, err)
		}
		a.audited.First, a.audited.Windows, a.audited.Chain = a.Replay.Next, a.Replay.Next, a.Replay.Last.Chain
	}
	if a.Replay.Next == 0 {
		a.census.nodes = make(map[event.ID]bool)
	}
	if err := a.OpenOutputs(ctx); err != nil {
		return err
	}
	return a.Replay.OpenInputs(fetching, inputs)
}

// OpenOutputs begins to read what was published.
func (a *Auditor) OpenOutputs(ctx context.Context) (err error) {
	outputs := []string{a.Cfg.Terms.Names.Predictions, a.Cfg.Terms.Names.DeadLetters}
	if a.Partitions, err = a.Client.Partitions(ctx, outputs...); err != nil {
		return err
	}
	start := make(map[kafka.TopicPartition]int64)
	for _, topic := range outputs {
		for p := range a.Partitions[topic] {
			start[kafka.TopicPartition{Topic: topic, Partition: int32(p)}] = 0
		}
	}
	a.published = a.Client.NewReader(start, kafka.ReaderConfig{})
	a.Waiting = make(map[kafka.TopicPartition][]kafka.Record)
	return nil
}

// window replays one window, which compares the hashes where it can, and then compares or
// checks the published records.
func (a *Auditor) window(ctx context.Context, r *ledger.Record) error {
	out, err := a.Replay.Step(ctx, r)
	if err != nil {
		return err
	}
	defer a.Replay.Inputs.Release()
	a.newest, a.proved = r, a.proved || a.Replay.Compared
	e := a.epoch(r)
	e.Windows++
	a.audited.Windows, a.audited.Chain = out.Window+1, r.Chain
	proves := a.Replay.Settings.Own && a.Cfg.Terms.Has(r.Model)
	if proves {
		err = a.compareLetters(ctx, out, e)
	} else {
		err = a.checkLetters(ctx, r)
	}
	arrivals := a.census.take(&a.Replay.Window, a.refused, r.Forgot != nil)
	switch {
	case err != nil:
		return err
	case proves:
		e.Proved++
		return a.comparePredictions(ctx, out, e)
	}
	a.audited.Elsewhere++
	return a.checkPredictions(ctx, r, arrivals, e)
}

// epoch returns the result of the epoch of a record.
func (a *Auditor) epoch(r *ledger.Record) *Epoch {
	list := &a.audited.Epochs
	if n := len(*list); n == 0 || (*list)[n-1].Number != r.Epoch {
		e := Epoch{Number: r.Epoch, First: r.Window, Model: r.Model}
		if r.Begins != nil {
			e.Program, e.Why, e.Gap = r.Begins.Program, r.Begins.Why, r.Begins.Gap
		}
		*list = append(*list, e)
	}
	return &(*list)[len(*list)-1]
}

// comparePredictions compares the published predictions of a window with those of the
// replay.
func (a *Auditor) comparePredictions(ctx context.Context, out *event.Outcome, e *Epoch) error {
	for _, list := range [...][]event.Prediction{out.Predictions, out.Revisions} {
		for i := range list {
			p := &list[i]
			a.key = wire.AppendKey(a.key[:0], p.Node)
			if err := a.compare(ctx, out.Window, a.Cfg.Terms.Names.Predictions, a.key, func(published []byte) []byte {
				a.value = wire.EncodingOf(published).AppendPrediction(a.value[:0], p)
				return a.value
			}); err != nil {
				return err
			}
			e.Predictions++
			a.audited.Predictions++
		}
	}
	return nil
}

// compareLetters does the same for the dead letters. Their detail is a sentence for
// people, which later programs of the same engine may word otherwise.
func (a *Auditor) compareLetters(ctx context.Context, out *event.Outcome, e *Epoch) error {
	clear(a.refused)
	for i := range out.Refused {
		d := &out.Refused[i]
		if err := a.compare(ctx, out.Window, a.Cfg.Terms.Names.DeadLetters, wire.LetterKey(d), LetterAsPublished(d)); err != nil {
			return err
		}
		a.refused[placeOf(d.Origin)] = true
		e.DeadLetters++
		a.audited.DeadLetters++
	}
	return nil
}

// LetterAsPublished returns a function for a dead letter with the detail of the published one.
func LetterAsPublished(d *event.Refusal) Replayed {
	return func(published []byte) []byte {
		var p event.Refusal
		_ = wire.DecodeDeadLetter(published, &p) // if it is none, it differs
		return wire.EncodingOf(published).AppendDeadLetter(nil, &event.Refusal{Origin: d.Origin, Reason: d.Reason, Detail: p.Detail})
	}
}

// Replayed returns the value that a published record should have: of its own encoding, and
// with its own words where people read them.
type Replayed func(published []byte) []byte

// compare compares the next committed record of the key's partition with the replayed
// one.
func (a *Auditor) compare(ctx context.Context, window int64, topic string, key []byte, value Replayed) error {
	at := kafka.TopicPartition{Topic: topic}
	if n := a.Partitions[topic]; n > 1 {
		at.Partition = kafka.PartitionFor(key, n)
	}
	for a.skip(at, key, value); len(a.Waiting[at]) == 0; a.skip(at, key, value) {
		more, err := a.Fetch(ctx, at)
		if err != nil {
			return err
		}
		if !more {
			return fmt.Errorf("window %d of the ledger has a record for key %.80q that is not in %s partition %d", window, key, topic, at.Partition)
		}
	}
	r := &a.Waiting[at][0]
	a.Waiting[at] = a.Waiting[at][1:]
	if want := value(r.Value); !bytes.Equal(r.Key, key) || !bytes.Equal(r.Value, want) {
		return fmt.Errorf("%s partition %d offset %d, key %.80q: not what window %d says, which is of key %.80q and %s", topic, at.Partition, r.Offset, r.Key, window, key, Difference(r.Value, want))
	}
	return nil
}

// skip drops records that are not compared: predictions of windows before the audit's
// checkpoint, and dead letters before the given one.
func (a *Auditor) skip(at kafka.TopicPartition, key []byte, value Replayed) {
	list := a.Waiting[at]
	var p event.Prediction
	for (a.audited.First > 0 || a.lost) && !a.found[at] && len(list) > 0 {
		switch r := &list[0]; {
		case at.Topic == a.Cfg.Terms.Names.DeadLetters:
			a.found[at] = bytes.Equal(r.Key, key) && bytes.Equal(r.Value, value(r.Value))
		default:
			// A record that cannot be decoded is kept, to be reported as a difference.
			a.found[at] = wire.DecodePrediction(r.Value, &p) != nil || p.Window >= a.audited.First
		}
		if !a.found[at] {
			list = list[1:]
		}
	}
	a.Waiting[at] = list
}

// Difference describes where two values begin to differ.
func Difference(published, replayed []byte) string {
	for i := range min(len(published), len(replayed)) {
		if published[i] != replayed[i] {
			return fmt.Sprintf("differs from byte %d on", i)
		}
	}
	return fmt.Sprintf("has %d bytes instead of %d", len(replayed), len(published))
}

// Fetch reads more records of a partition, and of others of which none wait. It returns
// false at the end of the partition.
func (a *Auditor) Fetch(ctx context.Context, at kafka.TopicPartition) (more bool, err error) {
	bounds, err := a.Client.Offsets(ctx, at.Topic)
	if err != nil {
		return false, err
	}
	if b := bounds[at]; b.First > 0 && a.published.Position(at) < b.First {
		return false, fmt.Errorf("%s partition %d begins at offset %d: earlier records are gone and cannot be audited; begin the audit at a checkpoint", at.Topic, at.Partition, b.First)
	}
	if a.published.Position(at) >= bounds[at].End {
		return false, nil
	}
	for other, list := range a.Waiting {
		a.published.Pause(other, len(list) > 0 && other != at)
	}
	records, err := a.published.Poll(ctx)
	for _, r := range records {
		if r.Topic == a.Cfg.Terms.Names.DeadLetters && isNote(&r) {
			continue
		}
		p := kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}
		a.Waiting[p] = append(a.Waiting[p], r)
	}
	return true, err
}

// isNote reports whether a record among the dead letters is no worker's, but an
// operator's note about one.
func isNote(r *kafka.Record) bool {
	var d event.Refusal
	return wire.DecodeDeadLetter(r.Value, &d) == nil && d.Reason == wire.Resent
}

// checkNothingElse returns an error if the topic has a prediction of the replayed windows
// that was not compared. It may have predictions of later windows, by a live worker.
func (a *Auditor) checkNothingElse(ctx context.Context) error {
	topic := a.Cfg.Terms.Names.Predictions
	for p := range a.Partitions[topic] {
		at := kafka.TopicPartition{Topic: topic, Partition: int32(p)}
		a.skip(at, nil, nil)
		for more := true; more && len(a.Waiting[at]) == 0; a.skip(at, nil, nil) {
			var err error
			if more, err = a.Fetch(ctx, at); err != nil {
				return err
			}
		}
		for _, r := range a.Waiting[at] {
			var prediction event.Prediction
			if err := wire.DecodePrediction(r.Value, &prediction); err != nil || prediction.Window < a.audited.Windows {
				return fmt.Errorf("%s partition %d offset %d, key %.80q: published, but not of any window in the ledger", topic, p, r.Offset, r.Key)
			}
		}
	}
	return nil
}
