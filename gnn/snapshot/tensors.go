package snapshot

import (
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
)

// Array declares a tensor of the given values, which must not change until the
// schema is released. It returns the restored values, nil when saving.
func Array[T safetensors.Element](s *Schema, name string, values []T, shape ...int) []T {
	if !s.Saving() {
		return read[T](s, name, shape...)
	}
	s.parts = append(s.parts, safetensors.PartOf(name, values, shape...))
	return nil
}

// Slice declares a tensor that is saved from a copy of *values and restored to
// *values.
func Slice[T safetensors.Element](s *Schema, name string, values *[]T, shape ...int) {
	if restored := Array(s, name, slices.Clone(*values), shape...); restored != nil {
		*values = restored
	}
}

// Value declares a tensor of shape [1] that is saved from the present value of *x
// and restored to *x.
func Value[T safetensors.Element](s *Schema, name string, x *T) {
	if restored := Array(s, name, []T{*x}, 1); restored != nil {
		*x = restored[0]
	}
}

// Column declares a tensor of n elements. When the tensor is written, next is
// called n times and returns them in order. Column returns the restored
// elements, nil when saving.
func Column[T safetensors.Element](s *Schema, name string, next func() T, n int) []T {
	if !s.Saving() {
		return read[T](s, name, n)
	}
	s.parts = append(s.parts, safetensors.NewPart[T](name, func(b []byte) []byte { return safetensors.Append(b, next()) }, n))
	return nil
}

// Lists declares a tensor that is a concatenation of lists. When the tensor is
// written, next returns the lists in order and is called until the shape is
// filled. Lists returns all restored elements, nil when saving.
func Lists[T safetensors.Element](s *Schema, name string, next func() []T, shape ...int) []T {
	if !s.Saving() {
		return read[T](s, name, shape...)
	}
	s.parts = append(s.parts, safetensors.NewPart[T](name, func(b []byte) []byte { return safetensors.Append(b, next()...) }, shape...))
	return nil
}

// Rows freezes the first n rows of a table, each of the given shape, and declares
// them as a tensor. They are restored to the table, which must be empty.
//
// Unless check is nil, it is called with the restored elements before they are
// stored, in pieces that may begin and end within a row, by several goroutines at
// once.
func Rows[T safetensors.Element](s *Schema, name string, table *kernel.Table[T], freeze *Freeze[T], check func([]T) error,
	n int, shape ...int,
) {
	s.Freeze(freeze, n)
	GatherRows(s, name, table, freeze.Walk(table.Row), check, n, shape...)
}

// GatherRows is [Rows] for n rows in an order of their own, such as that of a
// queue. When the tensor is written, next returns the rows in that order. They are
// restored to rows 0 to n-1 of the table. The caller freezes the table.
func GatherRows[T safetensors.Element](s *Schema, name string, table *kernel.Table[T], next func() []T,
	check func([]T) error, n int, shape ...int,
) {
	if s.Saving() {
		Lists(s, name, next, append([]int{n}, shape...)...)
		return
	}
	s.Check(func() error { return safetensors.ReadRows(s.file, name, table, check, n, shape...) })
}

// stateful is a part that has its own binary encoding of its state.
type stateful interface {
	// AppendState appends the encoded state to b.
	AppendState(b []byte) []byte
	// SetState decodes what AppendState wrote, or returns an error.
	SetState(b []byte) error
}

// Bytes declares a tensor of the present encoded state of part, which is restored
// by its SetState.
func Bytes(s *Schema, name string, part stateful) {
	if s.Saving() {
		state := part.AppendState(nil)
		Array(s, name, state, len(state))
		return
	}
	state := read[uint8](s, name, s.file.Len(name))
	s.Check(func() error {
		if err := part.SetState(state); err != nil {
			return Damaged("%s: %v", name, err)
		}
		return nil
	})
}

func read[T safetensors.Element](s *Schema, name string, shape ...int) (values []T) {
	s.Check(func() (err error) {
		values, err = safetensors.Read[T](s.file, name, shape...)
		return err
	})
	return values
}
