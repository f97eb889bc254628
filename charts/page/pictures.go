package page

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gvbll/gvbll/charts/plot"
	"github.com/gvbll/gvbll/pipeline"
)

// pictures keeps what was drawn last, so that any number of readers cost one
// drawing a second.
type pictures struct {
	mu   sync.Mutex
	last map[string]drawn
}

type drawn struct {
	version uint64
	at      time.Time
	svg     []byte
}

// redraw is how old a picture may be that is shown while there is a newer state.
const redraw = time.Second

// The pictures by name; each returns false while there is nothing to plot.
func (s *Server) gallery() map[string]func(context.Context) (plot.Picture, bool) {
	return map[string]func(context.Context) (plot.Picture, bool){
		"reliability": s.reliability, "curves": s.curves, "posterior": s.heat, "pool": s.together,
	}
}

// picture serves GET /pictures/NAME.svg?theme=dark.
func (s *Server) picture(w http.ResponseWriter, r *http.Request) {
	paint, known := s.gallery()[r.PathValue("name")]
	t, fits := map[string]plot.Theme{"": plot.Light, "light": plot.Light, "dark": plot.Dark}[r.URL.Query().Get("theme")]
	if !known || !fits {
		noSuchPage.because("there is no such picture").write(w)
		return
	}
	s.mu.Lock()
	version := s.h.version
	s.mu.Unlock()
	key := r.PathValue("name") + strconv.Itoa(int(t))

	// One drawing at a time: nobody gains by two.
	s.pictures.mu.Lock()
	defer s.pictures.mu.Unlock()
	d := s.pictures.last[key]
	if now := s.cfg.Now(); d.svg == nil || d.version != version && now.Sub(d.at) >= redraw {
		p, ok := paint(r.Context())
		p.Theme = t
		if ok {
			svg, err := p.SVG()
			d, ok = drawn{version: version, at: now, svg: svg}, err == nil
		}
		if !ok {
			noSuchPage.because("there is nothing to draw yet").write(w)
			return
		}
		if s.pictures.last == nil {
			s.pictures.last = map[string]drawn{}
		}
		s.pictures.last[key] = d
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Content-Length", strconv.Itoa(len(d.svg)))
	_, _ = w.Write(d.svg) // an error is the client's
}

// pictured tells which heads are drawn: the one that serves, and of a pool's those
// of the paper, to compare with. More would be a thicket; all are in the table.
func pictured(head int, name string) bool {
	return head == 0 || name == "online" || name == "static"
}

// reliability is all labels' so far, of the heads that are drawn.
func (s *Server) reliability(context.Context) (plot.Picture, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var diagrams []plot.Diagram
	for i := range s.h.scores {
		if s.h.scores[i].Total().Labels > 0 && pictured(i, s.h.scores[i].Head) {
			diagrams = append(diagrams, diagramOf(&s.h.scores[i]))
		}
	}
	return plot.Reliability("", diagrams...), len(diagrams) > 0
}

func diagramOf(s *pipeline.Summary) plot.Diagram {
	d := plot.Diagram{Name: s.Head}
	bins := s.Total().Bins
	for i, b := range bins {
		if b.Count == 0 {
			continue
		}
		n := float64(b.Count)
		d.Bins = append(d.Bins, plot.Bin{
			Low: float64(i) / float64(len(bins)), High: float64(i+1) / float64(len(bins)), Count: int(b.Count),
			Confidence: min(b.SumConfidence/n, 1), Accuracy: float64(b.Correct) / n,
		})
	}
	return d
}

// curves are the scores over the windows that had labels.
func (s *Server) curves(context.Context) (plot.Picture, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	points := s.h.curve.points
	if len(points) == 0 {
		return plot.Picture{}, false
	}
	var accuracy, nll, ece []plot.Series
	for h := range points[0].heads {
		name := s.h.heads[h].name
		if !pictured(h, name) {
			continue
		}
		a, n, e := plot.Series{Name: name}, plot.Series{Name: name}, plot.Series{Name: name}
		for i := range points {
			x, means := float64(points[i].last), points[i].heads[h].Means()
			a.X, a.Y = append(a.X, x), append(a.Y, means.Acc)
			n.X, n.Y = append(n.X, x), append(n.Y, means.NLL)
			e.X, e.Y = append(e.X, x), append(e.Y, means.ECE)
		}
		accuracy, nll, ece = append(accuracy, a), append(nll, n), append(ece, e)
	}
	return plot.Curves("", "window", accuracy, nll, ece), true
}

// maxHeat is the most columns of the map; more would not be told apart.
const maxHeat = 480

// heat is the posterior that serves: its means, and its standard deviations.
func (s *Server) heat(ctx context.Context) (plot.Picture, bool) {
	var b *pipeline.Belief
	if p := s.engine(ctx, func(e *pipeline.Engine) { b = e.Belief() }); p != nil {
		return plot.Picture{}, false
	}
	means, deviations := matrices(b)
	maps := []plot.Map{
		{Title: "Means M", Diverging: true, Values: means},
		{Title: "Standard deviations σ", Values: deviations},
	}
	for i := range maps {
		m := &maps[i]
		m.Rows, m.Columns, m.XLabel = s.cfg.Model.Classes, len(m.Values)/len(s.cfg.Model.Classes), "dimension of the embedding"
		if m.Columns < b.Posterior.Dim {
			m.XLabel = fmt.Sprintf("dimension of the embedding, the first %d of %d", m.Columns, b.Posterior.Dim)
		}
	}
	return plot.Heat("", maps...), true
}

// matrices returns the moments by class, classes × dimensions.
func matrices(b *pipeline.Belief) (means, deviations []float64) {
	q := &b.Posterior
	dims := min(q.Dim, maxHeat)
	for c := range q.Classes {
		for j := range dims {
			i := j*q.Classes + c
			means = append(means, q.Mean[i])
			deviations = append(deviations, b.Deviation[i])
		}
	}
	return means, deviations
}
