package pipeline

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// Step takes the next window and says what is served and learned. The window
// must carry the next number. Nothing of its events' memory is kept.
func (e *Engine) Step(w *event.Window) *event.Outcome {
	if w.Number != e.next {
		panic(fmt.Sprintf("pipeline: window %d where %d is next", w.Number, e.next))
	}
	e.next++
	out := &event.Outcome{Window: w.Number, Model: e.model.ID, Refused: append([]event.Refusal(nil), w.Refused...)}
	out.Labelled, e.spare.labelled = e.spare.labelled, nil

	e.arrive(w, out)
	e.serve(out)
	e.cover(out)
	if e.rescoring != nil {
		e.rescoring.rescore(e, out)
	}
	e.join(w, out)
	e.score(out)
	if e.rescoring != nil {
		e.rescoring.score(e, out)
	}
	e.compare(out)
	e.learnSets(out)
	e.watchDrift(out)
	e.learn(out)
	clear(e.accepted) // these point into the window
	clear(e.again)
	if e.asTheyCame() {
		clear(e.features)
		e.update = gnn.Vector{}
	}

	out.Levels = event.Levels{
		Nodes: e.graph.Len() - e.gone.len(), Edges: e.graph.Edges(),
		Pending: e.pending.nodes.len(), WaitingLabels: e.early.len(), WaitingEdges: e.roster.edges,
	}
	out.Posterior = e.posterior
	out.Chain = e.extendChain(out)
	for i := range w.Commands {
		decline(&w.Commands[i], out)
	}
	return out
}

// spare is the memory of an outcome that nobody looks at any more.
type spare struct {
	predictions []event.Prediction
	labelled    []event.Labelled
	scores      [][]calibration.Score
}

// Recycle gives back an outcome of the engine's, of which nothing is looked at any
// more: the next one has the memory of its predictions, labels and scores.
func (e *Engine) Recycle(out *event.Outcome) {
	s := &e.spare
	if cap(out.Predictions) > cap(s.predictions) { // a window may have had none
		s.predictions = out.Predictions[:0]
	}
	if cap(out.Labelled) > cap(s.labelled) {
		s.labelled = out.Labelled[:0]
	}
	for _, h := range out.Heads {
		if cap(h.Scores) > 0 {
			s.scores = append(s.scores, h.Scores)
		}
	}
}

// accepted is a node event that fits the model, with the node's number.
type accepted struct {
	node   *event.Node
	number int32
	asked  bool // first arrival, to be served
}

// arrive brings the graph up to date with all of ΔV_t before any of it is
// encoded: nodes first, then edges, so that nodes of one window may name each
// other in any order.
func (e *Engine) arrive(w *event.Window, out *event.Outcome) {
	e.accepted, e.features = e.accepted[:0], e.features[:0]
	first := int32(e.graph.Len())
	for i := range w.Nodes {
		n := &w.Nodes[i]
		if n.Departed {
			e.depart(n, out)
			continue
		}
		x := gnn.Vector{Dense: n.Dense, Index: n.Index, Value: n.Value}
		if detail := e.misfit(x); detail != "" {
			refuse(out, n.Origin, event.WrongDimension, detail)
			continue
		}
		if v, known := e.roster.number(n.ID); known {
			out.Counts.Updates++
			if v >= first {
				e.features[v-first] = e.normalised(e.features[v-first], x)
			} else {
				e.again[v] = n
			}
			e.accepted = append(e.accepted, accepted{node: n, number: v})
			continue
		}
		e.superseded(n.ID, out)
		v, vacant := e.vacancy()
		if vacant {
			*e.fate.at(v) = fate{}
			e.again[v] = n
		} else {
			v = first + int32(len(e.features))
			e.features = extend(e.features)
			e.features[v-first] = e.normalised(e.features[v-first], x)
			e.fate.add(fate{})
		}
		e.fate.at(v).label = none
		e.context.set(v, n.Context)
		e.roster.enter(n.ID, v)
		if n.Context {
			out.Counts.Context++
		} else {
			out.Counts.Arrivals++
		}
		e.accepted = append(e.accepted, accepted{node: n, number: v, asked: !n.Context})
	}
	e.putAround()
	if e.embedded = e.onlyArrivals(); e.embedded {
		e.name(out)
		e.arrived.Z = resize(e.arrived.Z, len(e.accepted)*e.model.Prior.Dim)
		e.graph.Arrive(e.features, e.near, func(i int, met []int32) { e.linked(i, met, out) }, e.arrived.Z)
		return
	}
	e.graph.Add(e.features)
	e.withdraw(out)
	// A node that comes again costs its degree, so a hub that comes a thousand
	// times in a window is replaced once.
	for _, a := range e.accepted {
		if e.again[a.number] == a.node {
			e.update = e.normalised(e.update, gnn.Vector{Dense: a.node.Dense, Index: a.node.Index, Value: a.node.Value})
			e.graph.Replace(a.number, e.update)
		}
	}
	e.name(out)
	for i, a := range e.accepted {
		e.linked(i, e.link(a.number, e.near[i]), out)
	}
}

