package pool

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/gvbll/gvbll/gnn/kernel"

	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/internal/words"
)

// Names beside those of the heads: of the pool itself, and of the two products that its
// mixture has.
const (
	poolName        = "pool"
	productName     = "product"
	flatProductName = "product-flat"
	halfName        = "product-fitted" // the geometric mean of a product and the fitted head
)

// classifier is a head of a pool. The package comment has each one's likelihood,
// prior, update and forgetting.
type classifier interface {
	// predict writes the log probabilities of each row to logp, n × C, up to a
	// constant that may differ between rows.
	predict(rows *Rows, logp []float64)
	// train learns from the training rows. It is called at most once, before learn.
	train(b *Batch)
	// learn updates the head with a batch that is the given share, in (0, 1], of a
	// full one.
	learn(b *Batch, share float64) posterior.Report
	// state writes the whole state, or reads it. After an error the head is unusable.
	state(s *words.Stream)
	// change writes enough of what the last learn changed to tell apart two
	// states that were equal before it; see [Pool.AppendChange].
	change(s *words.Stream)
	// takeOver takes over what a head of the same configuration has learned, see
	// [Pool.TakeOver]. Its classes are the first ones of this head's.
	takeOver(from classifier, keep float64)
	// twin returns a head that predicts with the same learned numbers, which both hold, and
	// with scratch memory of its own, see [Pool.Twin].
	twin() classifier
}

var _ = []classifier{(*paperHead)(nil), (*wide)(nil), (*bayes)(nil), (*label)(nil), (*vote)(nil), (*fitted)(nil)}

// Pool is a set of heads and the weights that pool them. It holds scratch memory,
// so two goroutines must not use it at once.
type Pool struct {
	cfg     Config
	shape   Shape
	prior   *posterior.Gaussian // training posterior; nil if no head needs one
	heads   []classifier
	members []int // indices of the heads that products weigh, at least one
	fitted  int   // index of the fitted head, none if there is none
	needs   Need  // what the heads read of Rows

	said         *opinions  // of the members, which the products weigh
	weights      []*weights // the products: one, or two with a mixture
	mixture      *mixture   // nil where the one product is served
	scores       []score    // in the order of Names
	productAt    int        // number of the first product there: one without a mixture is the pool
	version      uint64     // batches learned
	onlyPredicts bool       // it is the twin of a pool that learns

	weighed []int32   // scratch: labels of the rows that products learn from
	logp    []float64 // scratch memory
	anew    []float32 // likewise: what the heads say of rows that they are about to learn
	scratch softmaxScratch
}

// New returns a pool at its prior. prior is the training posterior of the paper's
// last layer; it may be nil if no head uses the embedding.
func New(cfg Config, shape Shape, prior *posterior.Gaussian) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if shape.Classes < 2 || shape.Features < 1 || shape.Embedding < 0 {
		return nil, fmt.Errorf("pool: %d classes, %d features and embeddings of %d: want at least 2, 1 and 0",
			shape.Classes, shape.Features, shape.Embedding)
	}
	if shape.Means == 0 && cfg.Needs()&NeedKinds != 0 {
		return nil, errors.New("pool: a head counts labels by kind of edge, and edges have none: leave it out")
	}
	if shape.Features > math.MaxInt32/2/strideOf(shape.Classes) {
		return nil, fmt.Errorf("pool: %d features for %d classes are too many: hash or select them", shape.Features, shape.Classes)
	}
	if prior != nil {
		if err := prior.Validate(); err != nil {
			return nil, err
		}
		if prior.Dim != shape.Embedding || prior.Classes != shape.Classes {
			return nil, fmt.Errorf("pool: training posterior of shape %d × %d for embeddings of %d and %d classes",
				prior.Dim, prior.Classes, shape.Embedding, shape.Classes)
		}
		q := prior.Clone()
		prior = &q
	}
	p := &Pool{cfg: cfg, shape: shape, prior: prior, needs: cfg.Needs(), fitted: none}
	for i, h := range cfg.Heads {
		made := h.made(p)
		if made == nil {
			return nil, fmt.Errorf("pool: head %q uses the embedding and there is no training posterior: leave it out", h.Name)
		}
		p.heads = append(p.heads, made)
		if h.isMember() {
			p.members = append(p.members, i)
		}
		if h.Fitted != nil {
			p.fitted = i
		}
	}
	p.said = newOpinions(len(p.members), shape.Classes, cfg.Weights.Floor)
	start := cfg.Start
	if start == nil {
		means := defaultMeans(cfg.Weights.Total, p.members, p.fitted)
		start = &Start{Weights: [][]float64{means, means}}
	}
	p.weights = []*weights{newWeights(cfg.Weights, start.Weights[0], p.said, true)}
	if cfg.Mixture != nil {
		p.productAt = 1 + len(p.heads)
		p.weights = append(p.weights, newWeights(cfg.Weights, start.Weights[1], p.said, false))
		p.mixture = newMixture(*cfg.Mixture, start.Scores, len(p.members), shape.Classes, p.fitted != none)
	}
	p.scores = make([]score, len(p.Names()))
	return p, nil
}

