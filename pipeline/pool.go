package pipeline

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/neighbourhood"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// pooled is the serving with the model's pool of heads. Outputs are log probabilities, the
// pool's, then each head's and those of its products, followed by the counts of labels around the node, n_v
// and q_v, C numbers each.
//
// It follows the graph, since its heads use features and labels of neighbours.
type pooled struct {
	pool    *pool.Pool
	spec    pool.Config
	graph   *gnn.Graph
	classes int
	around  *neighbourhood.Features
	list    []head            // the pool, then its heads and its products
	idle    *posterior.Online // result of online if the pool has no such head; it never learns

	buffer []byte
	rows   pool.Rows // of a chunk of arrivals, or of a batch
	logp   []float32 // their log probabilities
	// Scratch of uncertainty:
	weights         []float64 // of the heads
	allWeights      float64   // the sum of those that are positive
	mix, logs, each []float64
}

var (
	_ serving  = (*pooled)(nil)
	_ follower = (*pooled)(nil)
)

// chunk is the number of arrivals predicted at once: the working memory fits a cache.
const chunk = 128

func newPooled(m *model.Model, cfg Config, graph *gnn.Graph) (*pooled, error) {
	p, err := m.NewPool()
	if err != nil {
		return nil, err
	}
	made := &pooled{
		pool: p, spec: p.Config(), graph: graph, classes: len(m.Classes), around: neighbourhood.New(graph, p.Config(), m.Shape()),
	}
	if p.Online() == nil {
		made.idle = posterior.NewOnline(m.Prior, cfg.Update)
	}
	for k, name := range p.Names() {
		made.list = append(made.list, pooledHead{made, k, name})
	}
	return made, nil
}

func (p *pooled) heads() []head { return p.list }

// pooledHead is the pool, number 0, one of its heads, from 1 on, or a product of its mixture,
// behind the heads. The state of all is that of number 0.
type pooledHead struct {
	of     *pooled
	number int
	name   string
}

func (h pooledHead) Name() string { return h.name }

// Version returns the number of batches learned, 0 for a static head.
func (h pooledHead) Version() uint64 {
	if n := h.number; n > 0 && n <= len(h.of.spec.Heads) && h.of.spec.Heads[n-1].Static != nil {
		return 0
	}
	return h.of.pool.Version()
}

func (h pooledHead) AppendState(b []byte) []byte {
	if h.number > 0 {
		return b
	}
	return h.of.pool.AppendState(b)
}

func (h pooledHead) SetState(b []byte) error {
	if h.number > 0 {
		if len(b) > 0 {
			return fmt.Errorf("%d bytes, want none: a head's state is part of the pool's", len(b))
		}
		return nil
	}
	return h.of.pool.SetState(b)
}

// servingHead is the pool itself.
func (p *pooled) servingHead() uint8 { return 0 }

func (p *pooled) width() int { return p.pool.LogProbsPerRow() + 2*p.classes }

