package replay_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// TestForgedCheckpoint: a whole checkpoint whose state is not the ledger's, with the hash that the ledger has beside it. What is
// replayed behind it shows it, and nothing is published. With nothing behind it, it is believed, and an audit shows it.
func TestForgedCheckpoint(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		dir := t.TempDir()
		kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Hour, Keep: 9, Restore: workertest.ReadTally}}
		f.Send(0, 50)
		if err := f.Run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		forged := f.NewestCheckpoint(dir)
		b, err := os.ReadFile(forged.Path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		at := strings.Index(text, `"Chain":"`) + len(`"Chain":"`)
		flipped := "0"
		if text[at] == '0' {
			flipped = "1"
		}
		forge := func(dir string) {
			if err := os.WriteFile(f.NewestCheckpoint(dir).Path, []byte(text[:at]+flipped+text[at+1:]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		alone := f.Copied(dir)
		forge(alone)

		f.Send(50, 70)
		elsewhere := kept
		elsewhere.Checkpoints.Dir = f.Copied(dir)
		if err := f.Run(&tally{}, elsewhere); err != nil {
			t.Fatal(err)
		}
		forge(dir)
		f.Refused("window", &tally{}, kept)
		f.CheckOutputs(70, 2)
		if _, err := auditOf(f, &tally{}, worker.Config{}); err != nil {
			t.Errorf("an audit of what is sound: %v", err)
		}
		_ = forged
	})
}
