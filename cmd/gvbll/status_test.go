package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestStatus: a graph from before its topics exist until its workers have ended, as its
// status tells. The scores are those of the predictions and labels in Kafka.
func TestStatus(t *testing.T) {
	testStatus(t, testBroker(t))
}

func testStatus(t *testing.T, addr string) {
	file := filepath.Join(t.TempDir(), "m")
	gvbll(t, "train", "--out", file, "--data", generated(t, "--nodes", "300", "--steps", "3"), "--epochs", "3", "--embedding", "8")
	m, err := model.Open(file)
	must(t, err)
	prefix := fmt.Sprintf("status-%d", time.Now().UnixNano())
	t.Setenv("GVBLL_PREFIX", prefix)
	g := newTestGraph(t, addr, prefix, m.Encoder.In())
	// statusIs reads the status until ok accepts it: an election takes a while.
	statusIs := func(what string, ok func(code int, s *status) bool) (s status) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for {
			code, out, errs := g.command("status", "--json")
			s = status{}
			if err := json.Unmarshal([]byte(out), &s); err != nil {
				t.Fatalf("gvbll status --json: %v: %s%s", err, out, errs)
			}
			if (code == exitOK) != (len(s.Wrong) == 0) {
				t.Errorf("exit code %d, and wrong are %v", code, s.Wrong)
			}
			if ok(code, &s) {
				return s
			}
			if time.Now().After(deadline) {
				t.Fatalf("the status is not %s: %s%s", what, out, errs)
			}
		}
	}

	if code, out, errs := g.command("status"); code != exitFailed || !strings.Contains(out, "wrong: topics are missing: ") || !strings.Contains(errs, "topics are missing") || !strings.Contains(out, "docs/runbook.md#gvbllnoowner") {
		t.Errorf("without topics: exit code %d: %s%s", code, out, errs)
	}
	gvbll(t, "topics", "--create", "--partitions", "2", "--brokers", addr)
	statusIs("without workers", func(code int, s *status) bool {
		return code == exitFailed && len(s.Wrong) == 1 && strings.Contains(s.Wrong[0].What, "no worker runs") && s.Committed == nil && len(s.Lag) == 5
	})

	stop := g.work("--model", file)
	stopStandby := g.work("--model", file)
	g.send(40)
	g.awaitLearned()
	p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	must(t, p.Send(t.Context(), []kafka.Record{{Topic: g.names.Nodes, Value: []byte("{}")}}))
	s := statusIs("that of an owner and a standby", func(code int, s *status) bool {
		return code == exitOK && s.Owner != nil && len(s.Standbys) == 1 && s.Last.Refused["undecodable"] == 1
	})
	for _, worker := range append(s.Standbys, *s.Owner) {
		if worker.Host == "" || worker.Version != versionString() || worker.Model != m.ID || !strings.HasPrefix(worker.HTTP, "http://127.0.0.1:") {
			t.Errorf("a worker is %+v", worker)
		}
	}
	for _, lag := range s.Lag {
		if lag.Events != 0 {
			t.Errorf("%d events wait in %s/%d, want none", lag.Events, lag.Topic, lag.Partition)
		}
	}
	want := g.scores()
	if got := s.Last; s.Model != m.ID || s.Windows == 0 || got.Predictions != 40 || got.Labels != 40 ||
		got.Acc != want.Acc || !near(got.NLL, want.NLL) || !near(got.ECE, want.ECE) || !near(got.Brier, want.Brier) {
		t.Errorf("the status is %+v, want 40 predictions and labels, and %+v", s, want)
	}
	if out := gvbll(t, "status", "--brokers", addr, "--last", "10m"); !strings.Contains(out, "owner    ") || !strings.Contains(out, "standby  ") || !strings.Contains(out, "last 10m") || !strings.Contains(out, "refused: undecodable") {
		t.Errorf("gvbll status prints\n%s", out)
	}
	stopStandby()
	stop()
	statusIs("without workers again", func(code int, s *status) bool {
		return code == exitFailed && s.Owner == nil && len(s.Standbys) == 0 && s.Committed != nil
	})
}

// near reports whether two scores are equal but for the ledger's single precision.
func near(a, b float64) bool { return a-b < 1e-5 && b-a < 1e-5 }

// scores computes the scores of all published predictions by all labels that were sent.
func (g *testGraph) scores() calibration.Means {
	g.t.Helper()
	labels := make(map[event.ID]int32)
	must(g.t, g.client.ReadAll(g.t.Context(), g.names.Labels, func(r *kafka.Record) {
		var l event.Label
		if reason, detail := (&wire.Decoder{}).Label(&event.Origin{Value: r.Value}, &l); reason != "" {
			g.t.Error(reason, detail)
		}
		labels[l.Node] = l.Index
	}))
	var tally calibration.Tally
	must(g.t, g.client.ReadAll(g.t.Context(), g.names.Predictions, func(r *kafka.Record) {
		var p event.Prediction
		must(g.t, wire.DecodePrediction(r.Value, &p))
		row := make([]float64, len(p.Probabilities))
		for i, x := range p.Probabilities {
			row[i] = float64(x)
		}
		tally.Add(&calibration.ScoreRows(row, len(row), []int32{labels[p.Node]})[0])
	}))
	return tally.Means()
}

