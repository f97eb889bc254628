package page

import (
	"net/http"
)

// nodeView is the data of node.html. Either Problem or nodeValue is nil.
type nodeView struct {
	Title   titleView
	Asked   string // the id in the request
	Problem *problem
	*nodeValue
	Rows []probabilityRow
}

// probabilityRow is the probability of one class.
type probabilityRow struct {
	Class       string
	Served, Now float32
	Kept        bool // what was served
}

// nodePage serves GET /node: what was served for a node, what would be now, and why.
func (s *Server) nodePage(w http.ResponseWriter, r *http.Request) {
	v := nodeView{Asked: r.URL.Query().Get("id")}
	v.Title = titleView{s.cfg.Graph, "node " + v.Asked}
	ids, p := idsOf(v.Asked, r.URL.Query())
	if p == nil {
		v.nodeValue, p = s.lookUp(r, ids)
	}
	if p != nil {
		v.Problem = p
		render(w, p.Status, "node.html", v)
		return
	}
	names := *s.past.classes.Load()
	for c, name := range names[:min(len(names), len(v.Now.Probabilities))] {
		row := probabilityRow{Class: name, Now: v.Now.Probabilities[c]}
		if v.Served != nil && c < len(v.Served.Probabilities) { // another model may have served it
			row.Kept, row.Served = true, v.Served.Probabilities[c]
		}
		v.Rows = append(v.Rows, row)
	}
	render(w, http.StatusOK, "node.html", v)
}
