package main

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// TestShardsArePrinted: who owns what, who lags and who is waited for.
func TestShardsArePrinted(t *testing.T) {
	a, b := &look.Member{HTTP: "http://a:8473"}, &look.Member{Host: "b"}
	tasks := func(windows ...int64) (list []shards.Task) {
		for i, n := range windows {
			list = append(list, shards.Task{Task: i, Owner: a, Windows: n})
		}
		return list
	}
	s := shards.Status{Cuts: 12, Tasks: tasks(0, 11, 10)}
	s.Tasks[2].Owner, s.Tasks[2].Standbys = b, []look.Member{*a}
	s.Compare()
	var out strings.Builder
	s.Owners(&out)
	want := "lead\t  http://a:8473\nshard 1\t  http://a:8473  11 windows, lag 1\nshard 2\tb  10 windows, lag 2  standby http://a:8473  waited for\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}

	for name, c := range map[string]struct {
		change func(*shards.Status)
		want   string
	}{
		"all is well":       {func(*shards.Status) {}, ""},
		"a full window lag": {func(s *shards.Status) { s.Tasks[1].Windows = 4 }, ""},
		"one lags":          {func(s *shards.Status) { s.Tasks[1].Windows = 3 }, "GvbllLagGrowing: shard 1 is 9 windows behind the cuts"},
		"one has no owner":  {func(s *shards.Status) { s.Tasks[1].Owner = nil }, "GvbllShardWithoutOwner: nobody owns shard 1, and every window waits for it: start a worker"},
		"none has an owner": {func(s *shards.Status) { s.Tasks[0].Owner, s.Tasks[1].Owner, s.Tasks[2].Owner = nil, nil, nil }, "GvbllNoOwner: no worker runs: start 'gvbll work'"},
	} {
		s := shards.Status{Cuts: 12, Tasks: tasks(0, 12, 12)}
		c.change(&s)
		s.Compare()
		var got []string
		for _, f := range s.Findings() {
			got = append(got, fmt.Sprintf("%s: %s", f.Alert, f.What))
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestStatusBeside: in JSON the tasks are one field beside those of the graph's status.
func TestStatusBeside(t *testing.T) {
	graph := &look.Status{Prefix: "gvbll", Owner: &look.Member{Host: "a", Owner: true}, Tasks: &shards.Status{Cuts: 3}}
	var out bytes.Buffer
	must(t, graph.PrintJSON(&out))
	var got struct {
		Prefix  string
		Windows *int64
		Shards  *shards.Status
	}
	must(t, json.Unmarshal(out.Bytes(), &got))
	if got.Prefix != "gvbll" || got.Windows == nil || got.Shards == nil || got.Shards.Cuts != 3 {
		t.Errorf("the status is %s", out.String())
	}
	if bytes.Contains(out.Bytes(), []byte(`"Owner"`)) {
		t.Errorf("a field that is no part of the format: %s", out.String())
	}
}
