package worker_test

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/worker"
)

// TestWindows: the windows that are read from the ledger make the state of a worker that
// starts now; nodes that were forgotten are in none of them. They end before a given one,
// and with the reader's error.
func TestWindows(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 40)
		f.runUntilConsumed(&recorder{}, worker.Config{Fresh: freshRecorder})
		f.forget(3, 17)
		f.send(40, 50)
		f.runUntilConsumed(&recorder{}, worker.Config{Fresh: freshRecorder})
		last := f.lastRecord()

		read := &recorder{}
		cfg := f.config(worker.Config{})
		if err := worker.Windows(t.Context(), f.client, cfg, 1<<40, func(w *event.Window) error { read.Step(w); return nil }); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(read.chain[:]); got != last.Chain || int64(len(read.windows)) != last.Window+1 {
			t.Errorf("%d windows give chain %s, the ledger has %d and %s", len(read.windows), got, last.Window+1, last.Chain)
		}
		for _, id := range []int64{3, 17} {
			if read.seen[event.ID{Num: id}] {
				t.Errorf("the forgotten node %d was read", id)
			}
		}
		enough, n := errors.New("enough"), 0
		err := worker.Windows(t.Context(), f.client, cfg, 2, func(*event.Window) error { n++; return nil })
		if err != nil || n != 2 {
			t.Errorf("before window 2: %d windows and error %v, want 2 and none", n, err)
		}
		if err := worker.Windows(t.Context(), f.client, cfg, 2, func(*event.Window) error { return enough }); !errors.Is(err, enough) {
			t.Errorf("error %v, want the reader's", err)
		}
	})
}
