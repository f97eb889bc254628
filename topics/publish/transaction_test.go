package publish_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
)

// publishing commits the outcomes of windows, in as many transactions as the interval makes of them, and returns how many these are.
func publishing(f *fixture, cfg publish.Config, outcomes ...*event.Outcome) (transactions int) {
	f.T.Helper()
	cfg.SetDefaults()
	producer, err := f.Client.NewProducer(f.T.Context(), kafka.ProducerConfig{
		TransactionalID: f.Names.Ledger, Topics: []string{f.Names.Predictions, f.Names.ToLabel, f.Names.DeadLetters, f.Names.Ledger},
	})
	if err != nil {
		f.T.Fatal(err)
	}
	l, err := ledger.Open(f.T.Context(), f.Client, f.Names.LedgerAt())
	if err != nil {
		f.T.Fatal(err)
	}
	partitions, err := f.Client.Partitions(f.T.Context(), f.Names.Predictions, f.Names.DeadLetters)
	if err != nil {
		f.T.Fatal(err)
	}
	p := publish.New(&cfg, producer, publish.Sources{
		Client: f.Client, Terms: &replay.Terms{Names: f.Names}, Logger: slog.Default(), Owns: new(atomic.Bool), Partitions: partitions, Ledger: l,
	})
	stop := p.Start(f.T.Context())
	defer stop()
	for _, out := range outcomes {
		record := &ledger.Record{
			Version: ledger.Version, Window: out.Window, Model: "m", Chain: fmt.Sprint(out.Window), Ranges: []ledger.Range{},
			Terms: ledger.Terms{Settings: settings.Hash(), Configuration: settings},
		}
		offsets := func(to map[kafka.TopicPartition]int64) {
			to[kafka.TopicPartition{Topic: f.Names.Nodes}] = 10 * (out.Window + 1)
		}
		if full, err := p.Add(out, record, time.Now(), offsets); full != nil || err != nil {
			f.T.Fatal(full, err)
		}
	}
	close(p.In)
	last := int64(-1)
	for c := range p.Committed {
		transactions++
		last = c.Happened.Last
	}
	if p.Err() != nil || last != outcomes[len(outcomes)-1].Window {
		f.T.Fatalf("committed up to window %d with error %v, want all of them", last, p.Err())
	}
	f.Fence()
	return transactions
}

// describe says what a published record is.
func describe(f *fixture, r *kafka.Record) string {
	f.T.Helper()
	var headers []string
	for _, h := range r.Headers {
		if h.Key != wire.ContentType {
			headers = append(headers, " "+h.Key)
		}
	}
	of := strings.Join(headers, "")
	if r.Topic == f.Names.DeadLetters {
		var d event.Refusal
		if err := wire.DecodeDeadLetter(r.Value, &d); err != nil && !errors.Is(err, wire.ErrTruncated) {
			f.T.Fatal(err)
		}
		return fmt.Sprintf("%s of offset %d%s", d.Reason, d.Origin.Offset, of)
	}
	var p event.Prediction
	if err := wire.DecodePrediction(r.Value, &p); err != nil {
		f.T.Fatal(err)
	}
	if string(r.Key) != p.Node.String() {
		f.T.Errorf("the prediction of node %v has the key %q", p.Node, r.Key)
	}
	return fmt.Sprintf("%v.%d in %d%s", p.Node, p.Revision, p.Window, of)
}

// TestOneTransaction: what comes of windows is published in their order: the predictions of each, those of arrivals first, and
// its dead letters, each once; those of nodes to be labelled stand in their topic too. The headers that are
// to be copied come along, as far as they are short. The group has read as far as the last window.
func TestOneTransaction(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		header := func(values ...string) (all []event.Header) {
			for _, v := range values {
				all = append(all, event.Header{Key: v, Value: []byte(v)})
			}
			return all
		}
		prediction := func(node, window int64, revision int32, asked float32, o *event.Origin) event.Prediction {
			return event.Prediction{
				Node: event.ID{Num: node}, Window: window, Revision: revision, Asked: asked, Origin: o,
				Class: "a", Confidence: 0.75, Probabilities: []float32{0.75, 0.25},
			}
		}
		refusal := func(offset int64, reason event.Reason, headers ...event.Header) event.Refusal {
			return event.Refusal{Reason: reason, Detail: "why", Origin: &event.Origin{Topic: f.Names.Nodes, Offset: offset, Headers: headers}}
		}
		long := event.Header{Key: "trace", Value: make([]byte, 9<<10)}
		first := &event.Outcome{
			Window:      0,
			Predictions: []event.Prediction{prediction(5, 0, 0, 0, &event.Origin{Headers: header("other", "trace")}), prediction(3, 0, 0, 0.5, nil)},
			Refused:     []event.Refusal{refusal(7, event.BadID, header("trace")...), refusal(2, event.Empty, long), refusal(9, event.BadID)},
		}
		second := &event.Outcome{
			Window:      1,
			Predictions: []event.Prediction{prediction(9, 1, 0, 0, nil)},
			Revisions:   []event.Prediction{prediction(5, 1, 1, 0, nil), prediction(3, 1, 1, 0.25, nil)},
			Refused:     []event.Refusal{refusal(11, event.NonFinite)},
		}
		if n := publishing(f, publish.Config{CommitInterval: time.Minute, CopyHeaders: []string{"trace"}}, first, second); n != 1 {
			t.Errorf("%d transactions within the commit interval, want 1", n)
		}
		want := map[string][]string{
			f.Names.Predictions: {"5.0 in 0 trace", "3.0 in 0", "9.0 in 1", "5.1 in 1", "3.1 in 1"},
			f.Names.ToLabel:     {"3.0 in 0", "3.1 in 1"},
			f.Names.DeadLetters: {"bad-id of offset 7 trace", "empty of offset 2", "bad-id of offset 9", "non-finite of offset 11"},
		}
		for topic, want := range want {
			counts, err := f.Client.Partitions(t.Context(), topic)
			if err != nil {
				t.Fatal(err)
			}
			got, wanted := make([][]string, counts[topic]), make([][]string, counts[topic])
			for _, r := range f.Read(topic) {
				got[r.Partition] = append(got[r.Partition], describe(f, &r))
				if r.Time.IsZero() || r.Time.UnixMilli() == 0 {
					t.Errorf("%s offset %d has no time", topic, r.Offset)
				}
			}
			for _, text := range want { // a key decides the partition
				at := 0
				if topic == f.Names.Predictions {
					key, _, _ := strings.Cut(text, ".")
					at = int(kafka.PartitionFor([]byte(key), counts[topic]))
				}
				wanted[at] = append(wanted[at], text)
			}
			for p := range got {
				if !slices.Equal(got[p], wanted[p]) {
					t.Errorf("%s partition %d has %q, want %q", topic, p, got[p], wanted[p])
				}
			}
		}
		var chains []string
		for _, r := range f.Records() {
			chains = append(chains, r.Chain)
		}
		if !slices.Equal(chains, []string{"0", "1"}) {
			t.Errorf("the ledger has the windows %q, want both in order", chains)
		}
		nodes := kafka.TopicPartition{Topic: f.Names.Nodes}
		if got, err := f.Client.Committed(t.Context(), f.Names.Ledger, f.Names.Nodes); err != nil || got[nodes] != 20 {
			t.Errorf("the group has read up to %v with error %v, want offset 20", got, err)
		}
	})
}