// TestFindings: what is wrong with a graph, at the bounds of the alerts and beyond them.
func TestFindings(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	waiting := func(events int64) []partitionLag { return []partitionLag{{"g.nodes", 0, events}} }
	good := calibration.Means{Acc: 0.9, NLL: 0.3, ECE: 0.02}
	for name, c := range map[string]struct {
		change func(*status)
		want   string // the alert, "" for none
	}{
		"nothing":                         {func(*status) {}, ""},
		"no owner":                        {func(s *status) { s.Owner = nil }, "GvbllNoOwner"},
		"a missing topic":                 {func(s *status) { s.missing = []string{"g.nodes"} }, "GvbllNoOwner"},
		"a quiet graph":                   {func(s *status) { s.Committed = ago(time.Hour) }, ""},
		"commits are late":                {func(s *status) { s.Committed, s.Lag = ago(5*time.Minute), waiting(1) }, ""},
		"commits stopped":                 {func(s *status) { s.Committed, s.Lag = ago(301*time.Second), waiting(1) }, "GvbllCommitsStopped"},
		"nothing was ever committed":      {func(s *status) { s.Committed, s.Lag = nil, waiting(1) }, ""},
		"a backlog of 10 minutes":         {func(s *status) { s.pace, s.Lag = 2.5, waiting(1500) }, ""},
		"a backlog of more":               {func(s *status) { s.pace, s.Lag = 2.5, waiting(1501) }, "GvbllLagGrowing"},
		"a slow graph with few events":    {func(s *status) { s.pace, s.Lag = 0.1, waiting(1000) }, ""},
		"a graph of which no pace known":  {func(s *status) { s.Lag = waiting(5000) }, ""},
		"20 refused":                      {func(s *status) { s.Last.Refused = map[string]int{"empty": 20} }, ""},
		"more refused":                    {func(s *status) { s.Last.Refused = map[string]int{"empty": 20, "bad-id": 1} }, "GvbllDeadLettersRising"},
		"one in a hundred refused":        {func(s *status) { s.Last.Refused, s.Last.Predictions = map[string]int{"empty": 21}, 1879 }, ""},
		"labels stopped":                  {func(s *status) { s.Last.Labels = 0 }, "GvbllLabelsStopped"},
		"labels never came":               {func(s *status) { s.Last.Labels, s.Before.Labels = 0, 0 }, ""},
		"neither nodes nor labels":        {func(s *status) { s.Last.Labels, s.Last.Predictions = 0, 0 }, ""},
		"a calibration error":             {func(s *status) { s.Last.ECE = 0.101 }, "GvbllCalibrationOff"},
		"a calibration error of 199":      {func(s *status) { s.Last.ECE, s.Last.Labels = 0.101, 199 }, ""},
		"one that 200 give by chance":     {func(s *status) { s.Last.ECE, s.Last.chanceECE = 0.12, 0.137 }, ""},
		"accuracy fell":                   {func(s *status) { s.Last.Acc = 0.78 }, "GvbllAccuracyFalling"},
		"accuracy fell a little":          {func(s *status) { s.Last.Acc, s.Last.Labels, s.Before.Labels = 0.86, 5000, 5000 }, ""},
		"accuracy fell by chance":         {func(s *status) { s.Last.Acc = 0.84 }, ""},
		"accuracy fell, of many":          {func(s *status) { s.Last.Acc, s.Last.Labels, s.Before.Labels = 0.84, 5000, 5000 }, "GvbllAccuracyFalling"},
		"accuracy fell from that of 199":  {func(s *status) { s.Last.Acc, s.Before.Labels = 0.5, 199 }, ""},
		"worse than the model as trained": {func(s *status) { s.Last.StaticNLL = 0.24 }, "GvbllOnlineWorse"},
	} {
		s := status{
			Owner: &member{}, Committed: ago(time.Second), Lag: waiting(0), at: now,
			Last:   statusPeriod{Seconds: 3600, Predictions: 1000, Labels: 200, Means: good},
			Before: statusPeriod{Seconds: 3600, Predictions: 1000, Labels: 200, Means: good},
		}
		c.change(&s)
		var got []string
		for _, f := range s.findings() {
			got = append(got, f.Alert)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s, -want +got\n%s", name, diff)
		}
	}
}

// TestPace: a graph that has run for twenty seconds of the hour, and then waits for a takeover
// of ten, has seconds of work before it. Windows of which two shards have a record count once.
func TestPace(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	var p pace
	if p.most() != 0 {
		t.Errorf("without windows the pace is %v", p.most())
	}
	for range 2 { // shards
		for i := range 20 {
			p.add(&ledger.Record{Window: int64(i), Stepped: began.Add(time.Duration(i) * time.Second), Ranges: []ledger.Range{{From: 5, To: 205}, {From: 0, To: int64(10 * i)}}})
		}
	}
	s := status{at: began.Add(30 * time.Second), pace: p.most(), Lag: []partitionLag{{"g.nodes", 0, 3450}}}
	if s.pace != 345 || s.backlog() != 10*time.Second {
		t.Errorf("a pace of %v a second and a backlog of %v, want 345 and 10 s", s.pace, s.backlog())
	}
}

// TestRoughly: durations to two digits or so.
func TestRoughly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 340 * time.Millisecond: "300ms", 70 * time.Second: "1m10s", 72 * time.Second: "1m12s", 60 * time.Second: "1m", 754 * time.Second: "13m",
		time.Hour: "1h", 70 * time.Minute: "1h10m", 95 * time.Minute: "1h35m", 26*time.Hour + time.Second: "26h",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