// made returns the head of a pool at its prior, or nil if it needs a training posterior and
// there is none.
func (h HeadConfig) made(p *Pool) classifier {
	switch {
	case h.Wide != nil:
		return newWide(*h.Wide, p.shape)
	case h.Bayes != nil:
		return newBayes(*h.Bayes, p.shape)
	case h.Label != nil:
		return newLabel(*h.Label, p.shape.Classes)
	case h.Fitted != nil:
		return newFitted(*h.Fitted, p.shape)
	case h.Vote != nil:
		return newVote(p.shape.Classes)
	case p.prior == nil:
		return nil
	case h.Online != nil:
		online := *h.Online
		online.Batch = p.cfg.Batch
		return &paperHead{Head: posterior.NewOnline(*p.prior, online)}
	}
	return &paperHead{Head: posterior.NewStatic(*p.prior)}
}

// Config returns the configuration that the pool was made with.
func (p *Pool) Config() Config { return p.cfg }

// Names returns "pool", then the heads' names, and then, of a pool with a mixture, those of
// its two products, in the order of the log probabilities that Predict writes.
func (p *Pool) Names() []string {
	names := []string{poolName}
	for _, h := range p.cfg.Heads {
		names = append(names, h.Name)
	}
	if p.mixture != nil {
		names = append(names, productName, flatProductName)
	}
	if p.fitted != none {
		names = append(names, halfName)
	}
	return names
}

// LogProbsPerRow returns how many numbers Predict writes for a row: C for each of Names, and by Anew how many
// labels were learned.
func (p *Pool) LogProbsPerRow() int {
	n := len(p.scores) * p.shape.Classes
	if p.mixture.isAnew() {
		n++
	}
	return n
}

// Online returns the first of the paper's online heads, nil if there is none. It
// belongs to the pool; SetState replaces it.
func (p *Pool) Online() *posterior.Online {
	for _, h := range p.heads {
		if e, is := h.(*paperHead); is {
			if online, is := e.Head.(*posterior.Online); is {
				return online
			}
		}
	}
	return nil
}

// Version returns the number of batches learned.
func (p *Pool) Version() uint64 { return p.version }

// Predict writes to logProbs, n × LogProbsPerRow, for each row the C natural log
// probabilities of each of Names, and by Anew how many labels were learned. The caller keeps them for Learn.
func (p *Pool) Predict(rows Rows, logProbs []float32) {
	rows.check(p.shape, p.needs)
	checkLength("log probabilities", len(logProbs), rows.N*p.LogProbsPerRow())
	n, classes := rows.N, p.shape.Classes
	for k := range p.heads {
		p.say(&rows, k, logProbs)
	}
	p.loadMembers(n, n, logProbs)
	for j, w := range p.weights {
		w.logits(p.logp, w.theta, classes)
		p.write(logProbs, p.productAt+j)
	}
	if p.fitted != none {
		p.halve(n, logProbs)
	}
	if p.mixture != nil {
		p.mixture.predict(n, p.experts(logProbs), func(i int) []float32 { return p.of(logProbs, i, 0) })
	}
	if p.mixture.isAnew() {
		for i := range n {
			logProbs[(i+1)*p.LogProbsPerRow()-1] = float32(p.mixture.learned[0])
		}
	}
}

// say writes what a head says of rows.
func (p *Pool) say(rows *Rows, head int, logProbs []float32) {
	p.logp = kernel.Resize(p.logp, rows.N*p.shape.Classes)
	p.heads[head].predict(rows, p.logp)
	p.write(logProbs, 1+head)
}

// halve writes the geometric mean of the first product and the fitted head.
func (p *Pool) halve(n int, logProbs []float32) {
	for i := range n {
		product, fitted := p.of(logProbs, i, p.productAt), p.of(logProbs, i, 1+p.fitted)
		for c := range product {
			p.logp[i*len(product)+c] = .5 * (float64(product[c]) + float64(fitted[c]))
		}
	}
	p.write(logProbs, p.productAt+products)
}

// write writes the log softmax of logp as the log probabilities of Names()[number].
func (p *Pool) write(logProbs []float32, number int) {
	classes := p.shape.Classes
	p.scratch.logSoftmax(p.logp, classes)
	for i := range len(p.logp) / classes {
		to := p.of(logProbs, i, number)
		for c, x := range p.logp[i*classes : (i+1)*classes] {
			to[c] = float32(x)
		}
	}
}

