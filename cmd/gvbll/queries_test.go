package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestQueriesDoNotDisturb: a demo whose API and page are queried all the time, for nodes,
// what-if predictions and the posterior, ends with the hashes of one that is not queried.
// Queries share the engine with the worker, and must not change its state.
func TestQueriesDoNotDisturb(t *testing.T) {
	t.Parallel()
	var out, errs lines
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	found := make(chan string, 1)
	var once sync.Once
	address := regexp.MustCompile(`live page +(http://[0-9.:]+)\n`)
	errs.when = append(errs.when, func(b []byte) {
		if m := address.FindSubmatch(b); m != nil {
			once.Do(func() { found <- string(m[1]) })
		}
	})
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, smallDemo(t, "--label-delay", "2"), (&shell{t: t}).process(&out, &errs)) }()

	var at string
	select {
	case at = <-found:
	case code := <-ended:
		t.Fatalf("exit code %d: %s", code, &errs)
	case <-time.After(kafkatest.Patience):
		t.Fatalf("after %v the demo has not said where its page is: %s", kafkatest.Patience, &errs)
	}
	var answered atomic.Int64
	var clients sync.WaitGroup
	done := make(chan bool)
	for client := range 4 {
		clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				features := "[0" + strings.Repeat(",1", 127) + "]"
				for _, ask := range []func() (*http.Response, error){
					func() (*http.Response, error) { return http.Get(fmt.Sprint(at, "/v1/nodes/", (client+4*i)%1500)) },
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
					case http.StatusNotFound, http.StatusServiceUnavailable: // the node or the page is not there yet
					default:
						t.Errorf("%s: %s", res.Request.URL, res.Status)
						return
					}
				}
			}
		})
	}
	code := kafkatest.Receive(t, ended, "the demo has ended")
	close(done)
	clients.Wait()
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs.b)
	}
	got, want := summaryOf(t, out.b), direct(t, true)
	if got.Chain != want.Chain || got.Posterior != want.Posterior {
		t.Errorf("with queries chain %s and posterior %s, without %s and %s", got.Chain, got.Posterior, want.Chain, want.Posterior)
	}
	if answered.Load() == 0 {
		t.Error("no query was answered")
	}
}
