package page

import (
	"fmt"
	"net/http"
)

// picture serves GET /pictures/calibration: reliability diagrams of what serves and of the model as trained, as an image of
// its own, which README has.
func (s *Server) picture(w http.ResponseWriter, _ *http.Request) {
	s.past.mu.Lock()
	defer s.past.mu.Unlock()
	h := &s.past.h
	f := &plot{Label: "Accuracy against confidence, of what serves and of the model as trained."}
	for i := range h.scores {
		if t := h.scores[i].Total(); t.Labels > 0 && i == h.servedBy() {
			f.reliability("served", &t)
		} else if t.Labels > 0 && h.scores[i].Head == static {
			f.reliability("as trained", &t)
		}
	}
	if f.Charts == nil {
		noSuchPage.because("there is nothing to draw yet").write(w)
		return
	}
	svg, err := execute("image", f)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, _ = w.Write(svg) // an error is the client's
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
