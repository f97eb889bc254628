package service

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/replay"
)

// serverOf serves the page of a worker that has not begun, until the test ends. config
// is a file as of --http-config, or "".
func serverOf(t *testing.T, config string) *Web {
	t.Helper()
	return serverOn(t, nil, config)
}

// serverOn is serverOf on a network, or on the system's if listen is nil.
func serverOn(t *testing.T, listen func(network, address string) (net.Listener, error), config string) *Web {
	t.Helper()
	h, err := Listen(flags.Process{Log: slog.New(slog.DiscardHandler), Listen: listen}, "127.0.0.1:0", config)
	must(t, err)
	h.show(emptyPage())
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- h.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := kafkatest.Receive(t, served, "the page has ended"); err != nil {
			t.Error(err)
		}
	})
	return h
}

// emptyPage returns the page of a worker that has not begun.
func emptyPage() *page.Server {
	m := &model.Model{Encoder: &gnn.SAGE{}}
	return page.New(page.Config{Graph: "g", Model: m, Now: time.Now, Decode: decodeNode})
}

// ask sends a request, and returns the status and the first bytes of the body.
func ask(t *testing.T, c *http.Client, req *http.Request) (status int, body string) {
	t.Helper()
	res, err := c.Do(req)
	must(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1000))
	must(t, err)
	return res.StatusCode, string(b)
}

func request(t *testing.T, method, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	must(t, err)
	return req
}

// TestHTTPServesNothingElse: the server answers GET for the live page, the API, /metrics,
// /healthz and /readyz, and nothing else: no profiles, which would show the memory of the
// process. /readyz and the API are unavailable until the ledger is replayed.
func TestHTTPServesNothingElse(t *testing.T) {
	t.Parallel()
	h := serverOf(t, "")
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, tc := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/metrics", 200},
		{"GET", "/healthz", 200},
		{"GET", "/readyz", 503},
		{"GET", "/", 200},
		{"GET", "/v1/status", 200},
		{"GET", "/metrics/", 404},
		{"GET", "/debug/pprof/", 404},
		{"GET", "/debug/pprof/heap", 404},
		{"GET", "/debug/vars", 404},
		{"GET", "/v1/nodes/1", 503},
		{"GET", "/v1/", 404},
		{"POST", "/metrics", 405},
		{"DELETE", "/healthz", 405},
		{"POST", "/", 405},
	} {
		if status, body := ask(t, client, request(t, tc.method, h.URL()+tc.path)); status != tc.status {
			t.Errorf("%s %s: status %d, want %d: %s", tc.method, tc.path, status, tc.status, body)
		}
	}
	h.Ready.Store(true)
	if status, body := ask(t, client, request(t, "GET", h.URL()+"/readyz")); status != 200 || body != "ready\n" {
		t.Errorf("/readyz when ready: status %d and %q", status, body)
	}
	long := request(t, "GET", h.URL()+"/metrics")
	long.Header.Set("X-Long", strings.Repeat("x", 2*maxHTTPHeader))
	if status, _ := ask(t, client, long); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header beyond the limit: status %d, want %d", status, http.StatusRequestHeaderFieldsTooLarge)
	}
}

// webConfig returns a file that turns on TLS, and what else it is given.
func webConfig(t *testing.T, authority *kafkatest.Authority, more string) (file string) {
	t.Helper()
	cert, key := authority.Issue(t, "127.0.0.1")
	file = filepath.Join(t.TempDir(), "web.yml")
	must(t, os.WriteFile(file, fmt.Appendf(nil, "tls_server_config:\n  cert_file: %s\n  key_file: %s\n%s", cert, key, more), 0o600))
	return file
}