// of returns the log probabilities of row i by Names()[number].
func (p *Pool) of(logProbs []float32, i, number int) []float32 {
	return logProbs[i*p.LogProbsPerRow()+number*p.shape.Classes:][:p.shape.Classes]
}

// experts returns the log probabilities of row i by expert e of the mixture.
func (p *Pool) experts(logProbs []float32) func(i, e int) []float32 {
	return func(i, e int) []float32 {
		switch k := e - products; {
		case k < 0:
			return p.of(logProbs, i, p.productAt+e)
		case k < len(p.members):
			return p.of(logProbs, i, 1+p.members[k])
		case k == len(p.members):
			return p.of(logProbs, i, 1+p.fitted)
		}
		return p.of(logProbs, i, p.productAt+products)
	}
}

// loadMembers loads the members' log probabilities of n rows of so many, spread evenly.
func (p *Pool) loadMembers(n, of int, logProbs []float32) {
	p.said.load(n, func(i, k int) []float32 { return p.of(logProbs, i*of/n, 1+p.members[k]) })
}

// Train updates the heads with the training rows, in one batch, before any other
// batch. The weights do not change: a head's probabilities on rows that it was fitted
// to are better than those on new rows. Train does not read LogProbs, and of Replay, which is the same rows as they
// are when all have labels, only a fitted head does.
func (p *Pool) Train(b Batch) {
	b.check(p.shape, p.needs)
	if b.N == 0 {
		return
	}
	for _, h := range p.heads {
		h.train(&b)
	}
}

// Learn updates the pool with a batch of labels. It first scores the predictions
// that were served, then updates the weights from them, and then the heads. A batch
// without rows, and from which nothing is taken, changes nothing. The result has a report for each of Names
// but the pool, zero but for online heads.
func (p *Pool) Learn(b Batch) []posterior.Report {
	reports := make([]posterior.Report, len(p.scores)-1)
	for _, part := range p.Learning(b, reports) {
		part()
	}
	return reports
}

// Learning returns the parts of [Pool.Learn], the largest first. Each is to be done once, before any other method is
// called; they may be done at the same time: one then has heads speak anew, and the others wait. They write the reports.
func (p *Pool) Learning(b Batch, reports []posterior.Report) (parts []func()) {
	if p.onlyPredicts {
		panic("pool: the twin of another pool learns")
	}
	b.check(p.shape, p.needs)
	served := len(b.LogProbs) / p.LogProbsPerRow()
	checkLength("log probabilities", len(b.LogProbs), min(served, b.N)*p.LogProbsPerRow())
	if b.N+b.Taken.N == 0 {
		return nil
	}
	p.version++
	small, first := []func(){}, func() {}
	if served > 0 && p.mixture.isAnew() {
		first = sync.OnceFunc(func() { p.sayAnew(&b.Rows, served) })
	}
	if served > 0 {
		small = append(small, func() {
			first()
			p.learnServed(b.Labels[:served], b.LogProbs, b.LogRates)
		})
	}
	share := p.cfg.share(b.N)
	for k, h := range p.heads {
		learn := func() {
			first()
			reports[k] = h.learn(&b, share)
		}
		switch h.(type) {
		case *wide, *fitted:
			parts = append(parts, learn)
		default:
			small = append(small, learn)
		}
	}
	return append(parts, small...)
}

// weighedRows is the bound of models without one.
const weighedRows = 128

// rows returns of how many of so many labels products learn.
func (c weightsConfig) rows(labels int) int { return min(labels, cmp.Or(c.Rows, weighedRows)) }

// sayAnew sets anew to what members say of the rows, of those that were served, that products learn from.
func (p *Pool) sayAnew(rows *Rows, served int) {
	if n := p.cfg.Weights.rows(served); n < rows.N {
		some := rows.some(n, served, p.shape)
		rows = &some
	}
	p.anew = kernel.Resize(p.anew, rows.N*p.LogProbsPerRow())
	for _, k := range p.members {
		p.say(rows, k, p.anew)
	}
}

// learnServed scores what was served for labels, and updates the weights: those of the first product from what the heads say anew.
func (p *Pool) learnServed(labels []int32, served []float32, logRates []float64) {
	for i, y := range labels {
		for k := range p.scores {
			p.scores[k].add(p.of(served, i, k), int(y))
		}
	}
	share := p.cfg.share(len(labels))
	if p.mixture != nil {
		p.mixture.learn(labels, share, logRates, p.experts(served), func(i int) float64 {
			return (p.mixture.learned[0] - float64(served[(i+1)*p.LogProbsPerRow()-1])) / p.cfg.Batch
		})
	}
	n := p.cfg.Weights.rows(len(labels))
	p.weighed = kernel.Resize(p.weighed, n)
	for i := range n {
		p.weighed[i] = labels[i*len(labels)/n]
	}
	for j, w := range p.weights {
		if anew := p.mixture.isAnew(); j == 0 || anew {
			from, of := served, len(labels)
			if j == 0 && anew {
				from, of = p.anew, n
			}
			p.loadMembers(n, of, from)
			p.said.transpose(n)
		}
		w.scratch.offset = logRates
		w.learn(p.weighed, share)
	}
}

