package heads

import (
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Batch is the labels joined in a window to predictions that were made here, in the order in which
// they are learned. All fields have an entry (or a row) for each; all but labels are as of serving.
type Batch struct {
	Nodes    []int32        // numbers
	Rows     posterior.Rows // embeddings and temperatures
	Outputs  []float32      // [Serving.Width] numbers a label
	ServedBy []uint8        // the head that served
	Labels   []int32

	Corrections []Correction   // of labels that were learned before, or are in this batch
	Corrected   posterior.Rows // embeddings and temperatures, as they are now, of those with a class
}

// Correction is a label that is not the node's any more.
type Correction struct {
	Node     int32
	Was      int32 // class, none if it was withdrawn
	Class    int32 // in its place, none if it is withdrawn
	Replaced bool  // the node's features were replaced since the label was learned
}

// Empty reports whether there is nothing to learn.
func (b *Batch) Empty() bool { return len(b.Labels)+len(b.Corrections) == 0 }

// Clear empties the batch and keeps its memory.
func (b *Batch) Clear() {
	b.Nodes, b.Labels = b.Nodes[:0], b.Labels[:0]
	b.Rows.Z, b.Rows.Tau, b.Outputs, b.ServedBy = b.Rows.Z[:0], b.Rows.Tau[:0], b.Outputs[:0], b.ServedBy[:0]
	b.Corrections, b.Corrected = b.Corrections[:0], posterior.Rows{}
}

// copyTo copies embeddings, temperatures and labels to the memory of another batch, those of
// corrections last.
func (b *Batch) copyTo(to *pool.Batch) {
	to.Embedded.Z = append(append(to.Embedded.Z[:0], b.Rows.Z...), b.Corrected.Z...)
	to.Embedded.Tau = append(append(to.Embedded.Tau[:0], b.Rows.Tau...), b.Corrected.Tau...)
	to.Labels = append(to.Labels[:0], b.Labels...)
	for _, c := range b.Corrections {
		if c.Class != none {
			to.Labels = append(to.Labels, c.Class)
		}
	}
}