// TestHTTPConfig: with TLS and a user in the file of --http-config, every path wants both,
// but for probes, which want TLS only.
func TestHTTPConfig(t *testing.T) {
	t.Parallel()
	authority := kafkatest.NewAuthority(t)
	// The bcrypt hash of the password "test".
	h := serverOf(t, webConfig(t, authority, "basic_auth_users:\n  prometheus: $2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay\n"))
	if !strings.HasPrefix(h.URL(), "https://") {
		t.Errorf("the URL is %s, want https", h.URL())
	}
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(authority.File)
	must(t, err)
	pool.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	right := request(t, "GET", h.URL()+"/metrics")
	right.SetBasicAuth("prometheus", "test")
	if status, body := ask(t, client, right); status != http.StatusOK {
		t.Errorf("with the password: status %d, want %d: %s", status, http.StatusOK, body)
	}
	for path, status := range map[string]int{"/healthz": 200, "/readyz": 503} {
		if got, body := ask(t, client, request(t, "GET", h.URL()+path)); got != status {
			t.Errorf("%s without the password: status %d, want %d: %s", path, got, status, body)
		}
	}
	for _, path := range []string{"/", "/metrics", "/v1/windows", "/healthz/", "//healthz"} {
		anonymous := request(t, "GET", h.URL()+path)
		wrong := request(t, "GET", h.URL()+path)
		wrong.SetBasicAuth("prometheus", "guess")
		for _, req := range []*http.Request{anonymous, wrong} {
			if status, body := ask(t, client, req); status != http.StatusUnauthorized {
				t.Errorf("%s without the password: status %d, want %d: %s", path, status, http.StatusUnauthorized, body)
			}
		}
	}
	probe := HTTPFlags{HTTP: strings.Replace(h.listener.Addr().String(), "127.0.0.1", "0.0.0.0", 1), HTTPConfig: h.config}
	if err := probe.Probe(t.Context(), flags.Process{}); err != nil {
		t.Errorf("the probe: %v", err)
	}
	if err := (HTTPFlags{HTTP: probe.HTTP}).Probe(t.Context(), flags.Process{}); err == nil || !strings.HasSuffix(err.Error(), "/healthz: 400 Bad Request") {
		t.Errorf("the probe without --http-config: error %v, want the status", err)
	}
	var unknown x509.UnknownAuthorityError
	if _, err := http.DefaultClient.Do(request(t, "GET", h.URL()+"/healthz")); !errors.As(err, &unknown) {
		t.Errorf("a client that does not trust the authority: error %v, want an unknown authority", err)
	}
	if status, _ := ask(t, client, request(t, "GET", "http://"+h.listener.Addr().String()+"/healthz")); status != http.StatusBadRequest {
		t.Errorf("a client without TLS: status %d, want %d", status, http.StatusBadRequest)
	}
}

// TestHTTPConfigThatIsWrong: an error in the file of --http-config stops the worker at
// its start, and names the flag, the file and what is wrong.
func TestHTTPConfigThatIsWrong(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "web.yml")
	for content, want := range map[string]string{
		"tls_server_config: {cert_file: nowhere.pem, key_file: k}": "nowhere.pem",
		"tls_server_config: {key_file: k}":                         "missing one of cert or cert_file",
		"basic_auth_users: {a: plain}":                             "hash",
		"unknown: field":                                           "unknown",
	} {
		must(t, os.WriteFile(file, []byte(content), 0o600))
		_, err := Listen(flags.Process{Log: slog.New(slog.DiscardHandler)}, "127.0.0.1:0", file)
		if err == nil || !strings.HasPrefix(err.Error(), "--http-config "+file+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", content, err, want)
		}
	}
}

// TestReadyzOfAWait: while a start waits for the store of bases, /readyz says so.
func TestReadyzOfAWait(t *testing.T) {
	t.Parallel()
	h := serverOf(t, "")
	s := &service{Board: &board{web: h}}
	s.on(replay.Waiting{For: "waiting for the store of bases: it is away"})
	if status, body := ask(t, clientFrom(t, "127.0.0.1"), request(t, "GET", h.URL()+"/readyz")); status != 503 || body != "waiting for the store of bases: it is away\n" {
		t.Errorf("/readyz: status %d, %q", status, body)
	}
}

// TestBucketInTheClear: every command that opens a bucket warns of one behind http://.
func TestBucketInTheClear(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL", "http://store.example:9000")
	var log strings.Builder
	if _, err := OpenBases(slog.New(slog.NewTextHandler(&log, nil)), "s3://bucket/bases", topics.Names{Ledger: "l"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "store.example:9000 in the clear") {
		t.Errorf("the log says %q", log.String())
	}
}

// TestBodies: /v1/predict accepts a body up to its limit, and no other path accepts one.
func TestBodies(t *testing.T) {
	t.Parallel()
	h := serverOf(t, "")
	for _, c := range []struct {
		path   string
		bytes  int
		status int
	}{
		{"/v1/predict", 10 << 10, http.StatusUnprocessableEntity},
		{"/v1/predict", 1<<20 + 1, http.StatusRequestEntityTooLarge},
		{"/v1/model", 10 << 10, http.StatusMethodNotAllowed},
	} {
		res, err := http.Post(h.URL()+c.path, "application/json", strings.NewReader(strings.Repeat("x", c.bytes)))
		must(t, err)
		res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("%d bytes to %s: status %s, want %d", c.bytes, c.path, res.Status, c.status)
		}
	}
}

