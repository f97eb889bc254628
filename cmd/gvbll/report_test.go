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
	"github.com/gvbll/gvbll/topics/broker"
)

// TestReport: a report has the scores of what was served, and a browser shows it without
// an error and without asking anybody for anything.
func TestReport(t *testing.T) {
	addr := startBroker(t, broker.Config{})
	dir := t.TempDir()
	file := filepath.Join(dir, "m")
	gvbll(t, "train", "--out", file, "--data", generated(t, "--nodes", "300", "--steps", "3"), "--epochs", "3", "--embedding", "8")
	m, err := model.Open(file)
	must(t, err)
	t.Setenv("GVBLL_PREFIX", "reported")
	g := newTestGraph(t, addr, "reported", m.Encoder.In())
	gvbll(t, "topics", "--create", "--brokers", addr)
	stop := g.work("--model", file, "--window", "10")
	g.send(300)
	g.awaitLearned()
	g.command("forget", "node-7")
	stop()

	out := filepath.Join(dir, "report.html")
	if printed := gvbll(t, "report", "--brokers", addr, "--since", "10m", "--out", out); !strings.HasPrefix(printed, "wrote "+out+": 2") {
		t.Errorf("gvbll report prints %q", printed)
	}
	html, err := os.ReadFile(out)
	must(t, err)
	scores := g.scores()
	for _, want := range []string{
		"<h1>reported</h1>", "model " + m.ID, "<dt>predictions</dt><dd>300</dd>", "<dt>labels</dt><dd>300</dd>",
		fmt.Sprintf("<dt>accuracy</dt><dd>%.4f</dd>", scores.Acc), fmt.Sprintf("<dt>NLL, nats</dt><dd>%.4f</dd>", scores.NLL), fmt.Sprintf("<dt>ECE</dt><dd>%.4f</dd>", scores.ECE),
		`<th scope="row">static</th><td>300</td>`, `<th scope="row">` + m.Classes[0] + "</th>", "forgot 1 ids by a replay of",
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the report has no %q", want)
		}
	}
	if code, _, errs := g.command("report", "--out", filepath.Join(dir, "none", "r.html")); code != exitFailed || !strings.Contains(errs, "--out: ") {
		t.Errorf("a file that cannot be written: exit code %d: %s", code, errs)
	}

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

// TestPeriods: a time is divided into at most 48 periods of a usual length, without gaps.
func TestPeriods(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for length, want := range map[time.Duration]int{
		time.Millisecond: 1, 48 * time.Second: 48, time.Hour: 12, 49 * time.Second: 10, 24 * time.Hour: 48, 25 * time.Hour: 25, 48 * 24 * time.Hour: 48, 1000 * 24 * time.Hour: 32,
	} {
		list := periods(from, from.Add(length))
		if len(list) != want || !list[0].From.Equal(from) || !list[len(list)-1].To.Equal(from.Add(length)) {
			t.Errorf("%v: %d periods from %v to %v, want %d", length, len(list), list[0].From, list[len(list)-1].To, want)
		}
		for i := range list[1:] {
			if !list[i].To.Equal(list[i+1].From) {
				t.Errorf("%v: period %d ends at %v, and the next begins at %v", length, i, list[i].To, list[i+1].From)
			}
		}
	}
}

// TestMoments: a moment is a time or a duration before another.
func TestMoments(t *testing.T) {
	end := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"24h": "2026-11-21T12:00:00Z", "2026-11-20": "2026-11-20T00:00:00Z", "2026-11-20T10:00:00+01:00": "2026-11-20T09:00:00Z", "-1h": "", "yesterday": "",
	} {
		var m moment
		err := m.UnmarshalText([]byte(text))
		if got := utc(m.before(end)); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%s is %s, error %v, want %s", text, got, err, want)
		}
	}
}
