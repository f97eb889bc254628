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

// browser starts a Chromium of its own, and notes what it complains of and whom
// it asks.
type browser struct {
	ctx context.Context

	mu       sync.Mutex
	troubles []string
	hosts    map[string]bool
}

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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func call[P, R any](t *testing.T, b *browser, c cdp.Command[P, R], params P) {
	t.Helper()
	_, err := chromedp.Call(b.ctx, c, params)
	must(t, err)
}

func (b *browser) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	must(t, chromedp.Do(b.ctx, steps...))
}

// value runs a script, and waits for its promise.
func value[T any](t *testing.T, b *browser, script string) T {
	t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	must(t, err)
	return v
}

// liveDemo is a small demo that goes on serving until the test ends. It returns
// where its page is.
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
	args := slices.DeleteFunc(small("--keep"), func(arg string) bool { return arg == "--json" })
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

const figuresScript = `Object.fromEntries([...document.querySelectorAll("[data-metric]")].map(e => [e.dataset.metric, e.textContent]))`

// loaded waits until every picture is there, whole.
const loaded = `Promise.all([...document.images].map(i => i.decode())).then(() => document.images.length)`

// TestLivePage looks at a running demo as people do: with a browser, on a desk
// and on a phone, by day and by night, with the keyboard, and without scripts.
func TestLivePage(t *testing.T) {
	b := newBrowser(t)
	at := liveDemo(t)

	b.do(t, chromedp.EmulateViewport(1200, 900), chromedp.Navigate(at))
	if n := value[int](t, b, loaded); n != 4 {
		t.Errorf("%d pictures", n)
	}
	figures := value[map[string]string](t, b, figuresScript)
	metrics := metricsWhen(t, at, func(metricsPage) bool { return true })
	if len(figures) < 20 {
		t.Errorf("%d figures on the page", len(figures))
	}
	for name, shown := range figures {
		v, exported := metrics[name]
		if !exported || shown != fmt.Sprintf("%.4f", v) && shown != fmt.Sprint(int64(v)) {
			t.Errorf("%s is %s on the page and %v in the metrics", name, shown, v)
		}
	}
	b.picture(t, "page-light.png")

	// What differs is changed in place: who has the focus keeps it.
	if !value[bool](t, b, `(async () => {
		const first = document.querySelector("dd"), was = first.textContent, picture = document.querySelector("picture");
		const link = document.querySelector("#latest-title ~ .wide a");
		first.textContent = "stale";
		link.focus();
		await refresh();
		return first.textContent === was && document.activeElement === link && document.contains(picture);
	})()`) {
		t.Error("a refresh does not bring what is new, or takes away the focus or a picture")
	}

	// By night, and on a phone: nothing is wider than the page.
	call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	b.do(t, chromedp.Reload())
	value[int](t, b, loaded)
	if !value[bool](t, b, `[...document.images].every(i => i.currentSrc.includes("theme=dark"))`) {
		t.Error("by night pictures are those of the day")
	}
	b.picture(t, "page-dark.png")
	b.do(t, chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile), chromedp.Reload())
	value[int](t, b, loaded)
	if value[bool](t, b, `document.documentElement.scrollWidth > innerWidth`) {
		t.Error("on a phone the page is wider than the screen")
	}
	b.picture(t, "page-phone.png")

	// With the keyboard alone, to the scores and to a node.
	call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	b.do(t, chromedp.EmulateViewport(1200, 900), chromedp.Navigate(at), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	if hash := value[string](t, b, `location.hash`); hash != "#scores" {
		t.Errorf("the first key leads to %q", hash)
	}
	value[bool](t, b, `document.querySelector("#latest-title ~ .wide a").focus() ?? true`)
	b.do(t, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(chromedp.CSS("meter")), chromedp.WaitNotPresent(chromedp.CSS("#scores")))
	if heading := value[string](t, b, `document.querySelector("h1").textContent`); !strings.HasPrefix(heading, "Node ") {
		t.Errorf("a node's page is headed %q", heading)
	}
	b.picture(t, "page-node.png")

	// Without scripts there is the same to read.
	call(t, b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.do(t, chromedp.Navigate(at))
	plain, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS("#main")))
	must(t, err)
	if !strings.Contains(plain, "Scores of what was served") {
		t.Error("without scripts there is nothing to read")
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.troubles) > 0 {
		t.Errorf("the browser complains: %q", b.troubles)
	}
	if here := strings.TrimPrefix(at, "http://"); len(b.hosts) != 1 || !b.hosts[here] {
		t.Errorf("the page is at %s and asks %v", here, b.hosts)
	}
}

// picture keeps a screenshot in the folder GVBLL_SCREENSHOTS, if that is set.
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
