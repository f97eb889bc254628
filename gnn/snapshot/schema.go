package snapshot

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/safetensors"
)

// Schema saves or restores a state by visiting the declarations of its tensors.
// The functions that declare a tensor, such as [Array], take the elements to
// save and return the restored ones.
//
// Restoring stops at the first error: later declarations return nothing and
// later calls of [Schema.Check] do nothing. Sizes are checked against the file
// before memory is allocated. Every error wraps [safetensors.ErrDamaged], except
// for errors of reading the file.
type Schema struct {
	file   *safetensors.Reader // nil when saving
	parts  []safetensors.Part  // saving: the tensors declared so far
	frozen []freezer           // saving: the freezes to end in Release
	err    error               // restoring: the first error
}

// freezer is a [Freeze] of any element type.
type freezer interface {
	Begin(n int)
	End()
}

// Saving returns a schema that collects the tensors of a state to save.
func Saving() *Schema { return &Schema{} }

// Restoring returns a schema that reads the tensors of a state from a file.
func Restoring(file *safetensors.Reader) *Schema { return &Schema{file: file} }

// Saving reports whether the schema saves, as opposed to restores.
func (s *Schema) Saving() bool { return s.file == nil }

// Freeze freezes the first n records of a store until [Schema.Release]. Call it
// before declaring tensors that are read from f. It does nothing when restoring.
func (s *Schema) Freeze(f freezer, n int) {
	if s.Saving() {
		f.Begin(n)
		s.frozen = append(s.frozen, f)
	}
}

// Release ends all freezes of [Schema.Freeze]. The tensors of [Schema.Parts] must
// not be read afterwards.
func (s *Schema) Release() {
	for _, f := range s.frozen {
		f.End()
	}
	s.frozen = nil
}

// Parts returns the tensors to save, in the order of their declaration.
func (s *Schema) Parts() []safetensors.Part { return s.parts }

// Finish ends restoring and returns its first error. A tensor of the file that
// was not declared is an error.
func (s *Schema) Finish() error {
	if s.err == nil {
		s.err = s.file.Done()
	}
	return s.err
}

// Len returns the number of rows with which to declare the named tensor: n when
// saving; when restoring the length of its first dimension in the file, 0 if the
// file has no such tensor. More rows than limit in a file are an error.
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

// Has reports whether to declare an optional tensor: present when saving; when
// restoring whether the file has rows of the tensor.
func (s *Schema) Has(name string, present bool) bool {
	if s.Saving() {
		return present
	}
	return s.err == nil && s.file.Len(name) > 0
}

// Check calls check to validate the values restored so far or to build the state
// from them; an error ends restoring. It does nothing when saving or after an
// error. check may declare further tensors, which are then only restored.
func (s *Schema) Check(check func() error) {
	if s.Saving() || s.err != nil {
		return
	}
	if err := check(); s.err == nil {
		s.err = err
	}
}

// Damaged returns a formatted error that wraps [safetensors.ErrDamaged], for
// restored values that are not valid.
func Damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{safetensors.ErrDamaged}, args...)...)
}
