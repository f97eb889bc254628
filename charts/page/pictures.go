package page

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gvbll/gvbll/pipeline"
)

// pictures caches images, so that each is drawn once a second at most, however many
// readers there are.
type pictures struct {
	mu   sync.Mutex
	last map[string]drawn // by name
}

type drawn struct {
	version uint64 // of the history
	at      time.Time
	svg     []byte
}

// redraw is the age up to which a picture is served though the history has changed.
const redraw = time.Second

// picture serves GET /pictures/NAME.
func (s *Server) picture(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	draw := map[string]func(context.Context) ([]byte, error){
		"posterior": s.moments, "neighbours": s.past.drawn((*history).neighbours), "calibration": s.past.drawn((*history).calibration),
	}[name]
	if draw == nil {
		noSuchPage.because("there is no such picture").write(w)
		return
	}
	s.past.mu.Lock()
	version := s.past.h.version
	s.past.mu.Unlock()

	s.pictures.mu.Lock() // held while drawing, so that others wait for the same picture
	defer s.pictures.mu.Unlock()
	d := s.pictures.last[name]
	if now := s.cfg.Now(); d.svg == nil || d.version != version && now.Sub(d.at) >= redraw {
		svg, err := draw(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if svg == nil {
			noSuchPage.because("there is nothing to draw yet").write(w)
			return
		}
		if s.pictures.last == nil {
			s.pictures.last = map[string]drawn{}
		}
		d = drawn{version: version, at: now, svg: svg}
		s.pictures.last[name] = d
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; img-src data:; style-src 'unsafe-inline'")
	w.Header().Set("Content-Length", strconv.Itoa(len(d.svg)))
	_, _ = w.Write(d.svg) // an error is the client's
}

// drawn returns a drawing of the history.
func (p *Past) drawn(draw func(*history) ([]byte, error)) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return draw(&p.h)
	}
}

// pictured reports whether a head is drawn: the serving one and, for comparison with a
// pool, the paper's. A picture of all heads of a pool would be unreadable; the table of
// scores has them.
func pictured(head int, name string) bool {
	return head == 0 || name == "online" || name == "static"
}

// reliability returns reliability diagrams over all labels so far.
func (h *history) reliability() *plot {
	f := &plot{
		Label: "Reliability diagrams of the serving head and of the paper’s heads: accuracy against confidence. The " +
			"table of scores has the ECE.",
		Caption: "Reliability: the nearer the accuracies are to the diagonal, the more the confidences can be trusted.",
	}
	for i := range h.scores {
		if t := h.scores[i].Total(); t.Labels > 0 && pictured(i, h.scores[i].Head) {
			f.reliability(h.scores[i].Head, &t)
		}
	}
	return f
}

// curves returns the scores over the windows that had labels.
func (h *history) curves(heads []measured) *plot {
	f := &plot{
		Label: "Curves of accuracy, negative log-likelihood and calibration error over the windows, for each head.",
		Caption: fmt.Sprintf("Each prediction is scored when its label comes, before the label is learned. The curves "+
			"begin with window %d, the first that this worker has seen of this model.", h.scored.first),
	}
	f.scores("window", true, heads)
	return f
}

// measured returns the scores of the heads that are drawn, over the windows that had labels.
func (h *history) measured() (list []measured) {
	for k, name := range h.scored.heads {
		if !pictured(k, name) {
			continue
		}
		m := measured{name: name}
		for i := range h.scored.curve.points {
			p := &h.scored.curve.points[i]
			m.x, m.scores = append(m.x, float64(p.last)), append(m.scores, p.heads[k].Means())
		}
		if m.x != nil {
			list = append(list, m)
		}
	}
	return list
}

// calibration returns reliability diagrams of what serves and of the model as trained, as an
// image of its own, nil before the first label.
func (h *history) calibration() ([]byte, error) {
	f := &plot{Label: "Accuracy against confidence, of what serves and of the model as trained."}
	for i := range h.scores {
		if t := h.scores[i].Total(); t.Labels > 0 && i == h.servedBy() {
			f.reliability("served", &t)
		} else if t.Labels > 0 && h.scores[i].Head == static {
			f.reliability("as trained", &t)
		}
	}
	if f.Charts == nil {
		return nil, nil
	}
	return execute("image", f)
}

// maxColumns is the largest number of columns of a heat map that can be told apart.
const maxColumns = int(heatWidth)

// moments returns the posterior's means and standard deviations, by class and dimension of
// the embedding, nil if the engine cannot be asked.
func (s *Server) moments(ctx context.Context) ([]byte, error) {
	var b *pipeline.PosteriorReport
	var classes []string
	if p := s.engine(ctx, func(e *pipeline.Engine) { b, classes = e.PosteriorReport(), e.Model().Classes }); p != nil {
		return nil, nil
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
	classes = classes[:q.Classes]
	return heat(
		heatMap{title: "Means M", x: label, rows: classes, values: means},
		heatMap{title: "Standard deviations σ", x: label, rows: classes, values: deviations},
	)
}

// knowsNeighbours reports whether there is a pool that has learned which classes are
// neighbours, and they are few enough to be drawn.
func (h *history) knowsNeighbours() bool {
	n := len(h.model.Classes)
	return h.pool != nil && len(h.pool.Compatibility) == n*n && n <= maxColumns/2
}

// neighbours returns, for each class, the shares of the classes among its labelled neighbours,
// as a pool of heads has learned them, nil if it has not.
func (h *history) neighbours() ([]byte, error) {
	if !h.knowsNeighbours() {
		return nil, nil
	}
	classes := h.model.Classes
	return heat(heatMap{
		title: "Classes of the neighbours, by class", x: "class of the neighbour",
		rows: classes, columns: classes, values: h.pool.Compatibility,
	})
}
