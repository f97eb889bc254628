package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// browser is a Chromium that records errors, messages on the console, and the hosts
// that it sends requests to.
type browser struct {
	ctx context.Context

	mu       sync.Mutex
	troubles []string
	hosts    map[string]bool
}

// newBrowser starts a browser for one test, and skips the test if there is none.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("there is no chromium on this machine: Debian has it as a package")
	}
	b := &browser{hosts: map[string]bool{}}
	var stop context.CancelFunc
	b.ctx, stop = chromedp.NewContext(t.Context(), chromedp.WithAllocatorOptions(chromedp.ExecPath("chromium"), chromedp.NoSandbox))
	t.Cleanup(stop)
	b.do(t, chromedp.Navigate("about:blank"))
	must(t, chromedp.Listen(b.ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch ev := ev.(type) {
		case *log.EventEntryAdded:
			b.troubles = append(b.troubles, ev.Entry.Text+" "+ev.Entry.URL)
		case *runtime.EventExceptionThrown:
			b.troubles = append(b.troubles, ev.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			b.troubles = append(b.troubles, fmt.Sprint("console.", ev.Type))
		case *network.EventRequestWillBeSent:
			if u, err := url.Parse(ev.Request.URL); err == nil && u.Scheme != "data" {
				b.hosts[u.Host] = true
			}
		}
	}))
	call(t, b, log.Enable, cdp.Empty{})
	call(t, b, network.Enable, network.EnableParams{})
	call(t, b, runtime.Enable, cdp.Empty{})
	return b
}

// call sends a command of the DevTools protocol.
func call[P, R any](t *testing.T, b *browser, c cdp.Command[P, R], params P) {
	t.Helper()
	_, err := chromedp.Call(b.ctx, c, params)
	must(t, err)
}

func (b *browser) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	must(t, chromedp.Do(b.ctx, steps...))
}

// value runs a script and returns its value; of a promise, what it resolves to.
func value[T any](t *testing.T, b *browser, script string) T {
	t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	must(t, err)
	return v
}

// liveDemo starts a small demo that serves until the test ends, and returns the URL of
// its page once the stream is over.
func liveDemo(t *testing.T) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	serving, ended := make(chan bool), make(chan int, 1)
	var once sync.Once
	var out lines
	out.when = append(out.when, func(b []byte) {
		if strings.Contains(string(b), "Serving until interrupted") {
			once.Do(func() { close(serving) })
		}
	})
	args := slices.DeleteFunc(smallDemo(t, "--keep", "--fast"), func(arg string) bool { return arg == "--json" })
	go func() { ended <- run(ctx, args, (&shell{t: t}).process(&out, &out)) }()
	t.Cleanup(func() {
		stop()
		kafkatest.Receive(t, ended, "the demo has ended")
	})
	select {
	case <-serving:
	case code := <-ended:
		ended <- code
		t.Fatalf("exit code %d: %s", code, &out)
	case <-time.After(kafkatest.Patience):
		t.Fatalf("after %v the stream of the demo is not over: %s", kafkatest.Patience, &out)
	}
	return regexp.MustCompile(`http://[0-9.:]+`).FindString(out.String())
}

// figuresScript returns the figures on the page by the metrics that they show.
const figuresScript = `Object.fromEntries([...document.querySelectorAll("[data-metric]")].map(e => [e.dataset.metric, e.textContent]))`

