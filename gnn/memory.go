package gnn

// Bytes is the memory of a graph of this encoder that grew to a number of nodes with
// degree neighbours each on average. vectors are the rows, whose width is that of the
// first layer; structure is the rest.
func (g *Graph) Bytes(nodes int, degree float64) (vectors, structure int64) {
	g.rows.each(func(t growing) { vectors += t.Bytes(nodes) })
	return vectors, g.nodes.Bytes(nodes) + g.adj.Bytes(float64(nodes)*degree)
}
