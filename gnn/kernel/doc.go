// Package kernel has the float32 inner loops of encoding and training, in
// AVX-512, AVX2 and plain Go, chosen when the program starts; and the memory
// that they work on: growing tables and arenas on huge pages.
//
// # Bits
//
// Every form of a loop gives the same bits, so that a replay on another machine
// is a proof. The contract fixes the order of each sum:
//
//   - SIMD lanes run across outputs: no output's sum is divided among lanes;
//   - a sum starts from what the destination holds and adds its terms one by
//     one, in order;
//   - a product is rounded before it is added: nothing is fused.
//
// A caller may leave out a term with a zero factor: the other factor is finite,
// so the term is ±0, and a sum that starts from +0 and rounds to nearest never
// becomes the -0 that adding the term would change. That is why dense and
// sparse features agree.
//
// # Use
//
// Slices may not overlap unless they are the same. Shapes that do not fit and
// indices out of range panic: the assembly has no bounds checks, so everything
// is checked before.
//
// # Files
//
//	kernel.go    the loops over matrices
//	vector.go    the loops that go number by number
//	table.go     Table, and the loops over its rows; Zeros, Room, Resize
//	arena.go     Arena: many short lists
//	huge_linux.go, huge_other.go
//	             huge pages
//
// Below it:
//
//	double      the loops over float64, of package posterior
//	elementary  exp and log whose operations are not fused, of the encoders
//	level       the instruction set in use
//	gen         writes kernel_amd64.s, and stubs of both, which choose between the levels
//
// The package makes two exceptions to the rule that nothing below pipeline knows
// its environment, and neither can change a bit: the environment variable
// GVBLL_KERNEL selects one of the equal forms (package level), and a goroutine
// zeroes the block of memory that a table will need next (table.go).
package kernel