// onlyArrivals reports whether nothing has come but nodes that are new and to be
// served, as is so in most windows: then the graph takes them in one go.
func (e *Engine) onlyArrivals() bool {
	for _, a := range e.accepted {
		if !a.asked {
			return false
		}
	}
	return len(e.features) == len(e.accepted) && len(e.again) == 0 && len(e.gone.leaving) == 0
}

// name leaves in near the neighbours of each accepted node: those that waited for
// it, then those that it names.
func (e *Engine) name(out *event.Outcome) {
	e.resolve()
	e.links, e.near = e.links[:0], e.near[:0]
	named := e.named
	for _, a := range e.accepted {
		from := len(e.links)
		e.links = append(e.links, e.roster.claim(a.node.ID)...)
		for i, id := range a.node.Neighbours {
			switch u := named[i]; u {
			case a.number:
				out.Counts.SelfLoops++
			case none:
				out.Counts.EdgesDropped += e.roster.wait(id, a.number)
				e.fate.at(a.number).waits = true
			default:
				e.links = append(e.links, u)
			}
		}
		named = named[len(a.node.Neighbours):]
		e.near = append(e.near, e.links[from:len(e.links):len(e.links)])
	}
}

// resolve leaves in named the numbers of all neighbours that the accepted nodes
// name, none for one that has not come. One after the other, with nothing between
// them, the look-ups wait for memory together.
func (e *Engine) resolve() {
	e.named = e.named[:0]
	for _, a := range e.accepted {
		for _, id := range a.node.Neighbours {
			u, known := e.roster.number(id)
			if !known {
				u = none
			}
			e.named = append(e.named, u)
		}
	}
}

// normalised returns features as the model takes them, in the memory of dst where
// they are not as they came.
func (e *Engine) normalised(dst, x gnn.Vector) gnn.Vector {
	if e.asTheyCame() {
		return x
	}
	return e.model.Normalizer.Apply(dst, x)
}

// asTheyCame says that the model takes features so.
func (e *Engine) asTheyCame() bool { return e.model.Normalizer.Kind == gnn.NormalizeNone }

// misfit says why x is no feature vector of this model, "" when it is one.
func (e *Engine) misfit(x gnn.Vector) string {
	d := e.model.Encoder.In()
	switch {
	case x.Dense != nil && len(x.Dense) != d:
		return fmt.Sprintf("%d features, the model has %d", len(x.Dense), d)
	case len(x.Index) > 0 && int64(x.Index[len(x.Index)-1]) >= int64(d):
		return fmt.Sprintf("feature index %d, the model has %d features", x.Index[len(x.Index)-1], d)
	}
	return ""
}

// link adds the edges from v to its neighbours, and returns those that were new.
// LinkAll takes time by v's degree, and a hub may come again and again with an edge
// or none; one by one, each takes time by the smaller degree.
func (e *Engine) link(v int32, neighbours []int32) (met []int32) {
	added := 0
	if e.graph.Degree(v) <= 8*len(neighbours) {
		added = e.graph.LinkAll(v, neighbours)
	} else {
		for _, u := range neighbours {
			if e.graph.Link(v, u) {
				added++
			}
		}
	}
	near := e.graph.Neighbours(v)
	return near[len(near)-added:]
}

