package gnn

// Bytes is the memory of a graph of this encoder that grew to a number of nodes with
// degree neighbours each on average. vectors are the rows, whose width is that of the
// first layer; structure is the rest.
func (g *Graph) Bytes(nodes int, degree float64) (vectors, structure int64) {
	g.rows.each(func(t growing) { vectors += t.Bytes(nodes) })
	structure = g.nodes.Bytes(nodes) + g.adj.Bytes(float64(nodes)*degree)
	if t := g.kinds; t != nil { // with sums of as many means as there are, or as neighbours
		vectors += t.table(min(t.enc.means, max(1, int(degree)))).Bytes(nodes)
		structure += t.nodes.Bytes(nodes) + t.lists.Bytes(float64(nodes)*degree)
	}
	return vectors, structure
}
