package audit_test

import (
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// TestAuditEpochs: of a ledger of two epochs, an audit with the settings of one proves the
// windows of that epoch, and of the other checks what needs no engine. The two audits
// together prove all.
func TestAuditEpochs(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 50)
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Rebase(worker.Config{}, "a better tally"); err != nil {
			t.Fatal(err)
		}
		f.Send(50, 80)
		if err := f.Run(&tally{Salt: "b"}, worker.Config{Terms: replay.Terms{Settings: otherSettings}}); err != nil {
			t.Fatal(err)
		}
		f.Fence()
		first, err := f.Audit(&tally{}, worker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		second, err := f.Audit(&tally{Salt: "b"}, worker.Config{Terms: replay.Terms{Settings: otherSettings}})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := first.Epochs[0], first.Epochs[1]; a.Proved != a.Windows || a.Predictions != 50 || a.DeadLetters != 1 || b.Proved != 0 || b.Checked != 30 || b.Why != "a better tally" {
			t.Errorf("with the first settings %+v, want epoch 0 proved and epoch 1 checked", first.Epochs)
		}
		if a, b := second.Epochs[0], second.Epochs[1]; a.Proved != 0 || a.Checked != 50 || b.Proved != b.Windows || b.Predictions != 30 || b.DeadLetters != 1 {
			t.Errorf("with the second settings %+v, want epoch 0 checked and epoch 1 proved", second.Epochs)
		}
		first.Merge(second)
		if first.Predictions != 80 || first.DeadLetters != 2 || first.Elsewhere != 0 || first.Chain != second.Chain {
			t.Errorf("both audits together %+v, want 80 predictions, 2 dead letters and no other windows", first)
		}
	})
}

// TestAuditWithoutEngine: an audit that has no engine for a ledger still finds a
// prediction that is missing, doubled, of no arrival or of another model, a dead letter that is
// missing, and records that are in two windows.
func TestAuditWithoutEngine(t *testing.T) {
	key := wire.AppendKey(nil, event.ID{Num: 7})
	forge := func(p event.Prediction) func(f *fixture) {
		return func(f *fixture) {
			f.T.Helper()
			p.Class, p.Probabilities = "a", []float32{1, 0}
			f.Produce(kafka.Record{Topic: f.Names.Predictions, Partition: kafka.PartitionFor(key, 3), Key: key, Value: wire.MsgPack.AppendPrediction(nil, &p)})
		}
	}
	after := func(change func(f *fixture, next *ledger.Record)) func(f *fixture) {
		return func(f *fixture) {
			f.T.Helper()
			r := f.LastRecord()
			r.Window++
			r.Ranges, r.Predictions, r.Labels, r.Refused, r.Revisions = nil, 0, 0, 0, 0
			change(f, r)
			f.Produce(kafka.Record{Topic: f.Names.Ledger, Value: r.Append(nil)})
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(f *fixture)
		want  string
	}{
		{"nothing is wrong", func(*fixture) {}, ""},
		{"a node is predicted again", forge(event.Prediction{Node: event.ID{Num: 7}, Window: 2}), "node \"7\": in window "},
		{"a prediction is of no window", forge(event.Prediction{Node: event.ID{Num: 7}, Window: 1 << 40}), "its newest windows are lost"},
		{"a prediction is missing", after(func(_ *fixture, r *ledger.Record) { r.Predictions = 1 }), "has 0 predictions and 0 revisions, and the ledger says 1"},
		{"a revision is missing", after(func(_ *fixture, r *ledger.Record) { r.Revisions = 2 }), "the ledger says 0 and 2"},
		{"a dead letter is missing", after(func(_ *fixture, r *ledger.Record) { r.Refused = 1 }), "has 0 dead letters, and the ledger says 1"},
		{"records are in two windows", after(func(f *fixture, r *ledger.Record) {
			r.Ranges = []ledger.Range{{Topic: f.Names.Nodes, From: 0, To: 1}}
		}), "twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onFake(t, func(t *testing.T, f *fixture) {
				f.Send(0, 40)
				if err := f.Run(&tally{}, worker.Config{}); err != nil {
					t.Fatal(err)
				}
				c.spoil(f)
				f.Fence()
				_, err := f.Audit(&tally{}, worker.Config{Terms: replay.Terms{Settings: otherSettings}})
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("error %v, want %q", err, c.want)
				}
			})
		})
	}
}
