package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/cmd/gvbll/shards"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/shards/cuts"
)

// TestShardsFromKafka: 'gvbll ledger' and 'gvbll status' read a sharded graph's ledger as its
// lead and its shards write it, also with a cut that does not count.
func TestShardsFromKafka(t *testing.T) { onKFake(t, testShardsFromKafka) }

func testShardsFromKafka(t *testing.T, sh *shell) {
	client, names := sh.dial(), topicsUnder(t, "g")
	_, err := topics.Create(t.Context(), client, names, topics.Layout{Partitions: 1, Replication: -1, Shards: 2})
	must(t, err)
	sh.setenv("GVBLL_BROKERS", sh.addr)
	sh.setenv("GVBLL_PREFIX", "g")
	chain, err := cuts.OpenCuts(t.Context(), client, names.LedgerAt(0), cuts.Place{})
	must(t, err)
	cutter, err := cuts.NewCutter(t.Context(), chain)
	must(t, err)
	send, err := client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	for window := range int64(5) {
		_, err := cutter.Cut(t.Context(), &cuts.Cut{Cause: "count", Model: "m1", Terms: ledger.Terms{Settings: "hash"}, Ranges: []ledger.Range{{Topic: names.Nodes, From: window, To: window + 1}}})
		must(t, err)
		for shard := range 2 {
			if window > int64(2*shard) { // shard 1 is done with one window, shard 2 with three
				continue
			}
			record := ledger.Record{Version: ledger.Version, Window: window, Model: "m1", Terms: ledger.Terms{Settings: "hash"}, Predictions: 10, Labels: 1 - shard}
			must(t, send.Send(t.Context(), []kafka.Record{{Topic: names.Ledger, Partition: int32(shard + 1), Value: record.Append(nil), Time: time.Now()}}))
		}
	}
	late := cuts.Cut{Version: cuts.CutFormat, Window: 1, Prev: strings.Repeat("0", 64), Model: "m1", Terms: ledger.Terms{Settings: "hash"}}
	must(t, send.Send(t.Context(), []kafka.Record{{Topic: names.Ledger, Value: late.Append(nil)}}))

	if out := sh.gvbll("ledger"); strings.Count(out, names.Nodes+"/0:") != 5 || !strings.HasPrefix(out, "model m1\n") {
		t.Errorf("the cuts are printed as\n%s", out)
	}
	code, out, _ := sh.command("status", "--json")
	var st shardedStatus
	must(t, json.Unmarshal([]byte(out), &st))
	s := *st.Shards
	if s.Cut == nil || time.Since(*s.Cut) > time.Minute {
		t.Errorf("the last cut was written at %v", s.Cut)
	}
	s.Cut = nil
	none := []look.Member{}
	want := shards.Status{Cuts: 5, Complete: 1, Tasks: []shards.Task{
		{Task: 0, Standbys: none, Windows: 5, Awaited: true}, {Task: 1, Standbys: none, Windows: 1, Lag: 4, Awaited: true}, {Task: 2, Standbys: none, Windows: 3, Lag: 2},
	}}
	if diff := cmp.Diff(want, s, cmp.AllowUnexported(look.Member{})); diff != "" {
		t.Errorf("shards, -want +got\n%s", diff)
	}

	if code != exitFailed || st.Wrong[0].Alert != "GvbllNoOwner" || st.Windows != 3 || st.Last.Predictions != 40 || st.Last.Labels != 1 {
		t.Errorf("status: exit code %d\n%s", code, out)
	}
}
