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

// Config says what is shown. Every field must be set.
type Config struct {
	Model    *model.Model
	Settings string // the engine's, as the ledger binds them
	Version  string // the program's
	// Decode reads the body of a question about a node that has not come: a node
	// event in JSON. reason and detail say why it would be refused.
	Decode func(body []byte) (n *event.Node, reason event.Reason, detail string)
	// Now is the clock.
	Now func() time.Time
}

// Limits of what is asked.
const (
	// PredictPath is where nodes are described that have not come. No other path
	// takes a body.
	PredictPath = "/v1/predict"
	// MaxPredictBody is the most bytes of such a body.
	MaxPredictBody = 1 << 20

	maxNeighbours = 1 << 12 // of a node that has not come
	maxQuestions  = 4       // asked or waiting to be asked of the engine
	maxWait       = 5 * time.Second
)

// Server serves the page and the API. Its methods may be called by many
// goroutines at once.
type Server struct {
	cfg       Config
	mux       *http.ServeMux
	ask       atomic.Pointer[func(func(*pipeline.Engine))]
	questions chan struct{}
	pictures  pictures

	mu sync.Mutex
	h  history
}

// New returns a server that has seen nothing yet.
func New(cfg Config) *Server {
	s := &Server{
		cfg: cfg, mux: http.NewServeMux(), questions: make(chan struct{}, maxQuestions),
		h: newHistory(len(cfg.Model.Classes), cfg.Now()),
	}
	s.h.model = cfg.Model
	s.routes()
	return s
}

// Attach lets the server answer what only the engine knows. ask calls its
// argument, once and before it returns, with an engine that does nothing else
// meanwhile.
func (s *Server) Attach(ask func(func(*pipeline.Engine))) { s.ask.Store(&ask) }

// Stepped tells of a window, in the order of their numbers.
func (s *Server) Stepped(w Window) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.step(w)
}

// Show tells how all heads have done so far, the serving one first.
func (s *Server) Show(scores []pipeline.Summary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.scores = scores
	s.h.version++
}

// Serves tells which model serves from now on: another of the same classes.
func (s *Server) Serves(m *model.Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.model = m
	s.h.shadow, s.h.beside = "", nil
	s.h.version++
}

// ShowShadow tells how all heads of the model in the shadow have done so far.
func (s *Server) ShowShadow(id string, scores []pipeline.Summary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.shadow, s.h.beside = id, scores
}

// Committed tells of a commit, at the given time.
func (s *Server) Committed(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.commit = at
}

// Lag tells how many committed records of a topic are in no window yet.
func (s *Server) Lag(topic string, records int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.lag[topic] = records
}

// Owns tells that this worker is the one that serves the graph.
func (s *Server) Owns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.owner = true
	s.h.version++
}

// ServeHTTP implements http.Handler. Paths of others answer that there is
// nothing.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	s.mux.ServeHTTP(w, r)
}

func (s *Server) routes() {
	s.api("GET", "/v1/nodes/{id}", s.node)
	s.api("GET", "/v1/model", s.model)
	s.api("GET", "/v1/posterior", s.posterior)
	s.api("GET", "/v1/pool", s.pool)
	s.api("GET", "/v1/windows", s.windows)
	s.api("POST", PredictPath, s.predict)
	s.mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, files, "files/openapi.json")
	})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if allowed(w, r, http.MethodGet) {
			noSuchPage.because(fmt.Sprintf("%.80q: see / and /v1/openapi.json", r.URL.Path)).write(w)
		}
	})
	s.pages()
}

// api has a path answer with JSON, or with a problem; to other methods, that
// there is only this one.
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

// allowed answers to other methods than the given one; to HEAD, if it is GET, it
// does not.
func allowed(w http.ResponseWriter, r *http.Request, method string) bool {
	if r.Method == method || method == http.MethodGet && r.Method == http.MethodHead {
		return true
	}
	allow := strings.Replace(method, http.MethodGet, "GET, HEAD", 1)
	w.Header().Set("Allow", allow)
	wrongMethod.because(fmt.Sprintf("%.20q where %s is taken", r.Method, allow)).write(w)
	return false
}

// engine asks the engine, when its turn comes.
func (s *Server) engine(ctx context.Context, f func(*pipeline.Engine)) *problem {
	ask := s.ask.Load()
	if ask == nil {
		return notReady.because("this worker does not stand where the ledger ends yet: try again")
	}
	ctx, stop := context.WithTimeout(ctx, maxWait)
	defer stop()
	select {
	case s.questions <- struct{}{}:
		defer func() { <-s.questions }()
	case <-ctx.Done():
		return busy.because("other questions are waiting: try again")
	}
	(*ask)(f)
	return nil
}
