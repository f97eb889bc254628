package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// Config configures a Server. Every field must be set.
type Config struct {
	Graph    string         // its name: the prefix of its topics
	Model    *model.Model   // the model that serves at first
	Settings event.Settings // of the engine, as the ledger records them
	Version  string         // of the program
	Flags    []Flag         // of the command that runs
	// Decode decodes the body of a request to [PredictPath]: a node event in JSON.
	// A reason other than "" means that the event is invalid; detail explains it.
	Decode func(body []byte) (n *event.Node, reason event.Reason, detail string)
	// Now is the clock.
	Now func() time.Time
}

// Limits of requests.
const (
	// PredictPath, like DecidePath, accepts a request body.
	PredictPath = "/v1/predict"
	// MaxPredictBody is the largest size of such a body, in bytes.
	MaxPredictBody = 1 << 20

	maxNeighbours = 1 << 12 // of a node in a request to PredictPath
	maxBodies     = 4       // bodies that are read, decoded or asked about
	maxQuestions  = 4       // requests that use the engine or wait for it
	maxWait       = 5 * time.Second
)

// Server serves the page and the API. Its methods may be called by many
// goroutines at once.
type Server struct {
	cfg       Config
	mux       *http.ServeMux // nil until somebody asks
	routed    sync.Once
	ask       atomic.Pointer[func(func(*pipeline.Engine))] // nil until Attach
	desk      atomic.Pointer[Desk]                         // nil until Decides
	bodies    chan struct{}                                // holds one element per request whose body is in memory
	trouble   atomic.Pointer[func() string]                // see Watch
	questions chan struct{}                                // holds one element per request that uses the engine
	started   time.Time
	past      Past
}

// New returns a server with an empty history.
func New(cfg Config) *Server {
	s := &Server{
		cfg: cfg, questions: make(chan struct{}, maxQuestions), bodies: make(chan struct{}, maxBodies),
		past: Past{h: newHistory()}, started: cfg.Now(),
	}
	s.past.h.model = cfg.Model
	s.past.classes.Store(&cfg.Model.Classes)
	return s
}

// className returns the name of a class, "" of none.
func (p *Past) className(class int32) string {
	if names := *p.classes.Load(); class != noLabel && int(class) < len(names) {
		return names[class]
	}
	return "" // also of a model whose promotion has not been reported yet
}

// Past returns what is reported to the server.
func (s *Server) Past() *Past { return &s.past }

// Attach lets the server ask the engine. ask must call its argument once, before it
// returns, with an engine that nothing else uses meanwhile.
func (s *Server) Attach(ask func(func(*pipeline.Engine))) { s.ask.Store(&ask) }

// Watch has the pages say that the worker waits for Kafka while trouble returns what is wrong.
func (s *Server) Watch(trouble func() string) { s.trouble.Store(&trouble) }

// ServeHTTP implements [http.Handler]. Unknown paths get 404.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.routed.Do(s.routes) // nobody asks for most of a thousand cells' pages
	secured(s.mux).ServeHTTP(w, r)
}

// secured answers with the headers that all pages have.
func secured(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; img-src data:; style-src 'self'; script-src 'self'; "+
			"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		pages.ServeHTTP(w, r)
	})
}

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("GET /{$}", s.livePage)
	s.mux.HandleFunc("GET /node", s.nodePage)
	s.mux.HandleFunc("GET /pictures/calibration", s.picture)
	s.mux.HandleFunc("GET /page.css", file("page.css"))
	s.mux.HandleFunc("GET /page.js", file("page.js"))
	s.api("GET", "/v1/nodes/{id}", s.node)
	s.api("GET", "/v1/model", func(*http.Request) (any, *problem) { return s.modelValue(), nil })
	s.api("GET", "/v1/posterior", s.posterior)
	s.api("GET", "/v1/pool", s.pool)
	s.api("GET", "/v1/windows", s.windows)
	s.api("GET", "/v1/refused", s.refused)
	s.api("GET", "/v1/status", func(*http.Request) (any, *problem) { return s.statusValue(), nil })
	s.api("POST", PredictPath, s.predict)
	s.api("POST", DecidePath, s.decide)
	s.mux.HandleFunc("GET /v1/openapi.json", file("openapi.json"))
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if allowed(w, r, http.MethodGet) {
			noSuchPage.because(fmt.Sprintf("%.80q: see / and /v1/openapi.json", r.URL.Path)).write(w)
		}
	})
}

// api registers a path that answers with JSON or a problem, and rejects all methods
// but one.
func (s *Server) api(method, path string, answer func(*http.Request) (any, *problem)) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if !allowed(w, r, method) {
			return
		}
		v, p := answer(r)
		if p != nil {
			p.write(w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		if r.URL.Query().Has("pretty") {
			e.SetIndent("", "  ")
		}
		_ = e.Encode(v) // an error is the client's
	})
}

// allowed reports whether a request has the given method, or HEAD for GET. If not, it
// answers that.
func allowed(w http.ResponseWriter, r *http.Request, method string) bool {
	if r.Method == method || method == http.MethodGet && r.Method == http.MethodHead {
		return true
	}
	allow := strings.Replace(method, http.MethodGet, "GET, HEAD", 1)
	w.Header().Set("Allow", allow)
	wrongMethod.because(fmt.Sprintf("%.20q where only %s is allowed", r.Method, allow)).write(w)
	return false
}

// engine calls f with the engine. It fails if it would have to wait for other requests
// for longer than maxWait.
func (s *Server) engine(ctx context.Context, f func(*pipeline.Engine)) *problem {
	ask := s.ask.Load()
	if ask == nil {
		return notReady.because("this worker is still replaying the ledger: try again")
	}
	done, p := wait(ctx, s.questions)
	if p != nil {
		return p
	}
	defer done()
	(*ask)(f)
	return nil
}

// wait waits for a place among the turns, for maxWait at most. The caller must call done
// when it is over.
func wait(ctx context.Context, turns chan struct{}) (done func(), p *problem) {
	ctx, stop := context.WithTimeout(ctx, maxWait)
	defer stop()
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, busy.because("other requests are waiting for the engine: try again")
	}
}
