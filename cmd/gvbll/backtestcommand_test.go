package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gvbll/gvbll/cmd/gvbll/backtest"
)

// TestBacktestOfOwnTable is the story of somebody who asks how a model would have done on their payments from a date on,
// with labels that come twelve hours late, beside their own scores: what serves has the scores of a worker on the same stream,
// the others those of their formulas.
func TestBacktestOfOwnTable(t *testing.T) { onKFake(t, testBacktestOfOwnTable) }

func testBacktestOfOwnTable(t *testing.T, sh *shell) {
	const nodes = 3000 // one a minute from 2026-02-02T02:40:00Z on, a fraud each fifty
	dir, frauds := fraudTable(t, nodes)
	files := t.TempDir()
	own, svg, model := filepath.Join(files, "own.csv"), filepath.Join(files, "b.svg"), filepath.Join(files, "m.safetensors")
	table := "node,fraud\n"
	for i := range nodes {
		table += fmt.Sprintf("p-%d,%v\n", i, map[bool]string{true: "0.75", false: "0.01"}[i%50 == 7 || i%500 == 8])
	}
	must(t, os.WriteFile(own, []byte(table), 0o600))
	data := []string{"--data", dir, "--train-until", "2026-02-03T00:00:00Z", "--label-delay", "6h", "--steps", "10"}
	training := append([]string{"--epochs", "20"}, data...)
	sh.gvbll(append([]string{"train", "--out", model}, training...)...)
	args := append([]string{"backtest", "--scores", own, "--capacity", "20/d"}, data...)
	var r backtest.Result
	text := sh.gvbll(append(args, "--epochs", "20", "--json", "--picture", svg)...)
	must(t, json.Unmarshal([]byte(text), &r))
	s, err := jsonschema.NewCompiler().Compile(filepath.Join(schemasDir, "backtest.json"))
	must(t, err)
	if err := fits(t, s, []byte(text)); err != nil {
		t.Errorf("the JSON does not fit docs/schemas/backtest.json: %v", err)
	}

	// Of the 1,280 minutes before the date the labels of all but the last 359 have come.
	if r.Train != 921 || r.Context != 359 || r.Stream != 1720 || r.Labels != 1720 || r.NotDue != 360 || r.Ranked != "fraud" {
		t.Errorf("%d train, %d are context, %d of %d are scored, %d not due, ranked is %q", r.Train, r.Context, r.Labels, r.Stream, r.NotDue, r.Ranked)
	}
	by := map[string]backtest.System{}
	for _, x := range r.Systems {
		by[x.Name] = x
	}
	var demo demoSummary
	must(t, json.Unmarshal([]byte(sh.gvbll(append([]string{"demo", "--json", "--brokers", sh.addr}, training...)...)), &demo))
	if d := by["gvbll"].NLL - demo.Served.Stream.NLL; math.Abs(d) > 1e-6 || demo.Labels != 1720 {
		t.Errorf("NLL %v, of the worker of the demo %v on %d labels", by["gvbll"].NLL, demo.Served.Stream.NLL, demo.Labels)
	}
	late := 0.0
	for i := 1280; i < nodes; i++ {
		if i%50 == 7 {
			late++
		}
	}
	wrong := 3.0 // honest ones that the own scores take for frauds, at 1508, 2008 and 2508
	nll := -(late*math.Log(.75) + wrong*math.Log(.25) + (1720-late-wrong)*math.Log(.99)) / 1720
	if x := by["own.csv"]; math.Abs(x.NLL-nll) > 1e-6 || math.Abs(x.AP-late/(late+wrong)) > 1e-9 || x.Capacity.Looked != 40 || x.Capacity.Caught != 20*29/32.0+5 {
		t.Errorf("own scores: NLL %v, AP %v and capacity %+v, want %v, %v, and 40 looked into, which have 20 of 32 that seem alike on the first day, and all 5 on the second", x.NLL, x.AP, *x.Capacity, nll, late/(late+wrong))
	}
	if x := by["majority"]; math.Abs(x.Acc-(1-late/1720)) > 1e-9 || x.NLL > .2 || frauds != 60 {
		t.Errorf("always the majority: %+v", x.Means)
	}
	if x := by["logistic"]; x.AUC < .95 || len(x.OverTime) != 10 || x.OverTime[0].From != "2026-02-03T00:00:00Z" {
		t.Errorf("logistic: AUC %v, and %+v", x.AUC, x.OverTime[0])
	}

	// The same model from a file has the same scores, and the text has them for people.
	said := sh.gvbll(append(args, "--model", model)...)
	if want := fmt.Sprintf("%.4f", by["gvbll"].NLL); !strings.Contains(said, want) || !strings.Contains(said, "360 of these were not learned") {
		t.Errorf("the text has no NLL of %s, or not what was not learned:\n%s", want, said)
	}
	if !strings.Contains(said, "looked into  caught") {
		t.Errorf("the text does not say what --capacity caught:\n%s", said)
	}
	for line := range strings.Lines(said) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("a line of %d columns is torn in a terminal of 80: %s", n, line)
		}
	}
	picture, err := os.ReadFile(svg)
	must(t, err)
	for _, want := range []string{"gvbll: ECE", "own.csv: ECE", "average precision, fraud", "days from 2026-02-03"} {
		if !strings.Contains(string(picture), want) {
			t.Errorf("the picture has no %q", want)
		}
	}
}

