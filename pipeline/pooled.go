package pipeline

import (
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/neighbourhood"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// pooled is the serving with the model's pool of heads. It follows the graph, since the heads
// use features and labels of neighbours.
type pooled struct {
	*poolHeads
	graph  *gnn.Graph
	around *neighbourhood.Features
	rows   pool.Rows // scratch: of a chunk of arrivals
	served []byte    // what the arrivals that were predicted last count for at their neighbours
}

var (
	_ serving  = (*pooled)(nil)
	_ follower = (*pooled)(nil)
)

// chunk is the number of arrivals predicted at once: the working memory fits a cache.
const chunk = 128

func newPooled(m *model.Model, cfg Config, graph *gnn.Graph) (*pooled, error) {
	heads, err := newPoolHeads(m, cfg)
	if err != nil {
		return nil, err
	}
	return &pooled{poolHeads: heads, graph: graph, around: neighbourhood.New(graph, heads.spec, m.Shape())}, nil
}

func (p *pooled) serve(nodes []int32, embedded posterior.Rows, outputs []float32, split []posterior.Uncertainty) {
	p.predictAll(nodes, embedded, outputs, split)
	width := p.around.PartBytes()
	for i, v := range nodes {
		p.around.SetServed(v, p.served[i*width:(i+1)*width])
	}
}

// predictAll is serve, but the nodes do not count yet for what is served: it leaves in served
// what they will count for.
func (p *pooled) predictAll(nodes []int32, embedded posterior.Rows, outputs []float32, split []posterior.Uncertainty) {
	for from := 0; from < len(nodes); from += chunk {
		to := min(from+chunk, len(nodes))
		p.gatherRows(&p.rows, nodes[from:to])
		p.predictRows(&p.rows, from, embedded, outputs)
	}
	p.divide(outputs, split)
}

// gatherRows writes what the heads read around nodes, without their embeddings.
func (p *pooled) gatherRows(rows *pool.Rows, nodes []int32) {
	p.around.Reset(rows)
	for _, v := range nodes {
		p.around.Append(rows, v)
	}
}

// predictRows writes the outputs of rows, the first of which is the given one of all that are
// embedded.
func (p *pooled) predictRows(rows *pool.Rows, from int, embedded posterior.Rows, outputs []float32) {
	d, width, to := len(embedded.Z)/max(len(embedded.Tau), 1), p.width(), from+rows.N
	rows.Embedded = posterior.Rows{Z: embedded.Z[from*d : to*d], Tau: embedded.Tau[from:to]}
	p.predict(rows, outputs[from*width:to*width])
}

// divide writes the uncertainties of predicted nodes, and what they count for.
func (p *pooled) divide(outputs []float32, split []posterior.Uncertainty) {
	p.weigh()
	p.served = p.served[:0]
	for i := range split {
		split[i] = p.uncertainty(outputs[i*p.width():])
		p.served = p.around.AppendPart(p.served, p.each[:p.classes])
	}
}

func (p *pooled) predictOne(v view, embedded posterior.Rows, outputs []float32) posterior.Uncertainty {
	p.around.Reset(&p.rows)
	switch {
	case v.node == none:
		p.around.AppendArrival(&p.rows, v.features, v.neighbours)
	case v.without != none:
		p.around.AppendWithout(&p.rows, v.node, v.without)
	default:
		p.around.Append(&p.rows, v.node)
	}
	p.rows.Embedded = embedded
	p.predict(&p.rows, outputs)
	p.weigh()
	return p.uncertainty(outputs)
}

// prepare writes the batch that the pool learns. Embeddings, log probabilities and counts of
// labels are those served; features of the nodes and their neighbours are the current ones.
func (p *pooled) prepare(b *batch, to *pool.Batch) {
	p.around.Reset(&to.Rows)
	for _, v := range b.nodes {
		p.around.AppendFeatures(&to.Rows, v)
	}
	p.around.FillBatch(to, b.nodes, p.spec.Refreshes())
	p.appendAllServed(b, to)
}

// appendAllServed writes what was served for the nodes of a batch.
func (p *pooled) appendAllServed(b *batch, to *pool.Batch) {
	to.LogProbs = to.LogProbs[:0]
	for i := range b.labels {
		p.appendServed(to, b.outputs[i*p.width():(i+1)*p.width()])
	}
	b.copyTo(to)
}

// The methods of follower update the neighbourhood's features and labels.

func (p *pooled) entered(v int32, x gnn.Vector)    { p.around.SetFeatures(v, x) }
func (p *pooled) leaving(nodes []int32)            { p.around.Remove(nodes) }
func (p *pooled) left()                            {}
func (p *pooled) unlinked(edges [][2]int32)        { p.around.RemoveEdges(edges) }
func (p *pooled) linked(v int32, _, added []int32) { p.around.AddEdges(v, added) }
func (p *pooled) labelled(v, class int32)          { p.around.SetLabel(v, class) }
func (p *pooled) vacated(v int32)                  { p.around.ClearFeatures(v) }

// state declares the features of the graph's nodes. The graph must have been declared
// before. Labels are restored by calls of labelled.
func (p *pooled) state(s *snapshot.Schema) { p.around.State(s, p.graph.Len()) }
