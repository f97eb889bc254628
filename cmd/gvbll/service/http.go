package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v2"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/topics/kafka"
)

// HTTPFlags are the flags of a command that serves HTTP.
type HTTPFlags struct {
	HTTP       string `help:"Address of the live page, the query API, /metrics, /healthz and /readyz." default:"${default_http}" placeholder:"${default_http}" name:"http"`
	HTTPConfig string `help:"File that turns on TLS and passwords there, in the format of Prometheus' exporters." name:"http-config" placeholder:"FILE"`
}

// Web serves /metrics, /healthz and /readyz, and the live page with the query
// API.
type Web struct {
	log      *slog.Logger
	listener *guardedListener
	server   *http.Server
	handler  http.Handler // of requests that need no password, or have the right one
	config   string       // the web configuration file, or ""
	private  bool         // it has TLS or asks for passwords
	asks     bool         // it asks everybody for a password or a certificate
	scheme   string
	path     string                                  // of its pages, "" for the server's root
	Registry *prometheus.Registry                    // that it serves
	cells    atomic.Pointer[prometheus.GathererFunc] // of their metrics, nil without any
	part     bool                                    // of another, which serves its pages
	Ready    atomic.Bool
	looked   atomic.Int64           // Unix time of the last request for the page or the API, in nanoseconds
	state    atomic.Pointer[state]  // nil until there is a connection to Kafka
	waits    atomic.Pointer[string] // what a start waits for besides, nil for nothing
	live     atomic.Pointer[http.Handler]
}

// state is what the probe of readiness asks.
type state struct {
	client  *kafka.Client
	unready func() string // what else keeps the worker from its work, "" for nothing
}

func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// Limits of a request. Only those with an event need a larger body.
const (
	maxHTTPHeader  = 16 << 10 // bytes
	maxHTTPBody    = 1 << 10  // bytes
	maxScrapes     = 4        // at once
	maxHTTPRequest = 20 * time.Second
)

// splitAddress returns the parts of an address that --http gives.
func splitAddress(addr string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(addr)
	if _, wrong := net.LookupPort("tcp", port); err != nil || wrong != nil {
		err = flags.Usagef("--http %s: give an address as host:port, such as 127.0.0.1:8473, or :0 for any free port", addr)
	}
	return host, port, err
}

// listen listens on the address that --http gives.
func listen(p flags.Process, addr string) (net.Listener, error) {
	if _, _, err := splitAddress(addr); err != nil {
		return nil, err
	}
	on := p.Listen
	if on == nil {
		on = net.Listen
	}
	l, err := on("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--http %s: %w: give another address, or :0 for any free port", addr, err)
	}
	return l, nil
}

// Listen returns a server that listens already, so that an address in use is an error
// at the start. The file config, in the format of Prometheus' exporters, turns on TLS and
// passwords. It is checked here; "" is no file.
func Listen(p flags.Process, addr, config string) (*Web, error) {
	scheme, private, asks, err := schemeOf(config)
	if err != nil {
		return nil, err
	}
	l, err := listen(p, addr)
	if err != nil {
		return nil, err
	}
	h := &Web{log: p.Log, config: config, scheme: scheme, private: private, asks: asks, listener: guardListener(l), Registry: newRegistry()}
	h.handle()
	return h, nil
}

// newPart returns what a cell's worker has instead of a server: its pages are served under a path of the server, and its metrics
// added to those of other cells.
func (h *Web) newPart(path string) *Web {
	return &Web{log: h.log, scheme: h.scheme, listener: h.listener, path: path, part: true, Registry: prometheus.NewRegistry()}
}

// show makes the server answer with a live page, beside metrics and probes.
func (h *Web) show(live http.Handler) {
	if h.part {
		h.handler = live
		return
	}
	h.live.Store(&live)
}

// watch has the probe of readiness ask a client for its troubles, and then what else keeps the worker from its work.
func (h *Web) watch(c *kafka.Client, unready func() string) { h.state.Store(&state{c, unready}) }

// WaitFor says what a start waits for, in a line: it is not ready until that is "".
func (h *Web) WaitFor(what string) { h.waits.Store(&what) }

// Gather gathers what /metrics has.
func (h *Web) Gather() ([]*dto.MetricFamily, error) {
	if cells := h.cells.Load(); cells != nil {
		return prometheus.Gatherers{h.Registry, *cells}.Gather()
	}
	return h.Registry.Gather()
}