func (p *pooled) serve(nodes []int32, embedded posterior.Rows, outputs []float32, split []posterior.Uncertainty) {
	d, width := len(embedded.Z)/max(len(nodes), 1), p.width()
	for from := 0; from < len(nodes); from += chunk {
		to := min(from+chunk, len(nodes))
		p.around.Reset(&p.rows)
		for _, v := range nodes[from:to] {
			p.around.Append(&p.rows, v)
		}
		p.rows.Embedded = posterior.Rows{Z: embedded.Z[from*d : to*d], Tau: embedded.Tau[from:to]}
		p.predict(outputs[from*width : to*width])
	}
	p.weigh()
	for i, v := range nodes {
		split[i] = p.uncertainty(outputs[i*width:])
		p.around.SetServed(v, p.each[:p.classes])
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
	p.predict(outputs)
	p.weigh()
	return p.uncertainty(outputs)
}

// weigh sets the weights for uncertainty.
func (p *pooled) weigh() {
	p.weights, p.allWeights = p.pool.AppendWeights(p.weights[:0]), 0
	for _, w := range p.weights {
		p.allWeights += max(w, 0)
	}
}

// predict writes the outputs of p.rows.
func (p *pooled) predict(outputs []float32) {
	n, logps := p.rows.N, p.pool.LogProbsPerRow()
	p.logp = kernel.Room(p.logp, n*logps)
	p.pool.Predict(p.rows, p.logp)
	for i := range n {
		row := outputs[i*p.width() : (i+1)*p.width()]
		copy(row, p.logp[i*logps:(i+1)*logps])
		clear(row[logps:])
		if len(p.rows.Labelled) > 0 {
			copy(row[logps:], p.rows.Labelled[i*p.classes:(i+1)*p.classes])
		}
		if len(p.rows.Second) > 0 {
			copy(row[logps+p.classes:], p.rows.Second[i*p.classes:(i+1)*p.classes])
		}
	}
}

// learn updates the pool. Embeddings, log probabilities and counts of labels are those
// served; features of the nodes and their neighbours are the current ones.
func (p *pooled) learn(b *batch, heads []event.Head) {
	p.around.Reset(&p.rows)
	for _, v := range b.nodes {
		p.around.AppendFeatures(&p.rows, v)
	}
	learned := pool.Batch{Rows: p.rows, Labels: b.labels}
	learned.Labelled, learned.Second, p.logp = p.rows.Labelled[:0], p.rows.Second[:0], p.logp[:0]
	logps := p.pool.LogProbsPerRow()
	for i := range b.labels {
		row := b.outputs[i*p.width() : (i+1)*p.width()]
		p.logp = append(p.logp, row[:logps]...)
		learned.Labelled = append(learned.Labelled, row[logps:logps+p.classes]...)
		learned.Second = append(learned.Second, row[logps+p.classes:]...)
	}
	p.rows.Labelled, p.rows.Second = learned.Labelled, learned.Second
	learned.LogProbs, learned.Embedded = p.logp, b.rows
	p.around.FillBatch(&learned, b.nodes, p.spec.Refreshes())
	for k, r := range p.pool.Learn(learned).Heads {
		heads[1+k].Clipped, heads[1+k].Step = r.Clipped, r.Step
	}
}

// hash hashes the last hash and the part of the state that the batch changed, since the
// whole state may be large.
func (p *pooled) hash(last event.Hash) event.Hash {
	p.buffer = p.pool.AppendChange(append(p.buffer[:0], last[:]...))
	return sha256.Sum256(p.buffer)
}

func (p *pooled) online() *posterior.Online {
	if p.idle != nil {
		return p.idle
	}
	return p.pool.Online()
}

func (p *pooled) poolOfHeads() *pool.Pool { return p.pool }

// uncertainty splits the uncertainty of a row: its total is the entropy of what is
// served, and its epistemic part is the share that the heads' disagreement has in
// the entropy of their mixture,
//
//	[H(Σ_k w_k p_k) - Σ_k w_k H(p_k)] / H(Σ_k w_k p_k),
//
// the Jensen-Shannon divergence over that entropy, with the pool's weights where
// they are positive. It leaves in each the probabilities of the pool and of the heads;
// weigh must have been called since the pool last learned.
func (p *pooled) uncertainty(outputs []float32) posterior.Uncertainty {
	c := p.classes
	p.mix, p.logs, p.each = kernel.Room(p.mix, c), kernel.Room(p.logs, c), kernel.Room(p.each, (1+len(p.weights))*c)
	clear(p.mix)
	posterior.Raise(p.each, outputs[:len(p.each)], math.Inf(-1))
	posterior.Exponentials(p.each)
	var within float64 // Σ w_k H(p_k)
	for k, w := range p.weights {
		if w <= 0 {
			continue
		}
		share, at := w/p.allWeights, (1+k)*c
		var entropy float64
		for i, x := range outputs[at : at+c] {
			q := p.each[at+i]
			p.mix[i] += float64(share * q)
			entropy += surprise(q, float64(x))
		}
		within += float64(share * entropy)
	}
	copy(p.logs, p.mix)
	posterior.Logarithms(p.logs)
	var mixed, total float64
	for i, q := range p.mix {
		mixed += surprise(q, p.logs[i])
		total += surprise(p.each[i], float64(outputs[i]))
	}
	u := posterior.Uncertainty{Total: max(total, 0)}
	if mixed > 0 {
		u.Epistemic = u.Total * min(max(1-within/mixed, 0), 1)
	}
	u.Aleatoric = u.Total - u.Epistemic
	return u
}

// surprise returns a class's term of the entropy, -q log q, given its probability and
// the logarithm. It is 0 for a probability of 0, whose logarithm may be infinite.
func surprise(q, logq float64) float64 {
	if q == 0 {
		return 0
	}
	return float64(-q * logq)
}

// probabilities exponentiates log probabilities.
func (p *pooled) probabilities(dst, logp []float32) {
	var some [64]float64
	for len(logp) > 0 {
		n := min(len(some), len(logp))
		posterior.Raise(some[:n], logp[:n], math.Inf(-1))
		posterior.Exponentials(some[:n])
		for i, q := range some[:n] {
			dst[i] = float32(q)
		}
		dst, logp = dst[n:], logp[n:]
	}
}

// Pooled is the learned state of a pool, without that of its heads.
type Pooled struct {
	Heads   []string  // names
	Weights []float64 // by head, as in what is served; 0 for heads that are only scored
	Bias    []float64 // by class, likewise
	// Parts are the heads and then the products of the mixture that is served, and Shares
	// the share of each. A pool of engine 6 has one product and no mixture: its parts are the
	// heads, and Shares is nil.
	Parts  []string
	Shares []float64
	// Regret is the pool's log loss over all labels, less that of its best head in
	// hindsight, in nats.
	Regret float64
	// Compatibility, C × C, has in row c the share of each class among the labelled
	// neighbours of nodes of class c. It is nil if no head learns it.
	Compatibility []float64
}

func (p *pooled) learned() *Pooled {
	parts := p.pool.Names()[1:]
	l := &Pooled{Heads: parts[:len(p.spec.Heads)], Parts: parts, Shares: p.pool.Shares(), Regret: p.pool.Regret(), Compatibility: slices.Clone(p.pool.Compatibility())}
	l.Weights, l.Bias = p.pool.Weights()
	return l
}

// The methods of follower update the neighbourhood's features and labels.

func (p *pooled) entered(v int32, x gnn.Vector)    { p.around.SetFeatures(v, x) }
func (p *pooled) leaving(nodes []int32)            { p.around.Remove(nodes) }
func (p *pooled) left()                            {}
func (p *pooled) unlinked(edges [][2]int32)        { p.around.RemoveEdges(edges) }
func (p *pooled) linked(v int32, _, added []int32) { p.around.AddEdges(v, added) }
func (p *pooled) labelled(v, class int32)          { p.around.SetLabel(v, class) }
func (p *pooled) vacated(v int32)                  { p.around.ClearFeatures(v) }

func (p *pooled) outputsName() string { return "pending.said" }

func (p *pooled) valid(output float32) bool { return isFinite(output) }

// state declares the features of the graph's nodes. The graph must have been declared
// before. Labels are restored by calls of labelled.
func (p *pooled) state(s *snapshot.Schema) { p.around.State(s, p.graph.Len()) }

// matches accepts any hash, since it depends on all batches that led to the state.
func (p *pooled) matches(event.Hash) bool { return true }
