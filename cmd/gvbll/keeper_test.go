package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gvbll/gvbll/cmd/gvbll/bench"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestAskedWhileItServes: a demo that is asked all the time, of nodes, of what
// would be, of its posterior and for its page, serves and learns what one does
// that nobody asks.
func TestAskedWhileItServes(t *testing.T) {
	var out, errs lines
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	found := make(chan string, 1)
	var once sync.Once
	address := regexp.MustCompile(`live page +(http://[0-9.:]+),`)
	errs.when = append(errs.when, func(b []byte) {
		if m := address.FindSubmatch(b); m != nil {
			once.Do(func() { found <- string(m[1]) })
		}
	})
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, small("--label-delay", "2"), &out, &errs) }()

	var at string
	select {
	case at = <-found:
	case code := <-ended:
		t.Fatalf("exit code %d: %s", code, errs.b)
	}
	var answered atomic.Int64
	var askers sync.WaitGroup
	done := make(chan bool)
	for asker := range 4 {
		askers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				features := "[0" + strings.Repeat(",1", 127) + "]"
				for _, ask := range []func() (*http.Response, error){
					func() (*http.Response, error) { return http.Get(fmt.Sprint(at, "/v1/nodes/", (asker+4*i)%1500)) },
					func() (*http.Response, error) {
						return http.Post(at+"/v1/predict", "application/json", strings.NewReader(fmt.Sprintf(`{"id":"x","features":%s,"neighbours":[%d,%d,%d]}`, features, i, 2*i, 3*i)))
					},
					func() (*http.Response, error) { return http.Get(at + "/v1/posterior?moments=true") },
					func() (*http.Response, error) { return http.Get(at + "/") },
				} {
					res, err := ask()
					if err != nil {
						return // the demo has ended
					}
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
					switch res.StatusCode {
					case http.StatusOK:
						answered.Add(1)
					case http.StatusNotFound, http.StatusServiceUnavailable: // not yet
					default:
						t.Errorf("%s: %s", res.Request.URL, res.Status)
						return
					}
				}
			}
		})
	}
	code := <-ended
	close(done)
	askers.Wait()
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs.b)
	}
	got, want := summaryOf(t, out.b), direct(t, true)
	if got.Chain != want.Chain || got.Posterior != want.Posterior {
		t.Errorf("what was served differs for having been asked about")
	}
	if answered.Load() == 0 {
		t.Error("nothing was answered")
	}
}

// TestKeeperOutcomeHolds: a window's predictions stay as they are while the next
// one is stepped, as worker.Engine wants: they are being encoded.
func TestKeeperOutcomeHolds(t *testing.T) {
	w := bench.Workload{Features: 16, Hidden: 16, Embedding: 8, Classes: 5, Window: 20, Seed: 1}.WithDefaults()
	m, err := w.Model()
	if err != nil {
		t.Fatal(err)
	}
	e, err := fresh(pipeline.Config{}, m)()
	if err != nil {
		t.Fatal(err)
	}
	stream := w.Stream()
	encoded := func(out *event.Outcome) (b []byte) {
		for i := range out.Predictions {
			b = wire.AppendPrediction(b, &out.Predictions[i])
		}
		return b
	}
	var last *event.Outcome
	var want []byte
	for range 10 {
		out := e.Step(stream.Next(false))
		if last != nil && !bytes.Equal(encoded(last), want) {
			t.Fatalf("window %d changed the predictions of the one before", out.Window)
		}
		last, want = out, encoded(out)
		if len(want) == 0 {
			t.Fatal("nothing was predicted")
		}
	}
}

// TestBodies: one path takes a body, up to its limit.
func TestBodies(t *testing.T) {
	h := webServer(t, "")
	for _, c := range []struct {
		path   string
		bytes  int
		status int
	}{
		{"/v1/predict", 10 << 10, http.StatusUnprocessableEntity},
		{"/v1/predict", 1<<20 + 1, http.StatusRequestEntityTooLarge},
		{"/v1/model", 10 << 10, http.StatusMethodNotAllowed},
	} {
		res, err := http.Post(h.url()+c.path, "application/json", strings.NewReader(strings.Repeat("x", c.bytes)))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("%d bytes to %s: %s", c.bytes, c.path, res.Status)
		}
	}
}