// handle makes the server.
func (h *Web) handle() {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.InstrumentMetricHandler(h.Registry, promhttp.HandlerFor(h, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, Timeout: maxHTTPRequest, EnableOpenMetrics: true, // it has exemplars
	})))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := h.unready(); why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		ready := "ready"
		if s := h.state.Load(); s != nil {
			if _, throttled := s.client.Health.Throttled(); throttled {
				ready = "ready: throttled by a quota"
			}
			if what := s.client.Health.Partly(); what != "" {
				ready = "ready: waiting for " + what
			}
		}
		fmt.Fprintln(w, ready)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.looked.Store(time.Now().UnixNano())
		if live := h.live.Load(); live != nil {
			(*live).ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", "1") // seconds
		http.Error(w, h.unready(), http.StatusServiceUnavailable)
	})
	h.handler = bounded(mux)
	if !h.private && isLoopbackName(h.listener.Addr().String()) {
		h.handler = guardProbes(h.handler, guardNames(h.handler))
	}
	h.server = &http.Server{
		Handler: noteRequests(h.handler, false), ConnContext: withConn, ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelInfo),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: maxHTTPRequest + 10*time.Second,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: maxHTTPHeader,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 32, MaxReceiveBufferPerConnection: 64 << 10, MaxReceiveBufferPerStream: 64 << 10},
	}
}

// Close stops listening. It does nothing more after serve.
func (h *Web) Close() { h.listener.Close() }

// Guarded reports whether only those with a password or a certificate come in, or those on this machine.
func (h *Web) Guarded() bool { return h.asks || isLoopbackName(h.listener.Addr().String()) }

// unready says in one line why the worker cannot do its work now, "" if it can.
func (h *Web) unready() string {
	if s := h.state.Load(); s != nil {
		if what := s.client.Health.Trouble(); what != "" {
			return "waiting for Kafka: " + what
		}
		if what := s.unready(); what != "" {
			return what
		}
	}
	if what := h.waits.Load(); what != nil && *what != "" {
		return *what
	}
	if !h.Ready.Load() {
		return "replaying the ledger"
	}
	return ""
}

// bounded limits the size of request bodies for h.
func bounded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most := int64(maxHTTPBody)
		if strings.HasSuffix(r.URL.Path, page.PredictPath) || strings.HasSuffix(r.URL.Path, page.DecidePath) { // of a cell, too
			most = page.MaxPredictBody
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		h.ServeHTTP(w, r)
	})
}

// schemeOf checks the web configuration file, "" for none, and returns the scheme of URLs, whether there is TLS or
// a password, and whether everybody is asked for a password or a certificate.
func schemeOf(file string) (scheme string, private, asks bool, err error) {
	if file == "" {
		return "http", false, false, nil
	}
	var c web.Config
	err = web.Validate(file)
	if err == nil {
		var b []byte
		if b, err = os.ReadFile(file); err == nil {
			err = yaml.Unmarshal(b, &c)
		}
	}
	if err != nil {
		return "", false, false, fmt.Errorf("--http-config %s: %w", file, err)
	}
	asks = len(c.Users) > 0 || c.TLSConfig.ClientAuth == "RequireAndVerifyClientCert"
	if c.TLSConfig.IsEnabled() {
		return "https", true, asks, nil
	}
	return "http", asks, asks, nil
}

// Probe returns an error unless a program with these flags answers on this machine. It believes any
// certificate: nothing secret is sent.
func (f HTTPFlags) Probe(ctx context.Context, p flags.Process) error {
	scheme, _, _, err := schemeOf(f.HTTPConfig)
	if err != nil {
		return err
	}
	host, port, err := splitAddress(f.HTTP)
	if err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext:     p.Dial,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", req.URL, res.Status)
	}
	return nil
}

// Serve answers requests until the context ends.
func (h *Web) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { h.server.Close() })
	defer stop()
	serve := h.server.Serve
	if h.config != "" {
		// web.Serve replaces the handler by one that checks passwords, and then has the
		// server serve, which asks for its context once, before the first connection.
		passwords := newGuesses()
		h.server.Handler = passwords.note(noteRequests(h.handler, h.private))
		h.server.BaseContext = func(net.Listener) context.Context {
			h.server.Handler = noteRequests(guardProbes(h.handler, passwords.limit(h.server.Handler)), false)
			return context.Background()
		}
		serve = func(l net.Listener) error {
			return web.Serve(l, h.server, &web.FlagConfig{WebConfigFile: &h.config}, h.log)
		}
	}
	if err := serve(h.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Quiet returns for how long nobody has asked for the page or the API.
func (h *Web) Quiet() time.Duration { return time.Since(time.Unix(0, h.looked.Load())) }

func (h *Web) URL() string { return h.scheme + "://" + h.listener.Addr().String() + h.path }