// TestLivePage looks at a running demo in a browser: in both colour schemes, on the
// screens of a desktop and a phone, with the keyboard alone, and without scripts. The
// page must show the same figures as the metrics, and load nothing from other hosts.
func TestLivePage(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	at := liveDemo(t)

	b.do(t, chromedp.EmulateViewport(1400, 900), chromedp.Navigate(at))
	if below := value[float64](t, b, `document.querySelector("#latest ~ .wide tbody tr:nth-child(3)").getBoundingClientRect().bottom`); below > 900 {
		t.Errorf("three latest predictions end %v pixels below the top, want them on the first screen", below)
	}
	if charts := value[int](t, b, `document.querySelectorAll("figure svg").length`); charts != 9 {
		t.Errorf("the page has %d charts, want 9", charts)
	}
	figures := value[map[string]string](t, b, figuresScript)
	metrics := metricsWhen(t, at, func(metricsPage) bool { return true })
	if len(figures) < 20 {
		t.Errorf("the page has %d figures, want at least 20", len(figures))
	}
	for name, shown := range figures {
		v, exported := metrics[name]
		if !exported || shown != fmt.Sprintf("%.4f", v) && shown != fmt.Sprint(int64(v)) {
			t.Errorf("%s is %s on the page and %v in the metrics", name, shown, v)
		}
	}
	b.picture(t, "page-light.png")
	b.do(t, chromedp.EmulateViewport(1120, 650)) // README has what is seen first
	b.pictureOf(t, "page-first.png", chromedp.CaptureScreenshot())
	b.do(t, chromedp.EmulateViewport(1400, 900))

	// The weights of the pool are the API's, each with a bar of its size.
	var learned struct {
		Heads []struct {
			Head   string
			Weight float64
		}
	}
	must(t, json.Unmarshal([]byte(get(t, at+"/v1/pool")), &learned))
	type bar struct {
		Head, Weight string
		Width        float64 // pixels; negative to the left of zero
	}
	bars := value[[]bar](t, b, `[...document.querySelectorAll("#weights tbody tr")].map(row => ({
		Head: row.cells[0].textContent, Weight: row.cells[1].textContent,
		Width: row.querySelector("rect").getBoundingClientRect().width * (row.querySelector("rect.negative") ? -1 : 1)}))`)
	if len(bars) != len(learned.Heads) || len(bars) == 0 {
		t.Fatalf("the page has bars for %d of %d heads", len(bars), len(learned.Heads))
	}
	unit, most := 0., 0. // pixels for a weight of 1, by the longest bar
	for k, h := range learned.Heads {
		if math.Abs(h.Weight) > most {
			unit, most = bars[k].Width/h.Weight, math.Abs(h.Weight)
		}
	}
	for k, h := range learned.Heads {
		if got := bars[k]; got.Head != h.Head || got.Weight != fmt.Sprintf("%.4f", h.Weight) || math.Abs(got.Width-unit*h.Weight) > 1 {
			t.Errorf("head %s with weight %.4f is shown as %+v, want %.1f pixels", h.Head, h.Weight, got, unit*h.Weight)
		}
	}

	// A refresh changes in place what differs, so that the focus stays.
	if !value[bool](t, b, `(async () => {
		const first = document.querySelector("dd"), was = first.textContent;
		const link = document.querySelector("#latest ~ .wide a");
		const weights = document.getElementById("weights"), right = weights.outerHTML;
		first.textContent = "stale";
		weights.querySelectorAll("rect").forEach(bar => bar.classList.toggle("negative")); // as after a change of signs
		link.focus();
		await refresh();
		return weights.outerHTML === right && first.textContent === was && document.activeElement === link;
	})()`) {
		t.Error("a refresh leaves a stale figure or bar, or loses the focus")
	}

	// In the dark colour scheme, and on a phone, where nothing may be wider than the page.
	call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	b.do(t, chromedp.Reload())
	if fill := value[string](t, b, `getComputedStyle(document.querySelector("figure svg .title")).fill`); fill != "rgb(232, 234, 237)" {
		t.Errorf("in the dark colour scheme the text of the charts is %s", fill)
	}
	b.picture(t, "page-dark.png")
	b.do(t, chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile), chromedp.Reload())
	b.fits(t, "the page")
	below := value[float64](t, b, `Math.max(...[...document.querySelectorAll(".questions p")].map(p => p.getBoundingClientRect().bottom))`)
	if below > 844 {
		t.Errorf("on a phone the three answers end %v pixels below the top, want them on the first screen", below)
	}
	for _, chart := range value[[][2]float64](t, b, `[...document.querySelectorAll(".questions svg")].map(c => c.getBoundingClientRect()).map(r => [r.top, r.width])`) {
		if chart[0] < below || chart[1] < 340 {
			t.Errorf("on a phone a chart of the answers begins at %v and is %v wide, want it below %v, as wide as the page", chart[0], chart[1], below)
		}
	}
	b.picture(t, "page-phone.png")

	// With the keyboard alone, a reader gets to the scores and to a node's page.
	call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	b.do(t, chromedp.EmulateViewport(1200, 900), chromedp.Navigate(at), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	if hash := value[string](t, b, `location.hash`); hash != "#right" {
		t.Errorf("the first link leads to %q, want #right", hash)
	}
	value[bool](t, b, `document.querySelector("#latest ~ .wide a").focus() ?? true`)
	b.do(t, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(chromedp.CSS("meter")), chromedp.WaitNotPresent(chromedp.CSS("#right")))
	if heading := value[string](t, b, `document.querySelector("h1").textContent`); !strings.HasPrefix(heading, "Node ") {
		t.Errorf("a node's page has the heading %q, want Node and its id", heading)
	}
	b.picture(t, "page-node.png")

	// Without scripts the page has the same text.
	call(t, b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.do(t, chromedp.Navigate(at))
	plain, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS("#main")))
	must(t, err)
	if !strings.Contains(plain, "Is it right?") {
		t.Error("without scripts the page does not answer")
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.troubles) > 0 {
		t.Errorf("the browser reports %q", b.troubles)
	}
	if here := strings.TrimPrefix(at, "http://"); len(b.hosts) != 1 || !b.hosts[here] {
		t.Errorf("the page on %s sends requests to %v", here, b.hosts)
	}
}