// TestScrapesAreBounded: of a hundred scrapes at once that do not end, a few are begun, whose time is over after twenty seconds; no
// path reads of a body more than it has use for.
func TestScrapesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Web{log: slog.New(slog.DiscardHandler), private: true, Registry: prometheus.NewRegistry()}
		h.handle()
		var begun, busy, read atomic.Int64
		ended := make(chan bool)
		must(t, h.Registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "gvbll_slow"}, func() float64 {
			begun.Add(1)
			<-ended
			return 0
		})))
		live := http.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			read.Add(n)
		}))
		h.live.Store(&live)
		get := func(method, path string, body io.Reader) int {
			w := httptest.NewRecorder()
			h.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, body))
			return w.Code
		}
		var all sync.WaitGroup
		for range 25 * maxScrapes {
			all.Go(func() {
				if get("GET", "/metrics", nil) == http.StatusServiceUnavailable {
					busy.Add(1)
				}
			})
		}
		synctest.Wait()
		if begun.Load() != maxScrapes || busy.Load() != 24*maxScrapes {
			t.Errorf("%d scrapes are begun and %d refused, want %d and the others", begun.Load(), busy.Load(), maxScrapes)
		}
		began := time.Now()
		all.Wait()
		if took := time.Since(began); took != maxHTTPRequest || busy.Load() != 25*maxScrapes {
			t.Errorf("after %v %d scrapes have ended, want all after %v", took, busy.Load(), maxHTTPRequest)
		}
		close(ended)
		for range 10 {
			get("POST", "/", strings.NewReader(strings.Repeat("x", 1000*maxHTTPBody)))
		}
		if read.Load() != 10*maxHTTPBody {
			t.Errorf("%d bytes of ten bodies are read, want %d", read.Load(), 10*maxHTTPBody)
		}
	})
}

// TestGuarded: a page asks everybody who they are with a password, or where clients need a certificate; TLS alone asks nobody.
func TestGuarded(t *testing.T) {
	const user = "basic_auth_users:\n  me: $2y$05$Q8xwpsxGhrNEjmVXxl0nmuZ2t1n0eKZnbFSaeHO.yRzhM1nFaMqeK\n"
	passwords := filepath.Join(t.TempDir(), "web.yml")
	must(t, os.WriteFile(passwords, []byte(user), 0o600))
	for _, c := range []struct {
		addr, config string
		want         bool
	}{
		{"127.0.0.1:0", "", true},
		{":0", "", false},
		{":0", passwords, true},
		{":0", webConfig(t, kafkatest.NewAuthority(t), ""), false},
		{":0", webConfig(t, kafkatest.NewAuthority(t), user), true},
	} {
		h, err := Listen(flags.Process{Log: slog.New(slog.DiscardHandler)}, c.addr, c.config)
		must(t, err)
		if h.Guarded() != c.want {
			t.Errorf("%s with %q: guarded is %v, want %v", c.addr, c.config, h.Guarded(), c.want)
		}
		h.Close()
	}
}

// TestAddresses: an address of --http that is none is refused with how to write one, before anything listens.
func TestAddresses(t *testing.T) {
	for _, addr := range []string{"8473", "localhost", "localhost:99999", ":http-port", "::1:80"} {
		_, listening := Listen(flags.Process{}, addr, "")
		for _, err := range []error{listening, HTTPFlags{HTTP: addr}.Probe(t.Context(), flags.Process{})} {
			if err == nil || !strings.Contains(err.Error(), "--http "+addr+": give an address as host:port, such as 127.0.0.1:8473") {
				t.Errorf("--http %s: %v", addr, err)
			}
		}
	}
}

// TestPageBeforeItIsShown: until a worker's page is complete, what it will answer is told to come again, calls of --decide among it.
func TestPageBeforeItIsShown(t *testing.T) {
	h, err := Listen(flags.Process{Log: slog.New(slog.DiscardHandler)}, "127.0.0.1:0", "")
	must(t, err)
	t.Cleanup(h.Close)
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), "POST", h.URL()+page.DecidePath, strings.NewReader(`{"id": 1}`))
	if h.handler.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("a call while the worker starts is answered %d, want 503 with Retry-After: %s", w.Code, w.Body)
	}
}
