package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/gvbll/gvbll/pipeline/model"
)

// TestReport: a report has the scores of what was served, and a browser shows it without
// an error and without asking anybody for anything.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "report.html")
	onKFake(t, func(t *testing.T, sh *shell) { testReport(t, sh, dir, out) })

	b := newBrowser(t)
	b.do(t, chromedp.Navigate("file://"+out))
	b.do(t, chromedp.EmulateViewport(1200, 900))
	b.picture(t, "report.png")
	if n := value[string](t, b, `document.querySelectorAll("svg").length + " " + document.querySelectorAll("h2").length`); n != "5 7" {
		t.Errorf("the page has %s pictures and sections, want 5 7", n)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.hosts, "")
	if len(b.troubles) > 0 || len(b.hosts) > 0 {
		t.Errorf("the browser complains of %q and asks %v", b.troubles, b.hosts)
	}
}

// onlyMine fails the test if others than this user may read a file or a folder.
func onlyMine(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, error %v, want that this user alone may read it", path, info.Mode(), err)
		}
	}
}

// testReport writes a report to the file out.
func testReport(t *testing.T, sh *shell, dir, out string) {
	file := tenClasses(t)
	m, err := model.Open(file)
	must(t, err)
	sh.setenv("GVBLL_PREFIX", "reported")
	g := sh.graph("reported", m.Encoder.In())
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	code, _, errs := sh.command("report", "--brokers", sh.addr, "--out", out)
	if _, err := os.Stat(out); code != exitFailed || err == nil || !strings.Contains(errs, "nothing is written: the ledger reported.ledger has no window from ") {
		t.Errorf("a report of nothing: exit code %d, %v: %s", code, err, errs)
	}
	if code, said, errs := sh.command("audit", "--brokers", sh.addr, "--model", file); code != exitFailed || said != "" || !strings.Contains(errs, "audit: the ledger reported.ledger has no windows") {
		t.Errorf("an audit of nothing: exit code %d: %s%s", code, said, errs)
	}
	stop := g.work("--model", file, "--window", "10")
	g.send(300)
	g.awaitLearned()
	g.command("forget", "node-7")
	stop()
	time.Sleep(pause) // the report is of what was before it

	// It begins where the ledger begins, which is not a day ago.
	printed := strings.TrimPrefix(sh.gvbll("report", "--brokers", sh.addr, "--since", "24h", "--out", out), "wrote "+out+": ")
	onlyMine(t, out)
	first, last, _ := strings.Cut(strings.TrimSpace(printed), " to ")
	begins, err := time.Parse(time.RFC3339, first)
	must(t, err)
	ends, err := time.Parse(time.RFC3339, last)
	must(t, err)
	if d := ends.Sub(begins); d < 0 || d > 10*time.Minute {
		t.Errorf("gvbll report is of %v: %s", d, printed)
	}
	html, err := os.ReadFile(out)
	must(t, err)
	scores := g.scores()
	for _, want := range []string{
		"<h1>reported</h1>", "model " + m.ID, "<dt>predictions</dt><dd>300</dd>", "<dt>labels</dt><dd>300</dd>",
		fmt.Sprintf("<dt>accuracy</dt><dd>%.4f</dd>", scores.Acc), fmt.Sprintf("<dt>NLL, nats</dt><dd>%.4f</dd>", scores.NLL), fmt.Sprintf("<dt>ECE</dt><dd>%.4f</dd>", scores.ECE), fmt.Sprintf("<dt>ECE by chance up to</dt><dd>%.4f</dd>", scores.Chance),
		`<th scope="row">static</th><td>300</td>`, `<th scope="row">` + m.Classes[0] + "</th>", "forgot 1 ids by a replay of",
		fmt.Sprintf("are off by %.1f points (ECE)", 100*scores.ECE), "time, UTC, from 20",
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the report has no %q", want)
		}
	}
	if code, _, errs := g.command("report", "--out", filepath.Join(dir, "none", "r.html")); code != exitFailed || !strings.Contains(errs, "--out: ") {
		t.Errorf("a file that cannot be written: exit code %d: %s", code, errs)
	}
}
