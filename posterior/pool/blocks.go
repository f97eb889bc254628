package pool

import (
	"math"

	"github.com/gvbll/gvbll/gnn/kernel/double"
)

// Block names some columns of a wide head's rows φ_v. Its head has one weight for each
// column and class.
type Block string

// The blocks. Features are scaled as [Config.Scale] says. Labels around a node come both dampened
// and as shares: the first say how much is known, the second which class it is of, and a
// linear head can make neither of the other.
const (
	OwnFeatures  Block = "own"           // x_v
	meanFeatures Block = "neighbours"    // s_v/deg v
	labelCounts  Block = "labels"        // n_v/√max(1, Σn_v)
	secondCounts Block = "second"        // q_v/√max(1, Σq_v)
	labelShares  Block = "label-shares"  // n_v/Σn_v, or 0
	secondShares Block = "second-shares" // q_v/Σq_v, or 0
	labelLifts   Block = "label-lifts"   // label-shares less those of training labels, or 0: of fitted heads
	secondLifts  Block = "second-lifts"  // second-shares, likewise
	LogDegree    Block = "degree"        // log(1 + deg v)/4
	constant     Block = "constant"      // 1
	kindCounts   Block = "kinds"         // labels, but by kind of edge: one after the other for each mean
	kindShares   Block = "kind-shares"   // label-shares, likewise
)

// allBlocks are all of them where edges have no kinds, in the order of a head that has all.
var allBlocks = []Block{OwnFeatures, meanFeatures, labelCounts, secondCounts, LogDegree, labelShares, secondShares, constant}

// degreeScale brings log(1 + deg) to about the size of the other columns: it is 1 at a
// degree of 54.
const degreeScale = 0.25

// width returns the number of columns of b where there are that many features, classes and means.
func width[T int | float64](b Block, features, classes, means T) T {
	switch b {
	case kindCounts, kindShares:
		return means * classes
	case OwnFeatures, meanFeatures:
		return features
	case labelCounts, secondCounts, labelShares, secondShares, labelLifts, secondLifts:
		return classes
	}
	return 1
}

// needs returns the fields of Rows that b is made of.
func (b Block) needs() Need {
	switch b {
	case OwnFeatures:
		return NeedX
	case meanFeatures:
		return NeedX | NeedS | needDegree
	case labelCounts, labelShares, labelLifts:
		return NeedLabelled
	case secondCounts, secondShares, secondLifts:
		return NeedSecond
	case LogDegree:
		return needDegree
	case kindCounts, kindShares:
		return NeedKinds
	}
	return 0
}

// isLifts reports whether b is of shares less those of training labels, if one class has half of these. So nothing known is like what
// is known on average: as shares of 0, further from a rare class's absence than from its presence, it would look like the rare class
// wherever labels are late. Of classes that are all rare, that something is known is worth having (ADR 41).
func (b Block) isLifts() bool { return b == labelLifts || b == secondLifts }

// isFeatures reports whether b is made of features, which are scaled.
func (b Block) isFeatures() bool { return b == OwnFeatures || b == meanFeatures }

// around writes the columns of row i, of that many classes, to dst, for blocks other than features. Lifts it writes as shares.
func (b Block) around(dst []float64, rows *Rows, i, c int) {
	switch b {
	case kindCounts, kindShares:
		for at := 0; at < len(dst); at += c {
			part, n := dst[at:at+c], rows.Kinds[i*len(dst)+at:][:c]
			if b == kindCounts {
				dampen(part, n)
			} else {
				normalise(part, n)
			}
		}
	case labelCounts:
		dampen(dst, rows.Labelled[i*c:(i+1)*c])
	case secondCounts:
		dampen(dst, rows.Second[i*c:(i+1)*c])
	case labelShares, labelLifts:
		normalise(dst, rows.Labelled[i*c:(i+1)*c])
	case secondShares, secondLifts:
		normalise(dst, rows.Second[i*c:(i+1)*c])
	case LogDegree:
		dst[0] = degreeScale * double.Log(1+float64(rows.Degree[i]))
	case constant:
		dst[0] = 1
	}
}

// dampen writes n/√max(1, Σn) to dst: k equal labels count as √k, because the labels
// of neighbours are not independent of each other.
func dampen(dst []float64, n []float32) {
	var total float64
	for k, x := range n {
		dst[k] = float64(x)
		total += float64(x)
	}
	if total <= 1 {
		return
	}
	by := 1 / math.Sqrt(total)
	for k := range dst {
		dst[k] *= by
	}
}

// normalise writes n/Σn to dst, 0 if there is nothing to divide.
func normalise(dst []float64, n []float32) {
	var total float64
	for _, x := range n {
		total += float64(x)
	}
	if !(total > 0) {
		clear(dst)
		return
	}
	by := 1 / total
	for k, x := range n {
		dst[k] = by * float64(x)
	}
}

// placed is a block at its place in φ, columns from at to below end.
type placed struct {
	Block
	at, end  int
	standard *standardizer // of dense features, nil of other blocks
}

// place puts the head's blocks one behind the other.
func (w Wide) place(s Shape) (list []placed) {
	at := 0
	for _, b := range w.Blocks {
		p := placed{Block: b, at: at, end: at + width(b, s.Features, s.Classes, s.Means)}
		if w.Scale == Standard && b.isFeatures() {
			p.standard = newStandardizer(s.Features)
		}
		list, at = append(list, p), p.end
	}
	return list
}

// mixes reports whether the head's interactions read a block of so many columns: labels and degree,
// and features where they are dense and few.
func (w Wide) mixes(b Block, columns float64) bool {
	if b == constant {
		return false
	}
	return !b.isFeatures() || w.Scale == Standard && columns <= fewFeatures
}
