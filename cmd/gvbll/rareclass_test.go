package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fraudTable writes payments of which one in fifty is a fraud, and these have larger amounts.
func fraudTable(t *testing.T, nodes int) (dir string, frauds int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(48, 3))
	table, edges := new(strings.Builder), "source,target\n"
	fmt.Fprintln(table, "id,label,time,amount,age")
	for i := range nodes {
		label, amount := "ok", rng.NormFloat64()
		if i%50 == 7 {
			label, amount = "fraud", amount+3
			frauds++
		}
		fmt.Fprintf(table, "p-%d,%s,%d,%.3f,%.3f\n", i, label, 1_770_000_000_000+60_000*i, amount, rng.NormFloat64())
		if i > 0 {
			edges += fmt.Sprintf("p-%d,p-%d\n", i, rng.IntN(i))
		}
	}
	return writeTables(t, map[string]string{"nodes.csv": table.String(), "edges.csv": edges}), frauds
}

// TestRareClassIsSaid: where one class has nearly all labels, train and demo say what to always say it is worth, and how
// the rare one is ranked; with --act, what was caught. Where none has, they say nothing of it.
func TestRareClassIsSaid(t *testing.T) { onKFake(t, testRareClassIsSaid) }

func testRareClassIsSaid(t *testing.T, sh *shell) {
	dir, _ := fraudTable(t, 3000)
	said := `To always say "ok" is right for 98\.\d\d % of WHAT\.
Of "fraud" \(\d+ labels\) the AUC is 0\.9\d\d, the average precision 0\.\d\d\d \(a coin's 0\.0\d\d\)\.
The 1 % that are most likely "fraud" have \d\d % of it\.
`
	small := []string{"--data", dir, "--train-share", "0.4", "--epochs", "10"}
	out := filepath.Join(t.TempDir(), "m")
	_, _, errs := sh.command(append([]string{"train", "--out", out}, small...)...)
	if want := `To always say "ok" is right for 98\.\d\d % of the training nodes held out\.
Of "fraud" there are 4 labels, too few to say how it is ranked\.
`; !regexp.MustCompile(want).MatchString(errs) {
		t.Errorf("train says\n%s", errs)
	}
	_, _, errs = sh.command(append([]string{"train", "--head", "paper", "--out", out + "2"}, small...)...)
	if want := `To always say "ok" is right for 98.00 % of the training nodes.` + "\n"; strings.Count(errs, want) != 1 {
		t.Errorf("train of the paper's head says\n%s", errs)
	}
	demo := append([]string{"demo", "--fast", "--steps", "9", "--act", "class=fraud,cost=9:1", "--brokers", sh.addr}, small...)
	code, text, errs := sh.command(append(demo, "--prefix", "text")...)
	want := strings.Replace(said, "WHAT", "them", 1) + `Acting \(--act\) caught \d+ of 36, and \d+ were in vain\.` + "\n"
	if code != exitOK || !regexp.MustCompile(want).MatchString(text) {
		t.Errorf("demo: exit code %d\n%s%s", code, text, errs)
	}
	sum := sh.demo(append(demo[:1:1], append(demo[2:], "--json")...))
	r, a := sum.Rare, sum.Acted
	if r == nil || a == nil || r.Class != "fraud" || r.Majority != "ok" || r.Of != 1800 || r.Labels != 36 || r.Share != 0.98 || r.AUC < 0.9 || r.AP < 0.3 || r.Recall < 0.3 || a.Caught+a.Missed != 36 || a.Caught < 10 {
		t.Errorf("demo --json has %+v and %+v", r, a)
	}
	if sum := sh.demo([]string{"demo", "--data", ownGraph(t, 60), "--steps", "3", "--epochs", "2", "--brokers", sh.addr, "--prefix", "even", "--json"}); sum.Rare != nil || sum.Acted != nil {
		t.Errorf("a demo of classes of one size has %+v and %+v", sum.Rare, sum.Acted)
	}
}
