package gnn

import "sync"

// minRows is how many rows a goroutine is worth, which takes some microseconds
// to wake.
const minRows = 32

// alone reports whether one worker had best do all of so many rows.
func (g *Graph) alone(rows int) bool { return len(g.work) == 1 || rows < 2*minRows }

// split has the workers share rows, each doing one range of them, and returns
// when all are done.
func (g *Graph) split(rows int, do func(w *workspace, from, to int)) {
	parts := min(len(g.work), rows/minRows)
	bound := func(part int) int { return rows * part / parts }
	var others sync.WaitGroup
	for part := 1; part < parts; part++ {
		others.Go(func() { do(&g.work[part], bound(part), bound(part+1)) })
	}
	do(&g.work[0], 0, bound(1))
	others.Wait()
}
