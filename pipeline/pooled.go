package pipeline

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/neighbourhood"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// What serves: Config.Head.
const (
	HeadPool  = "pool"  // the model's pool of heads
	HeadPaper = "paper" // the paper's: GVBLL-Online, with GVBLL-Static beside it
)

// servable returns what serves with a model, of two models beside each other
// perhaps a pool with one and the paper's head with the other.
func servable(m *model.Model, head string) (string, error) {
	switch head {
	case "":
		if m.Pool != nil {
			return HeadPool, nil
		}
		return HeadPaper, nil
	case HeadPaper, HeadPool:
		return head, nil
	}
	return "", fmt.Errorf("head %q: give %q or %q", head, HeadPool, HeadPaper)
}

// pooled is a pool of heads in an engine. What it says of a node is kept until
// the label comes: log probabilities, of the pool first, and behind them what
// was known of the labels around it (n_v and q_v).
type pooled struct {
	pool    *pool.Pool
	spec    pool.Spec
	classes int
	around  *neighbourhood.Vicinity

	batch []int32 // numbers of the labelled nodes, in the batch's order

	rows pool.Rows // of a chunk of arrivals, or of the batch
	said []float32
	// See split.
	weights, mix, logs, each []float64
}

// chunk is how many arrivals are predicted at once, so that what that takes fits
// a cache.
const chunk = 128

func newPooled(m *model.Model, graph neighbourhood.Graph) (*pooled, error) {
	p, err := m.NewPool()
	if err != nil {
		return nil, err
	}
	return &pooled{
		pool: p, spec: p.Spec(), classes: len(m.Classes), around: neighbourhood.New(graph, p.Spec(), m.Shape()),
	}, nil
}

// online returns the paper's head of the pool, or, where there is none, one that
// stays as it is, to be looked at.
func (p *pooled) online(m *model.Model, cfg posterior.Config) *posterior.Online {
	if h := p.pool.Online(); h != nil {
		return h
	}
	return posterior.NewOnline(m.Prior, cfg)
}

// width is how many numbers are kept of a node that was served.
func (p *pooled) width() int { return p.pool.SaidPerRow() + 2*p.classes }

// heads are the pool and its heads as the engine names them.
func (p *pooled) heads() (list []head) {
	for k, name := range p.pool.Names() {
		list = append(list, pooledHead{p, k, name})
	}
	return list
}

// pooledHead is the pool, number 0, or one of its heads. The pool's state is
// that of all.
type pooledHead struct {
	*pooled
	number int
	name   string
}

func (h pooledHead) Name() string { return h.name }

// Version is the number of batches learned.
func (h pooledHead) Version() uint64 {
	if h.number > 0 && h.spec.Heads[h.number-1].Static != nil {
		return 0
	}
	return h.pool.Version()
}

func (h pooledHead) AppendState(b []byte) []byte {
	if h.number > 0 {
		return b
	}
	return h.pool.AppendState(b)
}

func (h pooledHead) SetState(b []byte) error {
	if h.number > 0 {
		if len(b) > 0 {
			return fmt.Errorf("%d bytes, its state is the pool's", len(b))
		}
		return nil
	}
	return h.pool.SetState(b)
}

// serve writes what is kept of each of the nodes, whose embeddings are in
// embedded, to kept.
func (p *pooled) serve(nodes []int32, embedded posterior.Rows, kept []float32) {
	d := len(embedded.Z) / max(len(nodes), 1)
	for at := 0; at < len(nodes); at += chunk {
		some := nodes[at:min(at+chunk, len(nodes))]
		p.around.Reset(&p.rows)
		for _, v := range some {
			p.around.Append(&p.rows, v)
		}
		end := at + len(some)
		p.rows.Embedded = posterior.Rows{Z: embedded.Z[at*d : end*d], Tau: embedded.Tau[at:end]}
		p.say(kept[at*p.width() : end*p.width()])
	}
}

// say predicts the rows.
func (p *pooled) say(kept []float32) {
	n, said := p.rows.N, p.pool.SaidPerRow()
	p.said = resize(p.said, n*said)
	p.pool.Predict(p.rows, p.said)
	for i := range n {
		row := kept[i*p.width() : (i+1)*p.width()]
		copy(row, p.said[i*said:(i+1)*said])
		clear(row[said:])
		if len(p.rows.Labelled) > 0 {
			copy(row[said:], p.rows.Labelled[i*p.classes:(i+1)*p.classes])
		}
		if len(p.rows.Second) > 0 {
			copy(row[said+p.classes:], p.rows.Second[i*p.classes:(i+1)*p.classes])
		}
	}
}

