package backtest

import (
	"context"
	"encoding/csv"
	"io"
	"strconv"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn/dataset"
)

// table writes rows of a node's id, numbers and texts in csv. Numbers are float32, in as few digits as give their bits.
type table struct {
	*csv.Writer
	set    *flags.DataSet
	fields []string
}

func newTable(w io.Writer, set *flags.DataSet, header ...string) *table {
	t := &table{Writer: csv.NewWriter(w), set: set, fields: header}
	t.end(nil)
	return t
}

// label returns a node's label, "" for none.
func (t *table) label(v int32) string {
	if y := t.set.Labels[v]; y != dataset.Unlabelled {
		return t.set.Classes[y]
	}
	return ""
}

// end writes a row that ends in numbers. Its error is that of the end.
func (t *table) end(numbers []float64) {
	for _, x := range numbers {
		t.fields = append(t.fields, strconv.FormatFloat(float64(float32(x)), 'g', -1, 32))
	}
	_ = t.Write(t.fields)
	t.fields = t.fields[:0]
}

// done writes what is left, and returns the first error.
func (t *table) done() error {
	t.Flush()
	return t.Error()
}

// WriteRows writes what [Logistic] sees of each node as it comes: those before the stream as of step 0. due is the step
// after which its label is known, empty for never. Where labels have no times they come late steps late.
func WriteRows(w io.Writer, set *flags.DataSet, late int) error {
	header := []string{"node", "step", "due", "label"}
	for _, of := range []string{"x", "near"} {
		for j := range set.Dim {
			header = append(header, of+strconv.Itoa(j))
		}
	}
	for _, of := range []string{"labels.", "labels2."} {
		for _, class := range set.Classes {
			header = append(header, of+class)
		}
	}
	t, known, due := newTable(w, set, append(header, "degree")...), make(map[int32]string), set.Due(set.Split, late)
	for step, nodes := range due[:len(set.Split.Steps)] {
		for _, v := range nodes {
			known[v] = strconv.Itoa(step)
		}
	}
	var l *Logistic
	row := make([]float64, 0)
	write := func(step int, nodes []int32) error {
		x := l.design(nodes)
		for i, v := range nodes {
			clear(row)
			for e := x.start[i]; e < x.start[i+1]; e++ {
				row[x.index[e]] = x.value[e]
			}
			t.fields = append(t.fields, set.IDs.String(v), strconv.Itoa(step), known[v], t.label(v))
			t.end(row[:len(row)-1]) // without the constant
		}
		return t.Error()
	}
	err := walk(set, due, func(k *Known, nodes []int32) error {
		l = unfitted(context.Background(), k, set.Dim, len(set.Classes))
		row = make([]float64, l.columns())
		return write(0, nodes)
	}, func(step int, nodes []int32) error { return write(step+1, nodes) }, func([]int32) error { return nil })
	if err != nil {
		return err
	}
	return t.done()
}

// WritePredictions writes what each system said of each node of the stream, as published, before its label was learned.
func (r *Result) WritePredictions(w io.Writer) error {
	header := []string{"system", "node", "step", "label"}
	for _, class := range r.Classes {
		header = append(header, "probabilities."+class)
	}
	t := newTable(w, r.run.Set, header...)
	has := make(map[string][]bool)
	for _, own := range r.run.Own {
		has[own.Name] = own.Has
	}
	for _, s := range r.Systems {
		for step, nodes := range r.run.Set.Split.Steps {
			for _, v := range nodes {
				if known := has[s.Name]; known == nil || known[v] {
					t.fields = append(t.fields, s.Name, t.set.IDs.String(v), strconv.Itoa(step+1), t.label(v))
					t.end(r.run.row(s.Name, v))
				}
			}
		}
	}
	return t.done()
}
