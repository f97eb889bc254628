package snapshot

import (
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
)

// Array declares a tensor of the given values, which may not change before they
// were read. It returns the values that were restored, and nil when saving.
func Array[T safetensors.Element](s *Schema, name string, values []T, shape ...int) []T {
	if !s.Saving() {
		return read[T](s, name, shape...)
	}
	s.parts = append(s.parts, safetensors.PartOf(name, values, shape...))
	return nil
}

// Slice declares a slice, which is saved as it is now or restored in place.
func Slice[T safetensors.Element](s *Schema, name string, values *[]T, shape ...int) {
	if restored := Array(s, name, slices.Clone(*values), shape...); restored != nil {
		*values = restored
	}
}

// Value declares a number, which is saved as it is now or restored in place.
func Value[T safetensors.Element](s *Schema, name string, x *T) {
	if restored := Array(s, name, []T{*x}, 1); restored != nil {
		*x = restored[0]
	}
}

// Column declares a tensor of n elements, which next returns in turn when they
// are written. It returns the elements that were restored, and nil when saving.
func Column[T safetensors.Element](s *Schema, name string, next func() T, n int) []T {
	if !s.Saving() {
		return read[T](s, name, n)
	}
	s.parts = append(s.parts, safetensors.NewPart[T](name, func(b []byte) []byte { return safetensors.Append(b, next()) }, n))
	return nil
}

// Lists declares a tensor of lists, one after the other, which next returns in
// turn when they are written. It returns all elements that were restored, and
// nil when saving.
func Lists[T safetensors.Element](s *Schema, name string, next func() []T, shape ...int) []T {
	if !s.Saving() {
		return read[T](s, name, shape...)
	}
	s.parts = append(s.parts, safetensors.NewPart[T](name, func(b []byte) []byte { return safetensors.Append(b, next()...) }, shape...))
	return nil
}

// Rows freezes the first n rows of a table, each of the given shape, and declares
// them. They are restored into the table, which has no rows then. Unless it is
// nil, check sees all elements before, in pieces that may begin and end within a
// row, and may be called by several goroutines at once.
func Rows[T safetensors.Element](s *Schema, name string, table *kernel.Table[T], freeze *Freeze[T], check func([]T) error, n int, shape ...int) {
	s.Freeze(freeze, n)
	GatherRows(s, name, table, freeze.Walk(table.Row), check, n, shape...)
}

// GatherRows is [Rows] of n rows in the order in which next returns them when
// they are written, such as that of a queue. They are restored as rows 0 to n-1.
func GatherRows[T safetensors.Element](s *Schema, name string, table *kernel.Table[T], next func() []T, check func([]T) error, n int, shape ...int) {
	if s.Saving() {
		Lists(s, name, next, append([]int{n}, shape...)...)
		return
	}
	s.Check(func() error { return safetensors.ReadRows(s.file, name, table, check, n, shape...) })
}

// Stateful is what writes its state as bytes of its own. SetState returns an
// error when the bytes are no such state.
type Stateful interface {
	AppendState(b []byte) []byte
	SetState(b []byte) error
}

// Bytes declares a tensor of the bytes that a part makes of itself now.
func Bytes(s *Schema, name string, part Stateful) {
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

// read restores a tensor of exactly this shape.
func read[T safetensors.Element](s *Schema, name string, shape ...int) (values []T) {
	s.Check(func() (err error) {
		values, err = safetensors.Read[T](s.file, name, shape...)
		return err
	})
	return values
}
