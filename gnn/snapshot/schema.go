package snapshot

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/safetensors"
)

// Schema is a walk over the declarations of a state, either to save it or to
// restore it. The functions that declare a tensor, such as [Array], have the
// elements to save as an argument and return those that were restored.
//
// Restoring stops at the first error: what is declared after it returns nothing,
// and what stands in [Schema.Check] is not run. Sizes are checked against the
// file before memory is taken, and every error wraps [safetensors.ErrDamaged]
// but those of the disk.
type Schema struct {
	file   *safetensors.Reader // nil when saving
	parts  []safetensors.Part
	frozen []frozen
	err    error
}

type frozen interface {
	Begin(n int)
	End()
}

// Saving returns a schema that collects the tensors of a state.
func Saving() *Schema { return &Schema{} }

// Restoring returns a schema that reads them from a file.
func Restoring(file *safetensors.Reader) *Schema { return &Schema{file: file} }

// Saving reports whether the schema saves: a store is then frozen, with
// [Schema.Freeze], before its tensors are declared.
func (s *Schema) Saving() bool { return s.file == nil }

// Freeze begins a freeze of a store's first n records, until [Schema.Release].
// It does nothing when restoring.
func (s *Schema) Freeze(f frozen, n int) {
	if s.Saving() {
		f.Begin(n)
		s.frozen = append(s.frozen, f)
	}
}

// Release ends all freezes that began for this schema. The tensors may not be
// read any more.
func (s *Schema) Release() {
	for _, f := range s.frozen {
		f.End()
	}
	s.frozen = nil
}

// Parts returns the tensors to save, in the order of their declarations.
func (s *Schema) Parts() []safetensors.Part { return s.parts }

// Finish returns the first error of restoring. A tensor of the file that was not
// declared is one.
func (s *Schema) Finish() error {
	if s.err == nil {
		s.err = s.file.Done()
	}
	return s.err
}

// Len is the number of rows that the tensor of this name is about to be declared
// with: n when saving; when restoring what the file says, 0 for no such tensor.
// More than the limit are an error.
func (s *Schema) Len(name string, n, limit int) int {
	if s.Saving() {
		return n
	}
	if s.err == nil {
		if n = s.file.Len(name); n <= limit {
			return n
		}
		s.err = Damaged("%s: %d rows, at most %d are possible", name, n, limit)
	}
	return 0
}

// Has is for state that is not always there: it reports whether there is any
// when saving, as the caller says, and when restoring whether the file has rows
// of the tensor.
func (s *Schema) Has(name string, there bool) bool {
	if s.Saving() {
		return there
	}
	return s.err == nil && s.file.Len(name) > 0
}

// Check runs a check of what was restored so far, or builds something of it. It
// does nothing when saving or after an error. More may be declared within it.
func (s *Schema) Check(check func() error) {
	if s.Saving() || s.err != nil {
		return
	}
	if err := check(); s.err == nil {
		s.err = err
	}
}

// Damaged returns an error that wraps [safetensors.ErrDamaged].
func Damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{safetensors.ErrDamaged}, args...)...)
}
