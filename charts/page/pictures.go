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

// pictures caches pictures, so that each is drawn once a second at most, however many
// readers there are.
type pictures struct {
	mu   sync.Mutex
	last map[string]drawn // by name, theme and layout
}

type drawn struct {
	version uint64 // of the history
	at      time.Time
	svg     []byte
}

// redraw is the age up to which a picture is served though the history has changed.
const redraw = time.Second

// picture serves GET /pictures/NAME?theme=dark&layout=stacked.
func (s *Server) picture(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	draw, known := map[string]func(context.Context) (plot.Picture, bool){
		"reliability": s.reliability, "curves": s.curves, "posterior": s.moments, "neighbours": s.neighbours,
	}[name]
	theme, valid := map[string]plot.Theme{"": plot.Light, "light": plot.Light, "dark": plot.Dark}[r.URL.Query().Get("theme")]
	stacked, laidOut := map[string]bool{"": false, "wide": false, "stacked": true}[r.URL.Query().Get("layout")]
	if !known || !valid || !laidOut {
		noSuchPage.because("there is no such picture").write(w)
		return
	}
	s.mu.Lock()
	version := s.h.version
	s.mu.Unlock()
	key := fmt.Sprint(name, theme, stacked)

	s.pictures.mu.Lock() // held while drawing, so that others wait for the same picture
	defer s.pictures.mu.Unlock()
	d := s.pictures.last[key]
	if now := s.cfg.Now(); d.svg == nil || d.version != version && now.Sub(d.at) >= redraw {
		p, ok := draw(r.Context())
		p.Theme, p.Stacked = theme, stacked
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

// The methods below draw one picture each. They return false while there is nothing
// to plot.

// pictured reports whether a head is drawn: the serving one and, for comparison with a
// pool, the paper's. A picture of all heads of a pool would be unreadable; the table of
// scores has them.
func pictured(head int, name string) bool {
	return head == 0 || name == "online" || name == "static"
}

// reliability draws reliability diagrams over all labels so far.
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

// curves draws the scores over the windows that had labels.
func (s *Server) curves(context.Context) (plot.Picture, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	points := s.h.curve.points
	if len(points) == 0 {
		return plot.Picture{}, false
	}
	var accuracy, nll, ece []plot.Series
	for h, name := range s.h.heads {
		if !pictured(h, name) {
			continue
		}
		a, n, e := plot.Series{Name: name}, plot.Series{Name: name}, plot.Series{Name: name}
		for i := range points {
			x, m := float64(points[i].last), points[i].heads[h].Means()
			a.X, a.Y = append(a.X, x), append(a.Y, m.Acc)
			n.X, n.Y = append(n.X, x), append(n.Y, m.NLL)
			e.X, e.Y = append(e.X, x), append(e.Y, m.ECE)
		}
		accuracy, nll, ece = append(accuracy, a), append(nll, n), append(ece, e)
	}
	return plot.Curves("", "window", accuracy, nll, ece), true
}

// maxColumns is the largest number of columns of a heat map that can be told apart.
const maxColumns = 480

// moments draws the posterior's means and standard deviations, by class and
// dimension of the embedding.
func (s *Server) moments(ctx context.Context) (plot.Picture, bool) {
	var b *pipeline.PosteriorReport
	var classes []string
	if p := s.engine(ctx, func(e *pipeline.Engine) { b, classes = e.PosteriorReport(), e.Model().Classes }); p != nil {
		return plot.Picture{}, false
	}
	q := &b.Posterior
	columns, label := q.Dim, "dimension of the embedding"
	if columns > maxColumns {
		columns, label = maxColumns, fmt.Sprintf("dimension of the embedding, the first %d of %d", maxColumns, q.Dim)
	}
	var means, deviations []float64 // classes × columns, where the posterior has d_e × C
	for c := range q.Classes {
		for j := range columns {
			means = append(means, q.Mean[j*q.Classes+c])
			deviations = append(deviations, b.Deviation[j*q.Classes+c])
		}
	}
	return plot.Heat("",
		plot.Map{Title: "Means M", XLabel: label, Rows: classes, Columns: columns, Values: means, Diverging: true},
		plot.Map{Title: "Standard deviations σ", XLabel: label, Rows: classes, Columns: columns, Values: deviations}), true
}

// knowsNeighbours reports whether there is a pool that has learned which classes are
// neighbours, and they are few enough to be drawn.
func (h *history) knowsNeighbours() bool {
	n := len(h.model.Classes)
	return h.pool != nil && len(h.pool.Compatibility) == n*n && n <= maxColumns/2
}

// neighbours draws, for each class, the shares of the classes among its labelled neighbours,
// as a pool of heads has learned them.
func (s *Server) neighbours(context.Context) (plot.Picture, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.h.knowsNeighbours() {
		return plot.Picture{}, false
	}
	classes := s.h.model.Classes
	return plot.Heat("", plot.Map{
		Title: "Classes of the neighbours, by class", XLabel: "class of the neighbour",
		Rows: classes, Columns: len(classes), Names: classes, Values: s.h.pool.Compatibility,
	}), true
}