// Weights returns the weight of each head, 0 for shadows, and the bias of each class, in
// what is served. With a mixture they are means, by the shares of its experts: a head by
// itself is a product in which it has the weight 1.
func (p *Pool) Weights() (heads, bias []float64) {
	bias = make([]float64, p.shape.Classes)
	for j, share := range p.mixture.products(p.fitted != none) {
		for c, x := range p.weights[j].theta[len(p.members):] {
			bias[c] += float64(share * x)
		}
	}
	return p.AppendWeights(nil), bias
}

// AppendWeights appends the weight of each head, as Weights returns it, to b.
func (p *Pool) AppendWeights(b []float64) []float64 {
	at := len(b)
	b = append(b, make([]float64, len(p.heads))...)
	shares := p.mixture.products(p.fitted != none)
	for k, i := range p.members {
		for j, share := range shares {
			b[at+i] += float64(share * p.weights[j].theta[k])
		}
		if p.mixture != nil {
			b[at+i] += p.mixture.share(products + k)
		}
	}
	if p.fitted != none {
		b[at+p.fitted] += p.mixture.share(products+len(p.members)) + float64(.5*p.mixture.share(products+len(p.members)+1))
	}
	return b
}

// Shares returns the share that each of Names but the pool has in the mixture, 0 for
// shadows. It is nil for a pool without a mixture.
func (p *Pool) Shares() []float64 {
	if p.mixture == nil {
		return nil
	}
	shares := make([]float64, len(p.scores)-1)
	if p.fitted != none {
		shares[p.fitted] = p.mixture.share(products + len(p.members))
		shares[len(shares)-1] = p.mixture.share(products + len(p.members) + 1)
	}
	for j := range products {
		shares[len(p.heads)+j] = p.mixture.share(j)
	}
	for k, i := range p.members {
		shares[i] += p.mixture.share(products + k)
	}
	return shares
}

// Compatibility returns the matrix H of the first label head of evidence [Counts],
// C × C, with rows that sum to 1: entry (c, k) is the share of class k among the
// labelled neighbours of nodes of class c. It is nil if there is no such head.
func (p *Pool) Compatibility() []float64 {
	for _, h := range p.heads {
		if l, ok := h.(*label); ok && l.Evidence == byCounts {
			return l.shares()
		}
	}
	return nil
}

// stateFormat is the version of the state's layout.
const stateFormat = 1

// AppendState appends all that was learned to b as canonical bytes, for checkpoints
// and model files. Configuration, shape and training posterior are not part of it.
func (p *Pool) AppendState(b []byte) []byte {
	s := &words.Stream{B: b}
	p.header(s)
	for _, h := range p.heads {
		h.state(s)
	}
	return s.B
}

// AppendChange appends a summary of what the last Learn changed to b, for a chain
// of hashes that follows the state at the cost of a batch, and not of the whole
// state: of long lists a digest. Some precisions are left out, because two states that differ in them alone
// differ in what the next Learn changes.
func (p *Pool) AppendChange(b []byte) []byte {
	s := &words.Stream{B: b}
	p.header(s)
	for _, h := range p.heads {
		h.change(s)
	}
	return s.B
}

// header declares what is no head's.
func (p *Pool) header(s *words.Stream) {
	for _, x := range []int{stateFormat, len(p.heads), p.shape.Classes, p.shape.Features, p.shape.Embedding} {
		got := uint64(x)
		s.Uint(&got)
		s.Check(got == uint64(x), "it has %d as its format, heads, classes, features or embedding, the pool has %d", got, x)
	}
	s.Uint(&p.version)
	for k := range p.scores {
		p.scores[k].state(s)
	}
	for _, w := range p.weights {
		w.state(s)
	}
	if p.mixture != nil {
		p.mixture.state(s)
	}
}

// SetState reads what AppendState of a pool with the same configuration, shape and
// training posterior wrote. On an error the state is as it was.
func (p *Pool) SetState(b []byte) error {
	next, err := New(p.cfg, p.shape, p.prior)
	if err != nil {
		return err
	}
	s := &words.Stream{B: b, Reads: true}
	if next.header(s); s.Err != nil {
		return s.Err
	}
	for k, h := range next.heads {
		if h.state(s); s.Err != nil {
			return fmt.Errorf("head %q: %w", p.cfg.Heads[k].Name, s.Err)
		}
	}
	if len(s.B) != 0 {
		return errors.New("pool: state is longer than one of this pool")
	}
	*p = *next
	return nil
}
