package pool

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
)

// phi is a row φ of a fitted head: its columns, ascending, and their values.
type phi struct{ double.Row }

func (x *phi) equals(other *phi) bool {
	column, value := x.Entries()
	columns, values := other.Entries()
	return slices.Equal(column, columns) && slices.Equal(value, values)
}

// featureMap makes the rows φ of a fitted head: dense features are standardised, not beyond mostDeviations, and sparse ones of
// unit length.
type featureMap struct {
	shape   Shape
	blocks  []placed
	columns int
	degree  []float64 // the mean of log(1 + deg) of training rows: one number
	shares  []float64 // what lifts are less; none without these

	row    phi // the one that was loaded last
	buffer []float64
}

// mostDeviations bounds standardised features: one that is far out shall not decide alone.
const mostDeviations = 5

func newFeatureMap(cfg Fitted, shape Shape) *featureMap {
	m := &featureMap{
		shape: shape, blocks: Wide{Blocks: cfg.Blocks, Scale: cfg.Scale}.place(shape), columns: int(cfg.columns(shape)),
		degree: make([]float64, 1),
	}
	if slices.ContainsFunc(cfg.Blocks, Block.isLifts) {
		m.shares = make([]float64, shape.Classes)
	}
	return m
}

// fit sets means, deviations and shares from the training rows.
func (m *featureMap) fit(b *Batch) {
	for _, block := range m.blocks {
		if block.standard != nil {
			block.standard.fitRows(OwnFeatures, &b.Rows)
		}
	}
	if m.shares != nil {
		for _, y := range b.Labels {
			m.shares[y] += 1 / float64(b.N)
		}
		if slices.Max(m.shares) < .5 {
			clear(m.shares)
		}
	}
	for _, n := range b.Degree {
		m.degree[0] += double.Log(1+float64(n)) / float64(b.N)
	}
}

// load sets row to φ of row i.
func (m *featureMap) load(rows *Rows, i int) {
	m.row.Reset()
	for _, b := range m.blocks {
		if b.standard == nil && b.isFeatures() {
			from := &rows.X
			if b.Block == meanFeatures {
				from = &rows.S
			}
			m.loadUnit(from, i, b.at)
			continue
		}
		m.buffer = kernel.Resize(m.buffer, b.end-b.at)
		switch {
		case b.standard == nil:
			b.around(m.buffer, rows, i, m.shape.Classes)
			switch {
			case b.Block == LogDegree:
				m.buffer[0] = float64(m.buffer[0]/degreeScale) - m.degree[0]
			case b.isLifts() && slices.Max(m.buffer) > 0:
				for c, share := range m.shares {
					m.buffer[c] -= share
				}
			}
		case !b.standard.raw(m.buffer, b.Block, rows, i):
			continue
		default:
			for j, mean := range b.standard.mean {
				m.buffer[j] = min(max((m.buffer[j]-mean)*b.standard.inverse[j], -mostDeviations), mostDeviations)
			}
		}
		m.row.Append(b.at, m.buffer...)
	}
}

func (m *featureMap) loadUnit(from *Features, i, at int) {
	var dense entries
	index, value, by := from.unit(i, m.shape.Features, &dense)
	if !slices.Contains(value, 0) {
		m.row.AppendScaled(at, index, value, by)
		return
	}
	for k, j := range index {
		m.row.Append(at+int(j), float64(float64(value[k])*by))
	}
}

// trainedKey returns the key of a training row with the class and the features of the loaded row.
func (m *featureMap) trainedKey(class int) int64 {
	var d digest
	d.uint(uint64(class))
	column, value := m.row.Entries()
	for e, j := range column {
		if b := m.blocks[0]; b.Block == OwnFeatures && int(j) < b.end {
			d.uint(uint64(j))
			d.uint(math.Float64bits(value[e]))
		}
	}
	return -2 - int64(d>>2)
}

// twin returns a map with the same means and deviations, and scratch memory of its own.
func (m *featureMap) twin() *featureMap {
	t := *m
	t.row, t.buffer = phi{}, nil
	return &t
}

// eachScale visits means and deviations.
func (m *featureMap) eachScale(visit func([]float64)) {
	for _, b := range m.blocks {
		if b.standard != nil {
			visit(b.standard.mean)
			visit(b.standard.inverse)
		}
	}
}
