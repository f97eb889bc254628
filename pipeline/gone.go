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
		for slot := d.waiting.head; slot != none; slot = d.waiting.entries.at(slot).next {
			l := d.waiting.entries.at(slot).value
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
	embeddings, notes := s.walk(), s.walk()
	parts := []safetensors.Part{
		queueColumn("lessons.node", s, func(v int32, _ *lesson) int32 { return v }),
		queueColumn("lessons.class", s, func(_ int32, x *lesson) int32 { return x.class }),
		queueColumn("lessons.update", s, func(_ int32, x *lesson) int64 { return int64(x.update) }),
		queueColumn("lessons.temperature", s, func(_ int32, x *lesson) float64 { return x.tau }),
		safetensors.NewPart[float32]("lessons.embedding", func(b []byte) []byte {
			slot, _ := embeddings()
			return safetensors.Append(b, l.z.Row(slot)...)
		}, s.len, e.model.Prior.Dim),
		safetensors.NewPart[float64](e.notesName(), func(b []byte) []byte {
			slot, _ := notes()
			return safetensors.Append(b, l.notes.Row(slot)...)
		}, s.len, l.notes.Width()),
	}
	if e.pooled == nil {
		return parts
	}
	around, walk := s.walk(), s.walk()
	met, neighbours := make([]int32, s.len), []int32{} // they change in place
	for i := range met {
		_, x := walk()
		met[i] = int32(len(x.value.met))
		for _, u := range x.value.met {
			neighbours = append(neighbours, u.number, u.class)
		}
	}
	parts = append(parts,
		queueColumn("lessons.since", s, func(_ int32, x *lesson) float64 { return x.elapsed }),
		safetensors.PartOf("lessons.elapsed", []float64{l.elapsed}, 1),
		safetensors.NewPart[float32]("lessons.around", func(b []byte) []byte {
			slot, _ := around()
			return safetensors.Append(b, l.around.Row(slot)...)
		}, s.len, 2, e.model.Prior.Classes),
		safetensors.PartOf("lessons.met", met, s.len))
	if len(neighbours) > 0 {
		parts = append(parts, safetensors.PartOf("lessons.neighbours", neighbours, len(neighbours)/2, 2))
	}
	return parts
}

// notesName is the tensor of what is noted of labels that were learned.
func (e *Engine) notesName() string {
	if e.pooled != nil {
		return "lessons.notes"
	}
	return "lessons.probabilities"
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
	e.fate = chunked[fate]{}
	for range n {
		e.fate.add(fate{})
	}
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
		if uint(v) >= uint(n) || e.fate.at(v).gone || e.graph.Degree(v) > 0 {
			return nil, damaged("node %d of %d has left and is there, or left twice", v, n)
		}
		e.fate.at(v).gone = true
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
	if err := safetensors.ReadRows(file, e.notesName(), l.notes, func(notes []float64) error {
		for _, x := range notes {
			if !(x >= 0 && x <= 1) {
				return damaged("of a label that was learned %v is noted", x)
			}
		}
		return nil
	}, n, l.notes.Width()); err != nil {
		return err
	}
	for i, v := range nodes {
		if uint(v) >= uint(e.fate.len()) || e.fate.at(v).gone || e.fate.at(v).label != class[i] || class[i] == none || l.nodes.get(v) != nil {
			return damaged("node %d taught what is not its label, or twice", v)
		}
		if !(tau[i] > 0 && tau[i] <= math.MaxFloat64) || update[i] < 1 || uint64(update[i]) > e.heads[0].Version() {
			return damaged("node %d was learned at temperature %v in update %d", v, tau[i], update[i])
		}
		l.nodes.put(v, lesson{class: class[i], tau: tau[i], update: uint64(update[i])})
	}
	if e.pooled != nil {
		return e.setPooledLessons(file, nodes)
	}
	return nil
}

// setPooledLessons reads what only a pool needs of the lessons of these nodes.
func (e *Engine) setPooledLessons(file *safetensors.Reader, nodes []int32) error {
	l, n := e.gone.lessons, len(nodes)
	since, err := safetensors.Read[float64](file, "lessons.since", n)
	if err != nil {
		return err
	}
	elapsed, err := safetensors.Read[float64](file, "lessons.elapsed", 1)
	if err != nil {
		return err
	}
	if l.elapsed = elapsed[0]; !(l.elapsed >= 0 && l.elapsed <= math.MaxFloat64) {
		return damaged("%v batches were learned", l.elapsed)
	}
	if err := safetensors.ReadRows(file, "lessons.around", l.around, func(counts []float32) error {
		for _, x := range counts {
			if !(x >= 0 && x <= math.MaxFloat32) {
				return damaged("a label was learned with %v labels around", x)
			}
		}
		return nil
	}, n, 2, e.model.Prior.Classes); err != nil {
		return err
	}
	met, err := safetensors.Read[int32](file, "lessons.met", n)
	if err != nil {
		return err
	}
	all := file.Len("lessons.neighbours")
	list, err := some[int32](file, "lessons.neighbours", all, 2)
	if err != nil {
		return err
	}
	for i, v := range nodes {
		if !(since[i] >= 0 && since[i] <= l.elapsed) || met[i] < 0 || int(met[i]) > len(list)/2 {
			return damaged("node %d was learned after %v of %v batches, with %d neighbours of %d", v, since[i], l.elapsed, met[i], len(list)/2)
		}
		x := l.nodes.get(v)
		x.elapsed = since[i]
		for range met[i] {
			u := neighbour{list[0], list[1]}
			if uint(u.number) >= uint(e.fate.len()) || uint(u.class) >= uint(len(e.model.Classes)) {
				return damaged("node %d was learned with neighbour %d of class %d", v, u.number, u.class)
			}
			x.met, list = append(x.met, u), list[2:]
		}
	}
	if len(list) > 0 {
		return damaged("%d neighbours of no label", len(list)/2)
	}
	return nil
}
