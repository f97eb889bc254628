package replay_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// TestWindows: the windows that are read from the ledger make the state of a worker that
// starts now; nodes that were forgotten are in none of them. They end before a given one,
// and with the reader's error.
func TestWindows(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 40)
		f.RunUntilConsumed(&recorder{}, worker.Config{Models: replay.Models{Fresh: workertest.FreshRecorder}})
		f.Forget(3, 17)
		f.Send(40, 50)
		f.RunUntilConsumed(&recorder{}, worker.Config{Models: replay.Models{Fresh: workertest.FreshRecorder}})
		last := f.LastRecord()

		read := &recorder{}
		all := f.Config(worker.Config{})
		cfg := all.Replay()
		if err := replay.Windows(t.Context(), f.Client, cfg, 1<<40, func(w *event.Window) error { read.Step(w); return nil }); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(read.Chain[:]); got != last.Chain || int64(len(read.Windows)) != last.Window+1 {
			t.Errorf("%d windows give chain %s, the ledger has %d and %s", len(read.Windows), got, last.Window+1, last.Chain)
		}
		for _, id := range []int64{3, 17} {
			if read.Seen[event.ID{Num: id}] {
				t.Errorf("the forgotten node %d was read", id)
			}
		}
		enough, n := errors.New("enough"), 0
		err := replay.Windows(t.Context(), f.Client, cfg, 2, func(*event.Window) error { n++; return nil })
		if err != nil || n != 2 {
			t.Errorf("before window 2: %d windows and error %v, want 2 and none", n, err)
		}
		if err := replay.Windows(t.Context(), f.Client, cfg, 2, func(*event.Window) error { return enough }); !errors.Is(err, enough) {
			t.Errorf("error %v, want the reader's", err)
		}
	})
}

// TestWindowsOfOtherClasses: labels by index have the names that the indices had in their
// epoch, in whatever order the classes of the reader are.
func TestWindowsOfOtherClasses(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		label := func(node int64, l event.Label) {
			l.Node = event.ID{Num: node}
			f.Produce(kafka.Record{Topic: f.Names.Labels, Value: wire.AppendLabel(nil, &l)})
		}
		label(0, event.Label{Index: 0})
		label(1, event.Label{Index: 1})
		label(2, event.Label{Index: 2})
		label(3, event.Label{Class: "c"})
		if err := f.Run(&tally{}, worker.Config{Terms: replay.Terms{Classes: []string{"a", "b"}}}); err != nil {
			t.Fatal(err)
		}
		wide := worker.Config{Terms: replay.Terms{Model: "wide", Classes: []string{"c", "b", "a"}}}
		if _, err := worker.Rebase(t.Context(), f.Client, &tally{}, f.Config(wide), ""); err != nil {
			t.Fatal(err)
		}
		label(4, event.Label{Index: 0})
		label(5, event.Label{Index: 2})
		if err := f.Run(&tally{}, wide); err != nil {
			t.Fatal(err)
		}
		const want = "0a 1b 2#-2147483648 3c 4c 5a"
		for _, classes := range [][]string{nil, {"a", "b"}, {"c", "b", "a"}} {
			var labels []string
			read := recordLabels{tally{}, &labels}
			cfg := f.Config(worker.Config{Terms: replay.Terms{Classes: classes}})
			if err := replay.Windows(t.Context(), f.Client, cfg.Replay(), 1<<40, func(w *event.Window) error { read.Step(w); return nil }); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(labels, " "); got != want {
				t.Errorf("read with classes %q: labels %q, want %q", classes, got, want)
			}
		}
	})
}
