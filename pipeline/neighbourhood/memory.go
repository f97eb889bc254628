package neighbourhood

import "unsafe"

// Bytes is the memory of a number of nodes, with so many features that are not 0.
func (f *Features) Bytes(nodes int, nonzero float64) (bytes int64) {
	bytes = int64(nodes) * int64(unsafe.Sizeof(f.label[0]))
	if f.dense != nil {
		bytes += f.dense.Bytes(nodes)
	}
	if s := f.sparse; s != nil {
		bytes += int64(nodes)*int64(unsafe.Sizeof(s.lists[0])+unsafe.Sizeof(f.norms[0])) + s.arena.Bytes(float64(nodes)*nonzero)
	}
	if f.counts != nil {
		bytes += f.counts.Bytes(nodes) + f.served.Bytes(nodes)
	}
	return bytes
}
