package pool

import (
	"bufio"
	"compress/gzip"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// graph is a labelled graph with sparse features.
type graph struct {
	classes, features int
	labels            []int32
	index             [][]int32
	value             [][]float32
	edges             [][2]int32
}

// readGraph reads a folder of shared/datasets. It skips the test if there is none.
func readGraph(tb testing.TB, name string) *graph {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		path := filepath.Join(dir, "shared", "datasets", name)
		if _, err := os.Stat(path); err == nil {
			dir = path
			break
		}
		if dir == filepath.Dir(dir) {
			tb.Skipf("no shared/datasets/%s above the working directory", name)
		}
		dir = filepath.Dir(dir)
	}
	lines := func(file string, each func(fields []string)) {
		f, err := os.Open(filepath.Join(dir, file+".csv.gz"))
		if err != nil {
			tb.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			tb.Fatal(err)
		}
		s := bufio.NewScanner(z)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			each(strings.Split(s.Text(), ","))
		}
		if s.Err() != nil {
			tb.Fatal(s.Err())
		}
	}
	integer := func(s string) int32 {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			tb.Fatal(err)
		}
		return int32(x)
	}
	g := &graph{}
	lines("node-label", func(f []string) {
		g.labels = append(g.labels, integer(f[0]))
		g.classes = max(g.classes, int(integer(f[0]))+1)
	})
	lines("node-feat", func(f []string) {
		g.features = len(f)
		var index []int32
		var value []float32
		for j, s := range f {
			if x, err := strconv.ParseFloat(s, 32); err != nil {
				tb.Fatal(err)
			} else if x != 0 {
				index, value = append(index, int32(j)), append(value, float32(x))
			}
		}
		g.index, g.value = append(g.index, index), append(g.value, value)
	})
	lines("edge", func(f []string) { g.edges = append(g.edges, [2]int32{integer(f[0]), integer(f[1])}) })
	return g
}

// split draws a stratified share of the nodes for training and shuffles the
// others into steps whose sizes differ by one at most.
func (g *graph) split(seed uint64, share float64, steps int) (train []int32, batches [][]int32) {
	rng := rand.New(rand.NewPCG(seed, 1))
	byClass := make([][]int32, g.classes)
	for v, y := range g.labels {
		byClass[y] = append(byClass[y], int32(v))
	}
	var rest []int32
	for _, nodes := range byClass {
		rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		n := int(math.Round(share * float64(len(nodes))))
		if len(nodes) > 0 {
			n = max(n, 1)
		}
		train, rest = append(train, nodes[:n]...), append(rest, nodes[n:]...)
	}
	rng.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	for t := range steps {
		batches = append(batches, rest[t*len(rest)/steps:(t+1)*len(rest)/steps])
	}
	return train, batches
}

// player keeps the part of a graph that has arrived, and computes from it what a pool is
// given.
type player struct {
	g         *graph
	neighbour [][]int32 // of the whole graph, ascending
	here      []bool
	known     []bool
	sums      []map[int32]float64 // Σ of the neighbours' unit-length features
	counts    [][]float32         // neighbours with a known label, by class
	degree    []int32
}

// newPlayer returns a player of a graph of which no node has arrived.
func newPlayer(g *graph) *player {
	n := len(g.labels)
	p := &player{
		g: g, neighbour: make([][]int32, n), here: make([]bool, n), known: make([]bool, n),
		sums: make([]map[int32]float64, n), counts: make([][]float32, n), degree: make([]int32, n),
	}
	for _, e := range g.edges {
		if e[0] != e[1] {
			p.neighbour[e[0]] = append(p.neighbour[e[0]], e[1])
			p.neighbour[e[1]] = append(p.neighbour[e[1]], e[0])
		}
	}
	for v := range n {
		slices.Sort(p.neighbour[v])
		p.neighbour[v] = slices.Compact(p.neighbour[v])
		p.sums[v] = make(map[int32]float64)
		p.counts[v] = make([]float32, g.classes)
	}
	return p
}

// arrive adds nodes to the graph, with their edges to nodes that are there.
func (p *player) arrive(nodes []int32) {
	for _, v := range nodes {
		p.here[v] = true
		for _, u := range p.neighbour[v] {
			if p.here[u] {
				p.link(u, v)
				p.link(v, u)
			}
		}
	}
}

// link adds u to the neighbours of v.
func (p *player) link(v, u int32) {
	p.degree[v]++
	square := 0.0
	for _, x := range p.g.value[u] {
		square += float64(x) * float64(x)
	}
	for k, j := range p.g.index[u] {
		p.sums[v][j] += float64(p.g.value[u][k]) / math.Sqrt(square)
	}
	if p.known[u] {
		p.counts[v][p.g.labels[u]]++
	}
}

// reveal makes the labels of nodes known to their neighbours.
func (p *player) reveal(nodes []int32) {
	for _, v := range nodes {
		p.known[v] = true
		for _, u := range p.neighbour[v] {
			if p.here[u] {
				p.counts[u][p.g.labels[v]]++
			}
		}
	}
}

