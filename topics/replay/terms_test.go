package replay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// TestOtherClasses: an epoch of a model with more classes, in another order, learns the
// labels of old windows by the names that their indices had when they came.
func TestOtherClasses(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		for i, l := range []event.Label{{Index: 0}, {Index: 1}, {Index: 2}, {Class: "c"}} {
			l.Node = event.ID{Num: int64(i)}
			f.Produce(kafka.Record{Topic: f.Names.Labels, Value: wire.AppendLabel(nil, &l)})
		}
		if err := f.Run(&tally{}, worker.Config{Terms: replay.Terms{Classes: []string{"a", "b"}}}); err != nil {
			t.Fatal(err)
		}
		var learned []string
		note := recordLabels{tally{}, &learned}
		done, err := worker.Rebase(t.Context(), f.Client, &note, f.Config(worker.Config{Terms: replay.Terms{Model: "wide", Classes: []string{"c", "b", "a"}}}), "")
		if err != nil || !done.Began || done.Why != "model tally to wide" {
			t.Fatalf("rebased as %+v with error %v, want an epoch of the other model", done, err)
		}
		if got := strings.Join(learned, " "); got != "0a 1b 2#-2147483648 3c" {
			t.Errorf("the labels of old windows are %q, want them by name, and an index that was of no class as one of no class", got)
		}
		records := f.Records()
		if got := records[len(records)-1]; got.Model != "wide" || strings.Join(got.Classes, "") != "cba" {
			t.Errorf("the epoch begins with model %s and classes %v, want the new ones", got.Model, got.Classes)
		}
	})
}

// recordLabels notes the labels that it steps.
type recordLabels struct {
	tally
	learned *[]string
}

func (e *recordLabels) Step(w *event.Window) *event.Outcome {
	for _, l := range w.Labels {
		text := l.Node.String() + l.Class
		if l.Class == "" {
			text = fmt.Sprintf("%v#%d", l.Node, l.Index)
		}
		*e.learned = append(*e.learned, text)
	}
	return e.tally.Step(w)
}

// TestForeignLedger: a worker with another model, other settings or an engine that
// computes other results stops at a ledger with an error of one line that names the
// difference, instead of continuing it.
func TestForeignLedger(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 10)
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			cfg  worker.Config
			e    *tally
			want string
		}{
			{"model", worker.Config{Terms: replay.Terms{Names: f.Names, Model: "other", Settings: settings}}, &tally{}, "belongs to model tally"},
			{"settings", worker.Config{Terms: replay.Terms{Names: f.Names, Model: "tally", Settings: `{"tally":"other","walk":1}`}}, &tally{}, "with other settings: tally is none there and other here, walk is not set there and 1 here; start with the ledger's settings"},
			{"program", worker.Config{Terms: replay.Terms{Names: f.Names, Model: "tally", Settings: settings}}, &tally{Salt: "x"}, "window 0: replay gives"},
		} {
			c.cfg.Policy = intake.CountOrLinger{Count: 1}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it would serve for ever
			err := worker.Run(ctx, f.Client, c.e, c.cfg)
			cancel()
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("another %s: error %v, want one line with %q", c.name, err, c.want)
			}
		}
	})
}

// TestLedgerHoldsSettings: the ledger's first record has the settings and every record
// has their hash. A worker that starts from a checkpoint still compares its settings with
// those of the ledger.
func TestLedgerHoldsSettings(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 20)
		kept := replay.Checkpoints{Dir: t.TempDir(), Every: time.Hour, Restore: workertest.ReadTally}
		if err := f.Run(&tally{}, worker.Config{Checkpoints: kept}); err != nil {
			t.Fatal(err)
		}
		f.Send(20, 30)
		if err := f.Run(&tally{}, worker.Config{Checkpoints: kept}); err != nil {
			t.Fatal(err)
		}
		records := f.Records()
		if len(records) < 3 {
			t.Fatalf("the ledger has %d records, want at least 3", len(records))
		}
		for i, r := range records {
			if want := map[bool]event.Settings{true: settings}[i == 0]; r.Settings != settings.Hash() || r.Configuration != want {
				t.Errorf("record %d: settings %s and configuration %q, want %s and %q", i, r.Settings, r.Configuration, settings.Hash(), want)
			}
		}
		err := worker.Run(t.Context(), f.Client, &tally{}, worker.Config{
			Terms: replay.Terms{Names: f.Names, Model: "tally", Settings: `{"tally":3}`}, Checkpoints: kept, Session: session, Policy: intake.CountOrLinger{Count: 1},
		})
		if err == nil || !strings.Contains(err.Error(), "tally is none there and 3 here") {
			t.Errorf("other settings after a checkpoint: error %v, want one that names the difference", err)
		}
	})
}

// TestEffectiveSettings: a worker accepts a ledger whose settings differ from its own
// only where Effective says that they have no effect on its models. The records that it
// adds have the hash of the ledger's settings, not of its own.
func TestEffectiveSettings(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 20)
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.Send(20, 30)
		cfg := f.Config(worker.Config{Session: session})
		cfg.Terms.Settings = `{"tally":"none","idle":0}`
		if err := worker.Run(t.Context(), f.Client, &tally{}, cfg); err == nil || !strings.Contains(err.Error(), "idle is not set there and 0 here") {
			t.Errorf("without Effective: error %v, want one that names the difference", err)
		}
		cfg.Terms.Effective = func(s event.Settings) event.Settings { return `{"tally":"none","idle":0}` }
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stepped := 0 // nodes, those of replayed windows included
		cfg.Events = replay.Join(
			replay.On(func(s replay.Stepped) { stepped += len(s.Outcome.Predictions) }),
			replay.On(func(replay.Committed) {
				if stepped >= 30 {
					cancel()
				}
			}),
		)
		if err := worker.Run(ctx, f.Client, &tally{}, cfg); err != nil {
			t.Fatal(err)
		}
		for i, r := range f.Records() {
			if r.Settings != settings.Hash() || (r.Configuration != "") != (i == 0) {
				t.Errorf("record %d: settings %s and configuration %q, want the hash %s, and the configuration in record 0 only", i, r.Settings, r.Configuration, settings.Hash())
			}
		}
	})
}
