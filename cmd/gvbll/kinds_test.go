package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/cmd/lab/payments"
	"github.com/gvbll/gvbll/gnn/dataset"
)

// withPayments returns the folder of a graph of 600 accounts of two classes, with payments, which
// are directed and weighted and join equal classes, and shared devices, which join any.
func withPayments(t *testing.T) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var nodes, edges strings.Builder
	nodes.WriteString("id,label,time,x,y,z\n")
	edges.WriteString("source,target,kind,weight,directed\n")
	for v := range 600 {
		fmt.Fprintf(&nodes, "a%d,%s,%d,%.3f,%.3f,%.3f\n", v, []string{"fair", "fraud"}[v%2], v, rng.NormFloat64()+float64(v%2), rng.NormFloat64(), rng.NormFloat64())
		for range min(v/2, 4) {
			fmt.Fprintf(&edges, "a%d,a%d,paid,%.2f,true\n", v, v%2+2*rng.IntN(v/2), 1+9*rng.Float64())
			fmt.Fprintf(&edges, "a%d,a%d,device,,\n", v, rng.IntN(v))
		}
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "nodes.csv"), []byte(nodes.String()), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "edges.csv"), []byte(edges.String()), 0o600))
	return dir
}

// TestKindsOfEdges: from a table of edges with kinds to predictions: a model that tells them
// apart is trained, its graph is sent and served with kinds, and an audit repeats what was
// published. Encoders that cannot are refused in a line.
func TestKindsOfEdges(t *testing.T) { onKFake(t, testKindsOfEdges) }

func testKindsOfEdges(t *testing.T, sh *shell) {
	data, dir := withPayments(t), t.TempDir()
	summary := sh.demo([]string{"demo", "--data", data, "--train-share", "0.4", "--steps", "6", "--label-delay", "1", "--epochs", "30", "--json", "--brokers", sh.addr, "--dir", dir})
	if summary.Predictions != 360 || summary.Labels != 360 {
		t.Errorf("%d predictions and %d labels learned, want 360 of each", summary.Predictions, summary.Labels)
	}
	file := filepath.Join(dir, "model.safetensors")
	if code, out, errs := sh.command("audit", "--model", file, "--brokers", sh.addr); code != exitOK {
		t.Errorf("the audit ends with %d: %s%s", code, out, errs)
	}
	if out := sh.gvbll("inspect", file); !strings.Contains(out, "convs.0.root") {
		t.Errorf("the model does not tell kinds apart:\n%s", out)
	}
	for encoder, reason := range map[string]string{"gat": "the edges have kinds or weights, which graphsage hears", "gcn": "the edges are of several kinds, or directed"} {
		code, _, errs := sh.command("train", "--data", data, "--encoder", encoder, "--out", filepath.Join(dir, "other.safetensors"))
		if code == exitOK || !strings.Contains(errs, reason) {
			t.Errorf("%s: exit code %d, %s", encoder, code, errs)
		}
	}
}

// TestPaymentsRecipe: the recipe of docs/recipes.md with fewer payments: a model is trained on
// a table of payments with kinds of edges, and serves their events in windows of event time,
// in which each label comes weeks after its payment and is learned.
func TestPaymentsRecipe(t *testing.T) { onKFake(t, testPaymentsRecipe) }

func testPaymentsRecipe(t *testing.T, sh *shell) {
	recipes, err := os.ReadFile("../../docs/recipes.md")
	must(t, err)
	dir := t.TempDir()
	data, file := filepath.Join(dir, "payments"), filepath.Join(dir, "model.safetensors")
	d, err := payments.Save(data, dataset.PaymentsConfig{Payments: 1500, Seed: 1, OneIn: 30, Drift: 1})
	must(t, err)
	g := sh.graph("gvbll", 1)
	var stop func()
	for _, line := range []string{
		"gvbll train --data payments --out model.safetensors",
		"gvbll topics --create",
		"gvbll work --model model.safetensors --event-time 24h --watermark lateness=1h",
		"gvbll send --events payments/events.jsonl",
		"gvbll audit --model model.safetensors",
	} {
		if !strings.Contains(string(recipes), "\n    "+line) {
			t.Errorf("docs/recipes.md has no line %q", line)
		}
		line = strings.NewReplacer("payments/", data+"/", "data payments", "data "+data, "model.safetensors", file).Replace(line)
		args := strings.Fields(line)[1:]
		switch args[0] {
		case "train":
			sh.gvbll(append(args, "--epochs", "20")...)
		case "work":
			stop = g.work(args[1:]...)
		case "audit":
			g.awaitTaken()
			stop()
			fallthrough
		default:
			sh.gvbll(append(args, "--brokers", sh.addr)...)
		}
	}
	stream := 0
	for _, part := range d.Given.Parts {
		if part == dataset.InTest {
			stream++
		}
	}
	if out := sh.gvbll("tail", "--json", "--no-follow", "--brokers", sh.addr); strings.Count(out, `"node":"payment-`) != stream {
		t.Errorf("%d predictions, want one of each of %d payments", strings.Count(out, `"node":"payment-`), stream)
	}
	if out := sh.gvbll("dead-letters", "--brokers", sh.addr); strings.Count(out, "\n") > 1 {
		t.Errorf("dead letters:\n%s", out)
	}
}