// linked notes that the i-th accepted node has its edges, and which were new.
func (e *Engine) linked(i int, met []int32, out *event.Outcome) {
	v, near := e.accepted[i].number, e.near[i]
	out.Counts.Edges += len(met)
	out.Counts.DuplicateEdges += len(near) - len(met)
	if e.pooled != nil {
		e.pooled.around.Link(v, met)
	}
	if e.rescoring != nil {
		e.rescoring.changed(e, v)
		e.rescoring.changed(e, near...)
	}
}

// serve encodes the arrivals on G_t and predicts them with every head of the
// pool; what is served is kept until the label comes.
func (e *Engine) serve(out *event.Outcome) {
	e.asked = e.asked[:0]
	for _, a := range e.accepted {
		if a.asked {
			e.asked = append(e.asked, a.number)
		}
	}
	n, d, c := len(e.asked), e.model.Prior.Dim, e.model.Prior.Classes
	if n == 0 {
		return
	}
	rows := &e.arrived
	rows.Tau = resize(rows.Tau, n)
	if !e.embedded {
		rows.Z = resize(rows.Z, n*d)
		e.graph.Embed(e.asked, rows.Z)
	}
	for i := range rows.Tau {
		z := rows.Z[i*d : (i+1)*d]
		if !finite(z) {
			clear(z)
		}
		rows.Tau[i] = e.model.Temperature.At(z)
	}
	e.predictAll(e.asked, *rows)
	by := e.servedBy()

	out.Predictions = e.blank(n)
	i := 0
	for _, a := range e.accepted {
		if !a.asked {
			continue
		}
		kept := e.kept[i*e.width : (i+1)*e.width]
		p := out.Predictions[i].Probabilities
		e.asServed(p, kept[int(by)*c:][:c])
		best := mostProbable(p)
		u := e.split[i]
		out.Predictions[i] = event.Prediction{
			Node: a.node.ID, Class: e.model.Classes[best], ClassIndex: int32(best), Confidence: p[best],
			Probabilities: p, Total: float32(u.Total), Aleatoric: float32(u.Aleatoric), Epistemic: float32(u.Epistemic),
			Window: out.Window, PosteriorVersion: e.heads[by].Version(), Time: a.node.Time, Model: e.model.ID,
		}
		s := served{window: out.Window, time: a.node.Time, tau: rows.Tau[i], by: by}
		if old, expired := e.pending.put(a.number, s, rows.Z[i*d:(i+1)*d], kept); expired {
			out.Counts.Expired++
			e.expired(old)
		}
		if e.rescoring != nil {
			e.rescoring.put(e, a.number, a.node.ID, p)
		}
		i++
	}
}

// blank returns n predictions with room for their probabilities, which was an
// outcome's before where there is such.
func (e *Engine) blank(n int) []event.Prediction {
	list, c := resize(e.spare.predictions, n), e.model.Prior.Classes
	e.spare.predictions = nil
	var block []float32
	for i := range list {
		p := &list[i].Probabilities
		if len(*p) == c {
			continue
		}
		if block == nil {
			block = make([]float32, (n-i)*c)
		}
		*p, block = block[:c:c], block[c:]
	}
	return list
}

// predictAll leaves in kept what is kept of each of the nodes, with these
// embeddings, and in split their uncertainties.
func (e *Engine) predictAll(nodes []int32, rows posterior.Rows) {
	n := len(nodes)
	e.kept, e.split = resize(e.kept, n*e.width), resize(e.split, n)
	if e.pooled != nil {
		e.pooled.serve(nodes, rows, e.kept)
		for i := range e.split {
			e.split[i] = e.pooled.split(e.kept[i*e.width:])
		}
		return
	}
	e.predictPaper(rows, e.kept, e.split)
}

// predictPaper writes what the paper's heads say of rows: probabilities, heads ×
// classes a row; and the uncertainty of the one that serves.
func (e *Engine) predictPaper(rows posterior.Rows, said []float32, split []posterior.Uncertainty) {
	e.uncertainty.Serve(e.posteriors(), int(e.servedBy()), rows, said, split)
}