// TestBacktestOfOwnSystem is the story of somebody who fits a system on what logistic sees, and has its scores beside others:
// rows are there before the labels of their step, of neighbours that had come, and due says when a label may be used.
func TestBacktestOfOwnSystem(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	file("nodes.csv", "id,label,time,label_time,x\na,good,1,1,1\nb,bad,2,2,2\nc,bad,3,4.5,3\nd,bad,4,5.5,4\n\"e,f\",,5,,5\ng,good,6,never,6\n")
	file("edges.csv", "source,target\nb,a\nc,b\nd,c\nd,a\ng,c\n")
	rows, said := filepath.Join(dir, "rows.out"), filepath.Join(dir, "said.out")
	data := []string{"backtest", "--data", dir, "--train-until", "3", "--steps", "4", "--epochs", "1"}
	if text := gvbll(t, append(data, "--rows", rows)...); text != "" {
		t.Errorf("--rows prints %q", text)
	}
	got, err := os.ReadFile(rows)
	must(t, err)
	lines := strings.Split(strings.TrimSpace(string(got)), "\n")
	for i, want := range []string{
		"node,step,due,label,x0,near0,labels.bad,labels.good,labels2.bad,labels2.good,degree",
		"a,0,0,good,", "b,0,0,bad,", "c,1,2,bad,", "d,2,3,bad,", `"e,f",3,,,`, "g,4,,good,",
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("line %d of the rows is not %s…:\n%s", i+1, want, got)
		}
	}
	// d comes when the label of its neighbour a is known and that of its neighbour c is not.
	if !strings.Contains(lines[4], ",0,1,1,0,1.0986123") {
		t.Errorf("the row of d is %s, want one good neighbour, beside whom b is bad, and ln 3", lines[4])
	}

	one := file("one.csv", "node,bad,good\nc,0.25,0.75\nd,0.5,0.5\ng,1,0\n")
	two := file("two.csv", "node,bad\nc,0.125\nd,0.5\n")
	text := gvbll(t, append(data, "--scores", one, "--scores", two, "--predictions", said, "--json")...)
	var r backtest.Result
	must(t, json.Unmarshal([]byte(text), &r))
	if len(r.Systems) != 5 || r.Systems[4].Name != "two.csv" || r.Labels != 2 || math.Abs(r.Systems[4].NLL+math.Log(.125*.5)/2) > 1e-9 {
		t.Errorf("%d systems on %d labels, the last %+v", len(r.Systems), r.Labels, r.Systems[len(r.Systems)-1])
	}
	got, err = os.ReadFile(said)
	must(t, err)
	for _, want := range []string{
		"system,node,step,label,probabilities.bad,probabilities.good\ngvbll,c,1,bad,", "\nmajority,\"e,f\",3,,", "\none.csv,g,4,good,1,0\n",
		"\ntwo.csv,c,1,bad,0.125,0.875\ntwo.csv,d,2,bad,0.5,0.5\n",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the predictions have no %q:\n%s", want, got)
		}
	}
}
