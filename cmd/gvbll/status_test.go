package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestStatus: a graph from before its topics exist until its workers have ended, as its
// status tells. The scores are those of the predictions and labels in Kafka.
func TestStatus(t *testing.T) { onKafka(t, testStatus) }

func testStatus(t *testing.T, sh *shell) {
	file := tenClasses(t)
	m, err := model.Open(file)
	must(t, err)
	prefix := fmt.Sprintf("status-%d", time.Now().UnixNano())
	sh.setenv("GVBLL_PREFIX", prefix)
	g := sh.graph(prefix, m.Encoder.In())
	// statusIs reads the status until ok accepts it: an election takes a while.
	statusIs := func(what string, ok func(code int, s *look.Status) bool) (s look.Status) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for {
			code, out, errs := g.command("status", "--json")
			s = look.Status{}
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
			time.Sleep(pause)
		}
	}

	if code, out, errs := g.command("status"); code != exitFailed || !strings.Contains(out, "wrong: topics are missing: ") || !strings.Contains(errs, "something is wrong") || !strings.Contains(out, "docs/runbook.md#gvbllnoowner") {
		t.Errorf("without topics: exit code %d: %s%s", code, out, errs)
	}
	sh.gvbll("topics", "--create", "--partitions", "2", "--brokers", sh.addr)
	statusIs("without workers", func(code int, s *look.Status) bool {
		return code == exitFailed && len(s.Wrong) == 1 && strings.Contains(s.Wrong[0].What, "no worker runs") && s.Committed == nil && len(s.Lag) == 5
	})

	stop := g.work("--model", file)
	stopStandby := g.work("--model", file)
	g.send(40)
	g.awaitLearned()
	p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	must(t, p.Send(t.Context(), []kafka.Record{{Topic: g.names.Nodes, Value: []byte("{")}}))
	s := statusIs("that of an owner and a standby", func(code int, s *look.Status) bool {
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
	if out := sh.gvbll("status", "--brokers", sh.addr, "--last", "10m"); !strings.Contains(out, "owner    ") || !strings.Contains(out, "standby  ") || !strings.Contains(out, "last 10m") || !strings.Contains(out, "refused: undecodable") {
		t.Errorf("gvbll status prints\n%s", out)
	}
	stopStandby()
	stop()
	statusIs("without workers again", func(code int, s *look.Status) bool {
		return code == exitFailed && s.Owner == nil && len(s.Standbys) == 0 && s.Committed != nil && len(s.Wrong) == 1
	})
	var left []kafka.Record // the topic loses the others
	must(t, g.client.ReadAll(t.Context(), g.names.Predictions, func(r *kafka.Record) {
		if len(left) < 37 {
			left = append(left, *r)
		}
	}))
	g.replace(g.names.Predictions, left)
	statusIs("that predictions are lost", func(code int, s *look.Status) bool {
		return len(s.Wrong) == 2 && strings.Contains(s.Wrong[1].What, "of the 40 predictions of windows 0 to ") && strings.Contains(s.Wrong[1].What, g.names.Predictions+" has lost 3")
	})
}

// TestStatusOfCutInput: an input that lost its end lets no worker start, and the status says so, as it does of a ledger that is gone.
func TestStatusOfCutInput(t *testing.T) {
	onKafka(t, func(t *testing.T, sh *shell) {
		file := tenClasses(t)
		m, err := model.Open(file)
		must(t, err)
		prefix := fmt.Sprintf("cut-%d", time.Now().UnixNano())
		sh.setenv("GVBLL_PREFIX", prefix)
		g := sh.graph(prefix, m.Encoder.In())
		sh.gvbll("topics", "--create", "--brokers", sh.addr)
		stop := g.work("--model", file)
		g.send(20)
		g.awaitLearned()
		stop()
		g.replace(g.names.Nodes, nil)
		if _, out, _ := g.command("status"); !strings.Contains(unfolded(out), g.names.Nodes+" partition 0 has offsets 0 to 0, but ") {
			t.Errorf("the status of a graph whose input is cut: %s", out)
		}
		g.replace(g.names.Ledger, nil)
		if _, out, _ := g.command("status"); !strings.Contains(unfolded(out), "is empty or missing, but there are predictions") {
			t.Errorf("the status of a graph whose ledger is gone: %s", out)
		}
	})
}

// unfolded returns what a command prints without the ends of lines.
func unfolded(out string) string { return strings.Join(strings.Fields(out), " ") }

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