// asServed writes the probabilities of what is kept of one head.
func (e *Engine) asServed(p, kept []float32) {
	if e.pooled != nil {
		probabilities(p, kept)
		return
	}
	copy(p, kept)
}

// finite tells whether z is an embedding. One whose sums went beyond float32
// says nothing of its node, which is then predicted as z = 0 is; and it must not
// get into the posterior, which it would spoil for all nodes to come.
func finite(z []float32) bool {
	for _, x := range z {
		if float32(x-x) != 0 { // NaN and the infinities
			return false
		}
	}
	return true
}

// learn gives the window's labels to every head: Algorithm 1 for the online
// one. Without labels nothing is forgotten either.
func (e *Engine) learn(out *event.Outcome) {
	report := func(h int, r posterior.Report) { out.Heads[h].Clipped, out.Heads[h].Step = r.Clipped, r.Step }
	switch {
	case e.pooled == nil:
		for h, head := range e.paper {
			report(h, head.Learn(e.labelled, e.labels))
		}
	case len(e.labels) > 0:
		for k, r := range e.pooled.learn(e.said, e.labels, e.labelled).Heads {
			report(1+k, r)
		}
	}
	for h, head := range e.heads {
		out.Heads[h].Version = head.Version()
	}
	if len(e.labels) > 0 {
		e.hashPosterior()
	}
}

// extendChain folds the window into the hash of everything served and learned.
func (e *Engine) extendChain(out *event.Outcome) event.Hash {
	b := append(e.state[:0], e.chain[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(out.Window))
	for i := range out.Predictions {
		p := &out.Predictions[i]
		b = append(b, p.Node.Str...)
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Node.Num))
		for _, x := range p.Probabilities {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		for _, x := range [...]float32{p.Total, p.Aleatoric, p.Epistemic} {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		b = appendSet(b, p.Set)
	}
	for i := range out.Revisions {
		p := &out.Revisions[i]
		b = append(b, p.Node.Str...)
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Node.Num))
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Revision))
		for _, x := range p.Probabilities {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
	}
	for i := range out.Refused {
		r := &out.Refused[i]
		b = append(b, r.Reason...)
		b = append(b, r.Origin.Topic...)
		b = binary.LittleEndian.AppendUint32(b, uint32(r.Origin.Partition))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Origin.Offset))
	}
	b = append(b, e.posterior[:]...)
	e.state = b
	e.chain = sha256.Sum256(b)
	return e.chain
}

func refuse(out *event.Outcome, o *event.Origin, why event.Reason, detail string) {
	out.Refused = append(out.Refused, event.Refusal{Origin: o, Reason: why, Detail: detail})
}

// mostProbable returns the lowest index of the largest of some probabilities. It
// looks for the greatest integer, which is of the bits of a number, in the order of
// numbers that are not negative, and of the index: without branches, which nobody
// could predict, and in four chains.
func mostProbable(p []float32) int {
	key := func(i int, x float32) int64 { return int64(math.Float32bits(x))<<32 | int64(^uint32(i)) }
	var a, b, c, d int64
	i := 0
	for ; i+4 <= len(p); i += 4 {
		x := p[i:][:4]
		a, b = greater(a, key(i, x[0])), greater(b, key(i+1, x[1]))
		c, d = greater(c, key(i+2, x[2])), greater(d, key(i+3, x[3]))
	}
	for ; i < len(p); i++ {
		a = greater(a, key(i, p[i]))
	}
	return int(^uint32(greater(greater(a, b), greater(c, d))))
}

// greater is the greater of two integers that are not negative.
func greater(a, b int64) int64 {
	ahead := b - a
	return a + ahead&^(ahead>>63)
}

// extend returns s with one element more. Its value is what stood there before,
// so that its memory can be used again.
func extend[T any](s []T) []T {
	if len(s) < cap(s) {
		return s[:len(s)+1]
	}
	var zero T
	return append(s, zero)
}

// resize returns s with length n, its contents unspecified.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
