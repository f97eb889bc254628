package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestReasons: predictions that are acted on carry as many reasons as are asked for, before and after a restart from a
// checkpoint, and others none. An audit proves them, tail says them in words, and status counts them.
func TestReasons(t *testing.T) { onKFake(t, testReasons) }

func testReasons(t *testing.T, sh *shell) {
	dir, file := paymentsTable(t, 400), filepath.Join(t.TempDir(), "m.safetensors")
	sh.gvbll("train", "--data", dir, "--train-share", "0.5", "--epochs", "3", "--hidden", "8", "--out", file)
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	g := sh.graph("gvbll", 0)
	work := []string{"--model", file, "--act", "class=fraud,cost=3:1", "--reasons", "2,acted", "--state-dir", t.TempDir()}
	const half = 100
	for from := 0; from < 2*half; from += half {
		stop := g.work(work...)
		var nodes, labels []string
		for i := from; i < from+half; i++ {
			nodes = append(nodes, fmt.Sprintf(`{"id": "new-%d", "features": {"amount": %d, "plan": %q, "country": "C01", "new": %t, "balance": %d, "visits": 3}, `+
				`"neighbours": ["new-%d"]}`, i, i%9, []string{"free", "gold", "team"}[i%3], i%2 == 0, 100*i, i/2))
			labels = append(labels, fmt.Sprintf(`{"node": "new-%d", "class": %q}`, i, []string{"good", "fraud"}[i%7/3%2]))
		}
		sh.produce(g.names.Nodes, nodes)
		sh.produce(g.names.Labels, labels)
		g.awaitTaken()
		stop()
	}
	explained := 0
	must(t, g.client.ReadAll(t.Context(), g.names.Predictions, func(r *kafka.Record) {
		var p event.Prediction
		must(t, wire.DecodePrediction(r.Value, &p))
		if (p.Reasons != nil) != *p.Act {
			t.Errorf("%v: to act on: %t, and reasons %+v", p.Node, *p.Act, p.Reasons)
		}
		if p.Reasons == nil {
			return
		}
		if explained++; p.Reasons.Class != "fraud" || len(p.Reasons.List) != 2 || p.Reasons.List[0].By == 0 {
			t.Errorf("%v has the reasons %+v", p.Node, p.Reasons)
		}
	}))
	if explained < 10 || explained > 2*half-10 {
		t.Fatalf("%d of %d predictions are acted on: too few to compare", explained, 2*half)
	}
	if found := g.audit("--model", file); found.Epochs[0].Proved != found.Epochs[0].Windows {
		t.Errorf("the audit found %+v, want every window proved", found)
	}
	_, text, _ := g.command("tail", "--no-follow")
	if n := strings.Count(text, "\n  why fraud: "); n != explained {
		t.Errorf("tail says %d times why, want %d:\n%s", n, explained, text)
	}
	report := filepath.Join(t.TempDir(), "report.html")
	g.command("report", "--out", report)
	if html, err := os.ReadFile(report); err != nil || !strings.Contains(string(html), "<p>what moved the newest predictions most: ") {
		t.Errorf("the report does not say what moved predictions: %v", err)
	}
	_, text, _ = g.command("status")
	for _, want := range []string{"predictions with reasons", "what moved the newest predictions most: ", "why fraud: "} {
		if !strings.Contains(text, want) {
			t.Errorf("status does not say %q:\n%s", want, text)
		}
	}
}
