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
}

// Clear empties the batch and keeps its memory.
func (b *Batch) Clear() {
	b.Nodes, b.Labels = b.Nodes[:0], b.Labels[:0]
	b.Rows.Z, b.Rows.Tau, b.Outputs, b.ServedBy = b.Rows.Z[:0], b.Rows.Tau[:0], b.Outputs[:0], b.ServedBy[:0]
}

// copyTo copies embeddings, temperatures and labels to the memory of another batch.
func (b *Batch) copyTo(to *pool.Batch) {
	to.Embedded.Z = append(to.Embedded.Z[:0], b.Rows.Z...)
	to.Embedded.Tau = append(to.Embedded.Tau[:0], b.Rows.Tau...)
	to.Labels = append(to.Labels[:0], b.Labels...)
}
