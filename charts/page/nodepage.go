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
	Classes    []string
	Rows       []probabilityRow
	Neighbours []neighbourView
}

// probabilityRow is the probability of one class.
type probabilityRow struct {
	Class  string
	Served *float64 // nil if it is no longer kept
	Now    float64
}

// neighbourView is a neighbour that influences the prediction.
type neighbourView struct {
	Name, Link, Label, Without string
	Gain                       float64
}

// nodePage serves GET /node: what was served for a node, what would be now, and why.
func (s *Server) nodePage(w http.ResponseWriter, r *http.Request) {
	v := nodeView{Asked: r.URL.Query().Get("id"), Classes: *s.past.classes.Load()}
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
	v.Classes = v.Classes[:min(len(v.Classes), len(v.Now.Probabilities))]
	for c, name := range v.Classes {
		row := probabilityRow{Class: name, Now: float64(v.Now.Probabilities[c])}
		if v.Served != nil && c < len(v.Served.Probabilities) { // another model may have served it
			served := float64(v.Served.Probabilities[c])
			row.Served = &served
		}
		v.Rows = append(v.Rows, row)
	}
	for _, n := range v.nodeValue.Neighbours {
		to := neighbourView{Name: n.Node.String(), Link: nodeLink(n.Node), Without: n.Without, Gain: n.Gain}
		if n.Label != nil {
			to.Label = *n.Label
		}
		v.Neighbours = append(v.Neighbours, to)
	}
	render(w, http.StatusOK, "node.html", v)
}
