package replay_test

import (
	"context"
	"testing"
	"time"

	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// TestSavable: a state may be saved behind each window that gives the ledger's hash, and behind each that an owner steps, but not
// while records are claimed that the engine has not stepped: one who began there would lose them. A state of other
// terms has another hash than the ledger's, until an epoch begins with it, also where it had the ledger's before. Nor may one of a replay
// that accepts a gap: what is gone may be of its future.
func TestSavable(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 30)
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.Fence()
		records := f.Records()
		open := func(e *tally, terms replay.Terms) *replay.Replayer {
			cfg := f.Config(worker.Config{Terms: terms})
			p := replay.New(f.Client, cfg.Replay(), e)
			if err := p.OpenFirst(t.Context(), t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			return p
		}
		check := func(p *replay.Replayer, what string, next int64, savable bool) {
			t.Helper()
			if p.Next() != next || p.Savable() != savable {
				t.Errorf("%s: the next window is %d, and the state may be saved: %v, want %d and %v", what, p.Next(), p.Savable(), next, savable)
			}
		}
		step := func(p *replay.Replayer, upTo int, savable bool) {
			t.Helper()
			for _, r := range records[p.Next():upTo] {
				if _, err := p.Step(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				p.Inputs.Release()
				check(p, "a window was replayed", r.Window+1, savable)
			}
		}

		last := len(records) - 1
		p := open(&tally{}, replay.Terms{})
		check(p, "at the beginning", 0, false)
		step(p, last, true)
		waits := *records[last] // for labels that never come
		waits.Ranges = append(waits.Ranges[:0:0], waits.Ranges...)
		waits.Ranges[len(waits.Ranges)-1].To += 100
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := p.Step(ctx, &waits); err == nil {
			t.Fatal("a window was stepped whose records are not there")
		}
		check(p, "records of a window are claimed, and others awaited", int64(last), false)

		owner := open(&tally{}, replay.Terms{})
		step(owner, len(records), true)
		owner.Claim(intake.Cut{Cause: "count"}, nil)
		check(owner, "an owner has claimed a window", int64(last)+1, false)
		if _, err := owner.Serve(); err != nil {
			t.Fatal(err)
		}
		check(owner, "and stepped it", int64(last)+2, true)

		other := open(&tally{Salt: "b"}, replay.Terms{Settings: otherSettings})
		step(other, len(records), false)
		other.Claim(intake.Cut{Cause: "rebase"}, nil)
		if _, err := other.Serve(); err != nil {
			t.Fatal(err)
		}
		check(other, "an epoch of other terms began", int64(last)+2, true)

		cfg := f.Config(worker.Config{})
		accepts := replay.New(f.Client, cfg.Replay(), &tally{})
		accepts.Gap().Accept()
		if err := accepts.OpenFirst(t.Context(), t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		step(accepts, len(records), false)

		if _, err := f.Rebase(worker.Config{}, ""); err != nil {
			t.Fatal(err)
		}
		f.Fence()
		records = f.Records()
		former := open(&tally{}, replay.Terms{})
		step(former, last+1, true)
		step(former, len(records), false)
	})
}
