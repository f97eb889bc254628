package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestBy: scores by the value of an attribute are in status, report, page and metrics, and survive a takeover and a restart from a
// checkpoint, of labels whose node the other worker served, too. An audit agrees.
func TestBy(t *testing.T) { onKFake(t, testBy) }

func testBy(t *testing.T, sh *shell) {
	dir, file := paymentsTable(t, 600), filepath.Join(t.TempDir(), "m.safetensors")
	sh.gvbll("train", "--data", dir, "--train-share", "0.3", "--epochs", "3", "--hidden", "8", "--out", file)
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	g := sh.graph("gvbll", 0)
	work := []string{"--model", file, "--by", "plan,values=2,class=fraud", "--act", "class=fraud,cost=3:1", "--coverage", "0.9", "--state-dir", t.TempDir()}
	events := func(from, to int) (nodes, labels []string) {
		for i := from; i < to; i++ {
			nodes = append(nodes, fmt.Sprintf(`{"id": "new-%d", "features": {"amount": %d, "plan": %q, "country": "C01", "new": %t, "balance": 1000, "visits": 3, "age": %s}}`,
				i, i%9, []string{"free", "gold", "team"}[i%3], i%2 == 0, []string{"null", "40"}[i/2%2]))
			labels = append(labels, fmt.Sprintf(`{"node": "new-%d", "class": %q}`, i, []string{"good", "fraud"}[i%7/3%2]))
		}
		return nodes, labels
	}
	const half = 300
	nodes, labels := events(0, 2*half)
	stop := g.work(work...)
	g.awaitOwner()
	other := append([]string{}, work...)
	other[len(other)-1] = t.TempDir()
	stopOther := g.work(other...)
	sh.produce(g.names.Nodes, nodes[:half])
	sh.produce(g.names.Labels, labels[:half/2])
	g.awaitTaken()
	kafkatest.Await(t, "a standby", func() bool { return len(g.status().Standbys) == 1 })
	stop()
	g.awaitOwner()
	sh.produce(g.names.Labels, labels[half/2:])
	sh.produce(g.names.Nodes, nodes[half:])
	g.awaitTaken()
	second := g.status().Owner.HTTP
	first, seen := sh.get(second+"/metrics"), sh.get(second+"/")
	stopOther()
	defer g.work(other...)()
	g.awaitOwner()

	want := map[string]int{"free": 200, "gold": 200, "(others)": 200}
	st := g.status()
	if by := st.Last.By; by == nil || by.Attribute != "plan" || by.Class != "fraud" || len(by.Values) != len(want) {
		t.Fatalf("status has by plan %+v", by)
	}
	for _, v := range st.Last.By.Values {
		if v.Labels != want[v.Value] || len(v.Scores) != 8 {
			t.Errorf("status has of %s %+v, want %d labels and all scores", v.Value, v, want[v.Value])
		}
	}
	if shifts := st.Last.By.Shifts; len(shifts) == 0 || !slices.ContainsFunc(shifts, func(s page.Shift) bool { return s.Attribute == "age" && s.Cost != 0 }) {
		t.Errorf("status has of shifts %+v, want one of age, which half of the nodes lack", shifts)
	}
	_, text, _ := g.command("status")
	if !regexp.MustCompile(`by plan +labels +acc. +NLL +ECE +chance +AUC +cover +right +caught`).MatchString(text) {
		t.Errorf("status prints\n%s", text)
	}
	report := filepath.Join(t.TempDir(), "report.html")
	g.command("report", "--out", report)
	html, err := os.ReadFile(report)
	must(t, err)
	live := sh.get(st.Owner.HTTP + "/")
	for name, html := range map[string]string{"report": string(html), "page": live} {
		for value, n := range want {
			if !regexp.MustCompile(fmt.Sprintf(`By plan</h2>(?s:.)*<th scope="row">%s</th><td>%d</td><td>0\.\d+</td>`, regexp.QuoteMeta(value), n)).MatchString(html) {
				t.Errorf("%s has no row of %s with %d labels", name, value, n)
			}
		}
		if name == "page" { // of the labels that a worker has seen
			html = seen
		}
		if !regexp.MustCompile(`cost of the shift, nats(?s:.)*<th scope="row">age</th>(<td>[^<]*</td>){4}<td>(&#43;|-)0\.\d{4}</td>`).MatchString(html) {
			t.Errorf("%s does not say what the shift of age cost", name)
		}
	}
	// Counters are of the worker that counted, scores of the whole stream.
	metrics := sh.get(st.Owner.HTTP + "/metrics")
	if !strings.Contains(first, `gvbll_cohort_labels_total{by="plan",value="gold"} 150`) || strings.Contains(metrics, "gvbll_cohort_labels_total{") {
		t.Errorf("the second owner and the third count\n%s%s", grep(first, "cohort_labels"), grep(metrics, "cohort_labels"))
	}
	if line := `gvbll_attribute_odd_labels_total{attribute="age"} 2`; !strings.Contains(first, line) { // 450 labels, half of them odd
		t.Errorf("metrics have no %s:\n%s", line, grep(first, "odd"))
	}
	for _, measure := range []string{"auc", "ece", "ece_chance"} {
		if line := fmt.Sprintf(`gvbll_cohort_score{by="plan",measure=%q,value="(others)"} 0.`, measure); !strings.Contains(metrics, line) {
			t.Errorf("metrics have no %s:\n%s", line, grep(metrics, "cohort_score"))
		}
	}
	g.audit("--model", file)
	if code, _, errs := g.command("work", "--model", file, "--by", "land"); code == exitOK || !strings.Contains(errs, "by") {
		t.Errorf("another attribute: exit code %d: %s", code, errs)
	}
}

// grep returns the lines with a text.
func grep(text, with string) (lines string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, with) {
			lines += line
		}
	}
	return lines
}
