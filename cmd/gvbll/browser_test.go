package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
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
		if strings.Contains(string(b), "serving until interrupted") {
			once.Do(func() { close(serving) })
		}
	})
	args := slices.DeleteFunc(smallDemo("--keep"), func(arg string) bool { return arg == "--json" })
	go func() { ended <- run(ctx, args, &out, &out) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	select {
	case <-serving:
	case code := <-ended:
		ended <- code
		t.Fatalf("exit code %d: %s", code, out.b)
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	return regexp.MustCompile(`http://[0-9.:]+`).FindString(string(out.b))
}

// figuresScript returns the figures on the page by the metrics that they show.
const figuresScript = `Object.fromEntries([...document.querySelectorAll("[data-metric]")].map(e => [e.dataset.metric, e.textContent]))`

// loaded waits until every picture is decoded, and returns their number.
const loaded = `Promise.all([...document.images].map(i => i.decode())).then(() => document.images.length)`

// TestLivePage looks at a running demo in a browser: in both colour schemes, on the
// screens of a desktop and a phone, with the keyboard alone, and without scripts. The
// page must show the same figures as the metrics, and load nothing from other hosts.
func TestLivePage(t *testing.T) {
	b := newBrowser(t)
	at := liveDemo(t)

	b.do(t, chromedp.EmulateViewport(1200, 900), chromedp.Navigate(at))
	if n := value[int](t, b, loaded); n != 4 {
		t.Errorf("the page has %d pictures, want 4", n)
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

	// A refresh changes in place what differs, so that the focus and the pictures stay.
	if !value[bool](t, b, `(async () => {
		const first = document.querySelector("dd"), was = first.textContent, picture = document.querySelector("picture");
		const link = document.querySelector("#latest-title ~ .wide a");
		first.textContent = "stale";
		link.focus();
		await refresh();
		return first.textContent === was && document.activeElement === link && document.contains(picture);
	})()`) {
		t.Error("a refresh leaves a stale figure, or loses the focus or a picture")
	}

	// In the dark colour scheme, and on a phone, where nothing may be wider than the page.
	call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	b.do(t, chromedp.Reload())
	value[int](t, b, loaded)
	if !value[bool](t, b, `[...document.images].every(i => i.currentSrc.includes("theme=dark"))`) {
		t.Error("in the dark colour scheme the pictures are light")
	}
	b.picture(t, "page-dark.png")
	b.do(t, chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile), chromedp.Reload())
	value[int](t, b, loaded)
	if value[bool](t, b, `document.documentElement.scrollWidth > innerWidth`) {
		t.Error("on a phone the page is wider than the screen")
	}
	b.picture(t, "page-phone.png")

	// With the keyboard alone, a reader gets to the scores and to a node's page.
	call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	b.do(t, chromedp.EmulateViewport(1200, 900), chromedp.Navigate(at), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	if hash := value[string](t, b, `location.hash`); hash != "#scores" {
		t.Errorf("the first link leads to %q, want #scores", hash)
	}
	value[bool](t, b, `document.querySelector("#latest-title ~ .wide a").focus() ?? true`)
	b.do(t, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(chromedp.CSS("meter")), chromedp.WaitNotPresent(chromedp.CSS("#scores")))
	if heading := value[string](t, b, `document.querySelector("h1").textContent`); !strings.HasPrefix(heading, "Node ") {
		t.Errorf("a node's page has the heading %q, want Node and its id", heading)
	}
	b.picture(t, "page-node.png")

	// Without scripts the page has the same text.
	call(t, b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.do(t, chromedp.Navigate(at))
	plain, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS("#main")))
	must(t, err)
	if !strings.Contains(plain, "Scores of what was served") {
		t.Error("without scripts the page has no scores")
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

// picture saves a screenshot in the folder that GVBLL_SCREENSHOTS names, if it is set.
func (b *browser) picture(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("GVBLL_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, name), png, 0o644))
}