// learn takes the batch: what was kept of its nodes and their labels, with the
// embeddings as they were served. What the features around them are, they are
// now.
func (p *pooled) learn(kept []float32, labels []int32, embedded posterior.Rows) pool.Report {
	p.around.Reset(&p.rows)
	for _, v := range p.batch {
		p.around.AppendFeatures(&p.rows, v)
	}
	b := pool.Batch{Rows: p.rows, Labels: labels}
	b.Labelled, b.Second, p.said = p.rows.Labelled[:0], p.rows.Second[:0], p.said[:0]
	said := p.pool.SaidPerRow()
	for i := range labels {
		row := kept[i*p.width() : (i+1)*p.width()]
		p.said = append(p.said, row[:said]...)
		b.Labelled = append(b.Labelled, row[said:said+p.classes]...)
		b.Second = append(b.Second, row[said+p.classes:]...)
	}
	p.rows.Labelled, p.rows.Second = b.Labelled, b.Second
	b.Said, b.Embedded = p.said, embedded
	p.around.Meet(&b, p.batch, p.spec.Refreshes())
	return p.pool.Learn(b)
}

// split takes the uncertainty of a row apart: its total is the entropy of what
// is served, and the part of it that is epistemic is the part that the heads'
// disagreement has in the entropy of their mixture,
//
//	[H(Σ_k w_k p_k) - Σ_k w_k H(p_k)] / H(Σ_k w_k p_k),
//
// the Jensen-Shannon divergence over that entropy, with the pool's weights as
// far as they are positive.
func (p *pooled) split(said []float32) posterior.Uncertainty {
	c := p.classes
	p.weights = p.pool.AppendWeights(p.weights[:0])
	var all float64
	for _, w := range p.weights {
		all += max(w, 0)
	}
	p.mix, p.logs, p.each = resize(p.mix, c), resize(p.logs, c), resize(p.each, p.pool.SaidPerRow())
	clear(p.mix)
	for i, x := range said[:len(p.each)] {
		p.each[i] = float64(x)
	}
	posterior.Exponentials(p.each)
	var own float64 // Σ w_k H(p_k)
	for k, w := range p.weights {
		if w <= 0 {
			continue
		}
		share, at := w/all, (1+k)*c
		var entropy float64
		for i, x := range said[at : at+c] {
			q := p.each[at+i]
			p.mix[i] += float64(share * q)
			entropy -= float64(q * float64(x))
		}
		own += float64(share * entropy)
	}
	copy(p.logs, p.mix)
	posterior.Logarithms(p.logs)
	var mixed, total float64
	for i, q := range p.mix {
		mixed -= float64(q * p.logs[i])
		total -= float64(p.each[i] * float64(said[i]))
	}
	u := posterior.Uncertainty{Total: max(total, 0)}
	if mixed > 0 {
		u.Epistemic = u.Total * min(max(1-own/mixed, 0), 1)
	}
	u.Aleatoric = u.Total - u.Epistemic
	return u
}

// probabilities writes those of one head's log probabilities.
func probabilities(dst, said []float32) {
	var some [64]float64
	for len(said) > 0 {
		n := min(len(some), len(said))
		for i, x := range said[:n] {
			some[i] = float64(x)
		}
		posterior.Exponentials(some[:n])
		for i, p := range some[:n] {
			dst[i] = float32(p)
		}
		dst, said = dst[n:], said[n:]
	}
}

// Pooled is what the pool has learned of its heads.
type Pooled struct {
	Heads   []string
	Weights []float64 // of each head; 0 of those that are only scored
	Bias    []float64 // of each class
	// Regret is how much more log loss the pool has had than the best of its
	// heads in hindsight, nats over all labels.
	Regret float64
	// Compatibility is the share of each class among the labelled neighbours of
	// the nodes of a class, C × C; nil where no head learns it.
	Compatibility []float64
}

// Pooled returns what the pool has learned; nil where the paper's head serves.
func (e *Engine) Pooled() *Pooled {
	if e.pooled == nil {
		return nil
	}
	p := e.pooled.pool
	v := &Pooled{Heads: p.Names()[1:], Regret: p.Regret(), Compatibility: slices.Clone(p.Compatibility())}
	v.Weights, v.Bias = p.Weights()
	return v
}

// putAround tells the pool, if there is one, of the features of arrivals.
func (e *Engine) putAround() {
	if e.pooled == nil {
		return
	}
	for _, a := range e.accepted {
		e.pooled.around.Put(a.number, gnn.Vector{Dense: a.node.Dense, Index: a.node.Index, Value: a.node.Value})
	}
}

// thaw reads what is known of the nodes of a graph, whose classes are given.
func (p *pooled) thaw(m *model.Model, graph *gnn.Graph, file *safetensors.Reader, class []int32) error {
	p.around = neighbourhood.New(graph, p.spec, m.Shape())
	return p.around.Thaw(file, class)
}
