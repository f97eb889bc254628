package pipeline

import (
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/neighbourhood"
	"github.com/gvbll/gvbll/pipeline/structure"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// pooled is the serving with the model's pool of heads. It follows the graph, since the heads
// use features and labels of neighbours.
type pooled struct {
	*poolHeads
	graph  *gnn.Graph
	around *neighbourhood.Features
	beside beside
	first  *teller
	second *teller // on the other thread; nil until it is needed
	served []byte  // what the arrivals that were predicted last count for at their neighbours
}

var (
	_ serving            = (*pooled)(nil)
	_ structure.Follower = (*pooled)(nil)
)

func newPooled(m *model.Model, cfg Config, graph *gnn.Graph) (*pooled, error) {
	heads, err := newPoolHeads(m, cfg)
	if err != nil {
		return nil, err
	}
	p := &pooled{poolHeads: heads, graph: graph, around: neighbourhood.New(graph, heads.spec, m.Shape()), beside: cfg.beside()}
	p.first = &teller{pool: p.pool, around: &p.around.Reader, classes: p.classes}
	return p, nil
}

func (p *pooled) serve(nodes []int32, embedded posterior.Rows, outputs []float32, split []posterior.Uncertainty) {
	if p.second == nil && p.beside.can(len(nodes)) { // not before the pool was restored
		p.second = &teller{pool: p.pool.Twin(), around: p.around.NewReader(), classes: p.classes}
	}
	tell := func(by *teller) func(from, to int) {
		return func(from, to int) {
			for ; from < to; from += chunk {
				by.gather(&by.rows, nodes[from:min(from+chunk, to)])
				p.tell(by, &by.rows, from, embedded, outputs, split)
			}
		}
	}
	p.around.Ready(nodes)
	width := p.around.PartBytes()
	p.served = kernel.Room(p.served, len(nodes)*width)
	p.beside.share(len(nodes), tell(p.first), tell(p.second))
	for i, v := range nodes {
		p.around.SetServed(v, p.served[i*width:(i+1)*width])
	}
}

// tell predicts rows, the first of which is the given one of all nodes that are served. It leaves in
// served what the nodes will count for at their neighbours.
func (p *pooled) tell(by *teller, rows *pool.Rows, from int, embedded posterior.Rows, outputs []float32, split []posterior.Uncertainty) {
	d, width, part, to := len(embedded.Z)/max(embedded.Len(), 1), p.width(), p.around.PartBytes(), from+rows.N
	rows.Embedded = posterior.Rows{Z: embedded.Z[from*d : to*d], Tau: embedded.Tau[from:to]}
	by.tell(rows, outputs[from*width:to*width], split[from:to], p.served[from*part:to*part])
}

func (p *pooled) predictOne(v view, embedded posterior.Rows, outputs []float32) posterior.Uncertainty {
	return p.first.tellOne(v, embedded, outputs)
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

// The methods of [structure.Follower] update the neighbourhood's features and labels.

func (p *pooled) Entered(v int32, x gnn.Vector)    { p.around.SetFeatures(v, x) }
func (p *pooled) Leaving(nodes []int32)            { p.around.Remove(nodes) }
func (p *pooled) Left()                            {}
func (p *pooled) Unlinked(edges [][2]int32)        { p.around.RemoveEdges(edges) }
func (p *pooled) Linked(v int32, _, added []int32) { p.around.AddEdges(v, added) }
func (p *pooled) Labelled(v, class int32)          { p.around.SetLabel(v, class) }
func (p *pooled) Vacated(v int32)                  { p.around.ClearFeatures(v) }

// State declares the features of the graph's nodes. The graph must have been declared
// before. Labels are restored by calls of labelled.
func (p *pooled) State(s *snapshot.Schema) { p.around.State(s, p.graph.Len()) }

func (p *pooled) bytes(l Load) int64 { return p.around.Bytes(l.Nodes, l.Nonzero) }
