package pipeline

import "github.com/gvbll/gvbll/pipeline/heads"

// Load is a graph that an engine may have to hold.
type Load struct {
	Nodes   int
	Degree  float64 // neighbours of a node, on average
	Nonzero float64 // features of a node that are not 0, on average
	Pending int     // predictions that wait for their label
}

// Memory is the live memory that an engine's state takes, in bytes.
type Memory struct {
	Vectors   int64 `json:"vectors"`   // sums of the encoder's first layer
	Structure int64 `json:"structure"` // edges, ids, labels
	Around    int64 `json:"around"`    // features of nodes, and counts of labels around them, for a pool's heads
	Waiting   int64 `json:"waiting"`   // predictions that wait for their label: when they were served
	Served    int64 `json:"served"`    // and their embeddings and outputs
}

// Total is the sum.
func (m Memory) Total() int64 { return m.Vectors + m.Structure + m.Around + m.Waiting + m.Served }

// Memory returns what an engine of this model and these settings takes for a load. It is
// computed from the tables that the engine has, so that it is right for every model and
// setting; drift, sets of classes and predictions that are made again are not counted.
// Ids are integers without great gaps: strings take about 80 bytes more, and their length.
//
// An engine's tables are made in blocks of 4 MiB, of which one is made ahead. This is
// counted, and matters to small graphs alone.
func (e *Engine) Memory(l Load) (m Memory) {
	var structure int64
	m.Vectors, structure = e.nodes.Graph.Bytes(l.Nodes, l.Degree)
	m.Structure = structure + e.nodes.Bytes(l.Nodes)
	if p, is := e.serving.(*heads.Pool); is {
		m.Around = p.Bytes(l.Nodes, l.Nonzero)
	}
	l.Pending = min(l.Pending, l.Nodes, e.cfg.MaxPending)
	if l.Pending > 0 {
		m.Waiting, m.Served = e.pending.Bytes(l.Nodes, l.Pending)
	}
	return m
}

// RowLen is how many numbers of 4 bytes are kept of a prediction until its label comes: its
// embedding, and the outputs of the heads.
func (e *Engine) RowLen() int { return e.model.Prior.Dim + e.serving.Width() }
