package pipeline

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/safetensors"
)

// This file writes down what is known of nodes that have left, see departed and
// lessons, and reads it back.

// goneParts are all that a snapshot has of them, and none where nothing has left.
func (e *Engine) goneParts() (parts []safetensors.Part) {
	d := &e.gone
	if n := len(d.free); n > 0 {
		parts = append(parts, safetensors.PartOf("departed.free", slices.Clone(d.free), n))
	}
	if n := d.waiting.len(); n > 0 {
		var nodes, near []int32
		for slot := d.waiting.head; slot != none; slot = d.waiting.entries[slot].next {
			l := d.waiting.entries[slot].value
			nodes, near = append(nodes, l.number), append(near, l.degree, l.fresh)
		}
		parts = append(parts, safetensors.PartOf("departed.node", nodes, n), safetensors.PartOf("departed.near", near, n, 2))
	}
	if d.born != nil {
		v := int32(-1)
		parts = append(parts, safetensors.PartOf("departed.next", []int64{d.next}, 1), column("departed.born", len(d.born), func() int64 {
			v++
			if w, changed := e.taken.was[v]; changed {
				return w.born
			}
			return d.born[v]
		}))
	}
	if d.lessons != nil {
		parts = append(parts, e.lessonParts()...)
	}
	return parts
}

func (e *Engine) lessonParts() []safetensors.Part {
	l, s := e.gone.lessons, &e.taken.lessons
	s.take(l.nodes)
	embeddings, probs := s.walk(), s.walk()
	return []safetensors.Part{
		queueColumn("lessons.node", s, func(v int32, _ *lesson) int32 { return v }),
		queueColumn("lessons.class", s, func(_ int32, x *lesson) int32 { return x.class }),
		queueColumn("lessons.update", s, func(_ int32, x *lesson) int64 { return int64(x.update) }),
		queueColumn("lessons.temperature", s, func(_ int32, x *lesson) float64 { return x.tau }),
		safetensors.NewPart[float32]("lessons.embedding", func(b []byte) []byte {
			slot, _ := embeddings()
			return safetensors.Append(b, l.z.Row(slot)...)
		}, s.len, e.model.Prior.Dim),
		safetensors.NewPart[float64]("lessons.probabilities", func(b []byte) []byte {
			slot, _ := probs()
			return safetensors.Append(b, l.probs.Row(slot)...)
		}, s.len, e.model.Prior.Classes),
	}
}

// some reads a tensor that may be missing, where it has no entries.
func some[T safetensors.Element](file *safetensors.Reader, name string, shape ...int) ([]T, error) {
	if shape[0] == 0 {
		return nil, nil
	}
	return safetensors.Read[T](file, name, shape...)
}

// setGone reads which numbers are of no node, and returns those of nodes that
// left and wait for their label. It comes before the ids.
func (e *Engine) setGone(file *safetensors.Reader) ([]left, error) {
	n, d := e.graph.Len(), &e.gone
	e.fate = make([]fate, n)
	var err error
	if d.free, err = some[int32](file, "departed.free", file.Len("departed.free")); err != nil {
		return nil, err
	}
	waits := file.Len("departed.node")
	nodes, err := some[int32](file, "departed.node", waits)
	if err != nil {
		return nil, err
	}
	near, err := some[int32](file, "departed.near", waits, 2)
	if err != nil {
		return nil, err
	}
	for _, v := range slices.Concat(d.free, nodes) {
		if uint(v) >= uint(n) || e.fate[v].gone || e.graph.Degree(v) > 0 {
			return nil, damaged("node %d of %d has left and is there, or left twice", v, n)
		}
		e.fate[v].gone = true
	}
	list := make([]left, waits)
	for i, v := range nodes {
		list[i] = left{number: v, degree: near[2*i], fresh: near[2*i+1]}
		if list[i].fresh < 0 || list[i].fresh > list[i].degree {
			return nil, damaged("node %d had %d neighbours, %d of them fresh", v, list[i].degree, list[i].fresh)
		}
	}
	if file.Len("departed.next") == 0 {
		return list, nil
	}
	next, err := safetensors.Read[int64](file, "departed.next", 1)
	if err != nil {
		return nil, err
	}
	d.next = next[0]
	if d.born, err = safetensors.Read[int64](file, "departed.born", n); err != nil {
		return nil, err
	}
	for v, at := range d.born {
		if at < 0 || at >= d.next {
			return nil, damaged("node %d came after %d others, of %d", v, at, d.next)
		}
	}
	return list, nil
}

// setLeft takes the nodes that left and wait for their label, whose ids are read.
func (e *Engine) setLeft(list []left) error {
	for _, l := range list {
		id := e.roster.came.at(l.number)
		if _, known := e.roster.number(id); known || e.gone.waiting.get(id) != nil {
			return damaged("node %q has left and is there, or left twice", id)
		}
		e.gone.waiting.put(id.Clone(), l)
	}
	return nil
}

func (e *Engine) setLessons(file *safetensors.Reader) error {
	l := e.gone.lessons
	if l == nil {
		return nil
	}
	n := file.Len("lessons.node")
	if n > l.bound {
		return damaged("what %d nodes taught is kept, at most of %d it is", n, l.bound)
	}
	nodes, err := safetensors.Read[int32](file, "lessons.node", n)
	if err != nil {
		return err
	}
	class, err := safetensors.Read[int32](file, "lessons.class", n)
	if err != nil {
		return err
	}
	update, err := safetensors.Read[int64](file, "lessons.update", n)
	if err != nil {
		return err
	}
	tau, err := safetensors.Read[float64](file, "lessons.temperature", n)
	if err != nil {
		return err
	}
	if err := safetensors.ReadRows(file, "lessons.embedding", l.z, func(z []float32) error {
		if !finite(z) {
			return damaged("a label was learned at an embedding that is not finite")
		}
		return nil
	}, n, e.model.Prior.Dim); err != nil {
		return err
	}
	if err := safetensors.ReadRows(file, "lessons.probabilities", l.probs, func(probs []float64) error {
		for _, x := range probs {
			if !(x >= 0 && x <= 1) {
				return damaged("a label was learned at the probability %v", x)
			}
		}
		return nil
	}, n, e.model.Prior.Classes); err != nil {
		return err
	}
	for i, v := range nodes {
		if uint(v) >= uint(len(e.fate)) || e.fate[v].gone || e.fate[v].label != class[i] || class[i] == none || l.nodes.get(v) != nil {
			return damaged("node %d taught what is not its label, or twice", v)
		}
		if !(tau[i] > 0 && tau[i] <= math.MaxFloat64) || update[i] < 1 || uint64(update[i]) > e.online.Version() {
			return damaged("node %d was learned at temperature %v in update %d", v, tau[i], update[i])
		}
		l.nodes.put(v, lesson{class: class[i], tau: tau[i], update: uint64(update[i])})
	}
	return nil
}
