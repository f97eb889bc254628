package replay_test

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// TestForgedCheckpoint: whole checkpoints that say what is not so. Their hash must be the ledger's. Another state behind the right hash
// is shown by the first window that is replayed behind it, before anything is published; with none behind it, it is believed, and
// an audit from the beginning shows it. What it has consumed must have the ledger's hash, too.
func TestForgedCheckpoint(t *testing.T) {
	const state, chain, consumed = `^{"Chain":"`, `\\"chain\\":\\"`, `\\"to\\":`
	for _, test := range []struct {
		what, forged string
		behind       bool   // windows are replayed behind it
		refused      string // the worker's error
		audit        string // the error of an audit of what the worker served
	}{
		{what: "the chain", forged: chain},
		{what: "the chain, windows behind it", forged: chain, behind: true},
		{what: "the state", forged: state, audit: "replay gives"},
		{what: "the state, windows behind it", forged: state, behind: true, refused: "replay gives"},
		{what: "what it has consumed", forged: consumed},
		{what: "what it has consumed, windows behind it", forged: consumed, behind: true},
	} {
		t.Run(test.what, func(t *testing.T) {
			workertest.OnFake(t, func(t *testing.T, f *fixture) {
				kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: t.TempDir(), Every: time.Hour, Restore: workertest.ReadTally}}
				f.Send(0, 50)
				if err := f.Run(&tally{}, kept); err != nil {
					t.Fatal(err)
				}
				sound := kept
				sound.Checkpoints.Dir = f.Copied(kept.Checkpoints.Dir)
				forge(t, f.NewestCheckpoint(kept.Checkpoints.Dir).Path, test.forged)
				if test.behind {
					f.Send(50, 70)
					if err := f.Run(&tally{}, sound); err != nil {
						t.Fatal(err)
					}
				}
				if test.refused != "" {
					f.Refused(test.refused, &tally{}, kept)
					f.CheckOutputs(70, 2)
					return
				}
				f.Send(70, 90)
				if err := f.Run(&tally{}, kept); err != nil {
					t.Fatal(err)
				}
				_, err := f.Audit(&tally{}, worker.Config{})
				if test.audit != "" {
					workertest.CheckLine(t, "the audit", err, test.audit)
				} else if err != nil {
					t.Errorf("a state before the forged one should have been taken: %v", err)
				}
			})
		})
	}
}

// forge changes the digit behind the first match in a file.
func forge(t *testing.T, path, pattern string) {
	t.Helper()
	b, err := os.ReadFile(path)
	at := regexp.MustCompile(pattern).FindIndex(b)
	if err != nil || at == nil {
		t.Fatalf("%s is not in the checkpoint: %v", pattern, err)
	}
	digit := &b[at[1]]
	if *digit = map[bool]byte{true: '2', false: '1'}[*digit == '1']; os.WriteFile(path, b, 0o600) != nil {
		t.Fatalf("%s cannot be written", path)
	}
}