// rows returns the rows of nodes as of now.
func (p *player) rows(nodes []int32) Rows {
	r := Rows{N: len(nodes), X: Features{Start: []int{0}}, S: Features{Start: []int{0}}}
	for _, v := range nodes {
		r.X.Index, r.X.Value = append(r.X.Index, p.g.index[v]...), append(r.X.Value, p.g.value[v]...)
		r.X.Start = append(r.X.Start, len(r.X.Index))
		var columns []int32
		for j := range p.sums[v] {
			columns = append(columns, j)
		}
		slices.Sort(columns)
		for _, j := range columns {
			r.S.Index, r.S.Value = append(r.S.Index, j), append(r.S.Value, float32(p.sums[v][j]))
		}
		r.S.Start = append(r.S.Start, len(r.S.Index))
		r.Degree = append(r.Degree, p.degree[v])
		r.Labelled = append(r.Labelled, p.counts[v]...)
		second := make([]float64, p.g.classes)
		for _, u := range p.neighbour[v] {
			if !p.here[u] {
				continue
			}
			for k, n := range p.counts[u] {
				second[k] += float64(n) / float64(p.degree[u])
			}
			if p.known[v] {
				second[p.g.labels[v]] -= 1 / float64(p.degree[u])
			}
		}
		for _, q := range second {
			r.Second = append(r.Second, float32(max(q, 0)))
		}
	}
	return r
}

// batch returns the labels of nodes that were served as the given rows and log
// probabilities, with the edges among them and the neighbours to replay. The labels are
// not known to neighbours yet.
func (p *player) batch(nodes []int32, served Rows, logProbs []float32) Batch {
	b := Batch{Rows: served, LogProbs: logProbs}
	row := make(map[int32]int32)
	for i, v := range nodes {
		b.Labels = append(b.Labels, p.g.labels[v])
		row[v] = int32(i)
	}
	var replay []int32
	for i, v := range nodes {
		found := 0
		for _, u := range p.neighbour[v] {
			if j, in := row[u]; in {
				if j > int32(i) {
					b.Pairs = append(b.Pairs, [2]int32{int32(i), j})
				}
				continue
			}
			if found < 4 && p.known[u] {
				found++
				if !slices.Contains(replay, u) {
					replay = append(replay, u)
				}
			}
		}
	}
	b.Replay = p.rows(replay)
	for _, u := range replay {
		b.ReplayLabels = append(b.ReplayLabels, p.g.labels[u])
	}
	return b
}

// measures are means over the steps of a stream.
type measures struct{ accuracy, nll, ece float64 }

// play trains a pool on a share of the graph and streams the rest to it, with labels after
// every step. It returns the pool, and the measures of the pool and of every head.
func (g *graph) play(tb testing.TB, cfg Config, seed uint64, share float64, steps int) (*Pool, []measures) {
	tb.Helper()
	pool, err := New(cfg, Shape{Classes: g.classes, Features: g.features}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	train, batches := g.split(seed, share, steps)
	p := newPlayer(g)
	p.arrive(train)
	rows := p.rows(train)
	b := p.batch(train, rows, nil)
	p.reveal(train)
	b.Second = p.rows(train).Second
	pool.Train(b)

	scores := make([]measures, len(pool.Names()))
	width := pool.LogProbsPerRow()
	for _, nodes := range batches {
		p.arrive(nodes)
		rows := p.rows(nodes)
		logProbs := make([]float32, len(nodes)*width)
		pool.Predict(rows, logProbs)
		b := p.batch(nodes, rows, logProbs)
		for k := range scores {
			probs := make([]float64, 0, len(nodes)*g.classes)
			for i := range nodes {
				for _, x := range logProbs[i*width+k*g.classes:][:g.classes] {
					probs = append(probs, math.Exp(float64(x)))
				}
			}
			m := new(calibration.Prequential).AddWindow(calibration.ScoreRows(probs, g.classes, b.Labels), 10)
			scores[k].accuracy += m.Acc / float64(steps)
			scores[k].nll += m.NLL / float64(steps)
			scores[k].ece += m.ECE / float64(steps)
		}
		pool.Learn(b)
		p.reveal(nodes)
	}
	return pool, scores
}

// withoutEmbedding is the default configuration for sparse features, without the heads on
// the embedding.
func withoutEmbedding(rows, classes int) Config {
	s := Default(Traits{Density: 0.01, Rows: rows, Classes: classes, Features: 1000})
	s.Heads = slices.DeleteFunc(s.Heads, func(h HeadConfig) bool { return h.Static != nil || h.Online != nil })
	return s
}

// TestBars: the default heads for sparse features, without those on the embedding, reach
// the recorded scores within their noise, with the same constants for every data set.
func TestBars(t *testing.T) {
	for _, bar := range []struct {
		name  string
		share float64
		steps int
		seeds uint64 // more for short streams
		measures
	}{
		{"cora", .05, 30, 10, measures{.82, .56, .08}},
		{"cornell", .2, 20, 40, measures{.755, .73, .29}},
		{"texas", .2, 20, 40, measures{.83, .44, .21}},
		{"wisconsin", .2, 20, 40, measures{.85, .49, .20}},
	} {
		t.Run(bar.name, func(t *testing.T) {
			g := readGraph(t, bar.name)
			var mean []measures
			var names []string
			for seed := range bar.seeds {
				pool, m := g.play(t, withoutEmbedding(int(bar.share*float64(len(g.labels))), g.classes), seed, bar.share, bar.steps)
				names = pool.Names()
				if mean == nil {
					mean = make([]measures, len(m))
				}
				for k := range m {
					mean[k].accuracy += m[k].accuracy / float64(bar.seeds)
					mean[k].nll += m[k].nll / float64(bar.seeds)
					mean[k].ece += m[k].ece / float64(bar.seeds)
				}
			}
			for k, m := range mean {
				t.Logf("%-15s accuracy %.3f  NLL %.3f  ECE %.3f", names[k], m.accuracy, m.nll, m.ece)
			}
			if m := mean[0]; m.accuracy < bar.accuracy || m.nll > bar.nll || m.ece > bar.ece {
				t.Errorf("accuracy %.3f, NLL %.3f, ECE %.3f, want at least %.3f, at most %.3f and at most %.3f", m.accuracy, m.nll, m.ece, bar.accuracy, bar.nll, bar.ece)
			}
		})
	}
}