// outsideScript returns what a reader would have to scroll sideways for.
const outsideScript = `[...document.querySelectorAll("body *")].filter(e => !e.closest("svg, .skip, .cards thead") && e.clientWidth > 0 &&
	(e.getBoundingClientRect().right > innerWidth + 0.5 || e.scrollWidth > e.clientWidth && getComputedStyle(e).overflowX !== "visible")).
	map(e => e.tagName + " " + e.className + ": " + e.textContent.slice(0, 40))`

// fits checks that a page is not wider than the screen, nor anything on it.
func (b *browser) fits(t *testing.T, what string) {
	t.Helper()
	if value[bool](t, b, `document.documentElement.scrollWidth > document.documentElement.clientWidth`) {
		t.Errorf("%s is wider than the screen", what)
	}
	if outside := value[[]string](t, b, outsideScript); len(outside) > 0 {
		t.Errorf("on %s a reader would have to scroll sideways for %q", what, outside)
	}
}

// TestWorkerPage looks at the page of a worker that has refused events. What it says is what
// the ledger, the API and the command line have; on a phone, nothing is beside the screen, how
// long the names may be.
func TestWorkerPage(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	sh := &shell{t: t, addr: startBroker(t, broker.Config{})}
	file := tenClasses(t)
	m, err := model.Open(file)
	must(t, err)
	sh.setenv("GVBLL_PREFIX", "papers")
	g := sh.graph("papers", m.Encoder.In())
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	defer g.work("--model", file, "--window", "20")()
	g.send(40)
	g.awaitLearned()
	born := g.sendBorn(3) // labels of a class that the model lacks
	long := event.Node{ID: event.ID{Str: strings.Repeat("long", 100)}, Dense: make([]float32, g.dim)}
	p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	must(t, p.Send(t.Context(), []kafka.Record{
		{Topic: g.names.Nodes, Value: []byte("{")},
		{Topic: g.names.Labels, Value: wire.AppendLabel(nil, &event.Label{Node: event.ID{Str: "node-1"}, Class: strings.Repeat("noclass", 60)})},
		{Topic: g.names.Nodes, Value: wire.AppendNode(nil, &long)},
	}))
	reasons := make(map[string]string)
	g.await("five events are refused", func(all []*ledger.Record) bool {
		counts := make(map[event.Reason]int)
		for _, r := range all {
			for reason, n := range r.Reasons {
				counts[reason] += n
				reasons[string(reason)] = strconv.Itoa(counts[reason])
			}
		}
		return counts[event.UnknownClass] == len(born)+1 && counts[event.Undecodable] == 1 && predictions(all) == g.sent+1
	})
	var st look.Status
	_, out, _ := g.command("status", "--json")
	must(t, json.Unmarshal([]byte(out), &st))
	at := st.Owner.HTTP
	metricsWhen(t, at, func(m metricsPage) bool { return m[`gvbll_level{of="nodes"}`] == float64(g.sent+1) })

	b.do(t, chromedp.EmulateViewport(1400, 900), chromedp.Navigate(at))
	if title, heading := value[string](t, b, `document.title`), value[string](t, b, `document.querySelector("h1").textContent`); title != "papers: serving (gvbll)" || heading != "Graph papers" {
		t.Errorf("the page has the title %q and the heading %q, want both to name the graph papers", title, heading)
	}
	const rows = `Object.fromEntries([...document.querySelectorAll(%q)].map(row => [row.cells[0].textContent, row.cells[1].textContent]))`
	if got := value[map[string]string](t, b, fmt.Sprintf(rows, "#reasons tr")); !maps.Equal(got, reasons) {
		t.Errorf("the page counts %v as refused, the ledger %v", got, reasons)
	}
	var refused struct {
		Latest []struct{ Reason, Detail string }
	}
	must(t, json.Unmarshal([]byte(get(t, at+"/v1/refused")), &refused))
	var latest [][]string
	for _, r := range refused.Latest {
		latest = append(latest, []string{r.Reason, r.Detail})
	}
	if got := value[[][]string](t, b, `[...document.querySelectorAll("#refusals tr")].map(row => [row.cells[0].textContent, row.cells[1].textContent])`); len(got) != len(born)+2 || !slices.EqualFunc(got, latest, slices.Equal) {
		t.Errorf("the latest refused events are %q on the page and %q in the API", got, latest)
	}
	figures := value[map[string]string](t, b, figuresScript)
	for measure, want := range map[string]float64{"accuracy": st.Last.Acc, "nll": st.Last.NLL, "ece": st.Last.ECE, "brier": st.Last.Brier} {
		shown, err := strconv.ParseFloat(figures[fmt.Sprintf(`gvbll_prequential{head="pool",mean="label",measure=%q,serving="true"}`, measure)], 64)
		if err != nil || math.Abs(shown-want) > 1e-4 {
			t.Errorf("the %s is %v on the page (%v), and %v in the ledger", measure, shown, err, want)
		}
	}
	b.picture(t, "worker-light.png")

	var says struct {
		Flags []struct{ Name, Value, From string }
	}
	must(t, json.Unmarshal([]byte(get(t, at+"/v1/status")), &says))
	flags := map[string]string{}
	for _, f := range says.Flags {
		flags[f.Name] = f.Value + " from " + f.From
	}
	for name, want := range map[string]string{
		"prefix": "papers from $GVBLL_PREFIX", "window": "20 from the command line", "linger": "5ms from the command line",
		"brokers": sh.addr + " from the command line", "session-timeout": "10s from ", "models": " from ",
	} {
		if flags[name] != want {
			t.Errorf("%s is %q in /v1/status, want %q", name, flags[name], want)
		}
	}
	var model struct{ Settings json.RawMessage }
	must(t, json.Unmarshal([]byte(get(t, at+"/v1/model")), &model))
	record, err := ledger.Open(t.Context(), g.client, g.names.LedgerAt())
	must(t, err)
	first, err := record.Next(t.Context())
	must(t, err)
	if string(model.Settings) != string(first.Configuration) {
		t.Errorf("the settings are %s in /v1/model, and %s in the ledger", model.Settings, first.Configuration)
	}

	call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	for _, path := range []string{"/", "/node?id=node-3"} {
		b.do(t, chromedp.EmulateViewport(768, 1024, chromedp.EmulateMobile), chromedp.Navigate(at+path))
		b.fits(t, path+" of a tablet")
		b.do(t, chromedp.EmulateViewport(400, 800, chromedp.EmulateMobile), chromedp.Reload())
		b.fits(t, path)
		b.picture(t, "worker-phone"+strings.ReplaceAll(path[:min(len(path), 5)], "/", "-")+".png")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.troubles) > 0 {
		t.Errorf("the browser reports %q", b.troubles)
	}
}

// picture saves a screenshot in the folder that GVBLL_SCREENSHOTS names, if it is set.
func (b *browser) picture(t *testing.T, name string) {
	t.Helper()
	b.pictureOf(t, name, chromedp.FullScreenshot(100))
}

func (b *browser) pictureOf(t *testing.T, name string, taken chromedp.Action[[]byte]) {
	t.Helper()
	dir := os.Getenv("GVBLL_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, taken)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, name), png, 0o644))
}
