package calibration

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOddsBins: a bin begins at its edge, whatever is no probability lies in the first or last
// bin, and edges are half an octave of odds apart.
func TestOddsBins(t *testing.T) {
	for b := 1; b < OddsBins; b++ {
		edge := OddsEdge(b)
		if below := math.Nextafter(edge, 0) - 1e-12; oddsBinOf(edge+1e-12) != b || oddsBinOf(below) != b-1 {
			t.Errorf("bin %d begins at %v, but that is in bin %d, and what is below in bin %d", b, edge, oddsBinOf(edge+1e-12), oddsBinOf(below))
		}
		if b > 1 {
			below := OddsEdge(b - 1)
			if ratio := edge / (1 - edge) / (below / (1 - below)); math.Abs(ratio-math.Sqrt2) > 1e-9 {
				t.Errorf("bin %d has %v times the odds of the one before", b, ratio)
			}
		}
	}
	for p, want := range map[float64]int{0: 0, -1: 0, 1e-300: 0, .5: evenOdds, 1: OddsBins - 1, 1 + 1e-9: OddsBins - 1} {
		if got := oddsBinOf(p); got != want {
			t.Errorf("%v is in bin %d, want %d", p, got, want)
		}
	}
	if oddsBinOf(math.NaN()) != 0 {
		t.Error("NaN is not in the first bin")
	}
}

// TestOddsRankAsProbabilitiesDo: with some 400 labels of a class, the AUC and the average precision
// of forty bins are within .005 of those of the probabilities themselves, however rare the class is
// and whether its probabilities are right or not. Parts of a stream add up to the whole.
func TestOddsRankAsProbabilitiesDo(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name         string
		rarity       float64 // mean log odds
		spread, skew float64 // standard deviation of log odds, and by how much they are too large
	}{
		{"1 in 8", -3, 2, 0}, {"1 in 60", -6.5, 2.5, 0}, {"1 in 300", -8, 2.2, 0}, {"overconfident", -7, 2.5, 2}, {"weak", -4, .7, 0},
	} {
		var whole, first, second Odds
		var rows []rated
		for positives := 0; positives < 400; {
			odds := c.rarity + rng.NormFloat64()*c.spread
			p := float64(float32(1 / (1 + math.Exp(-odds-c.skew))))
			r := rated{p, rng.Float64() < 1/(1+math.Exp(-odds))}
			rows = append(rows, r)
			whole.Add(r.p, r.is, 1)
			[]*Odds{&first, &second}[len(rows)%2].Add(r.p, r.is, 1)
			if r.is {
				positives++
			}
		}
		auc, ap, ok := whole.Ranking()
		wantAUC, wantAP := ranking(rows)
		if !ok || math.Abs(auc-wantAUC) > .005 || math.Abs(ap-wantAP) > .005 {
			t.Errorf("%s: AUC %.4f and average precision %.4f, want %.4f and %.4f", c.name, auc, ap, wantAUC, wantAP)
		}
		if first.Merge(&second); first.From(0).Rows != whole.From(0).Rows || first.From(20).Labels != whole.From(20).Labels {
			t.Errorf("%s: the parts do not add up to the whole", c.name)
		}
		ece, chance := whole.ECE()
		if off := c.skew > 0; off != (ece > chance) {
			t.Errorf("%s: ECE %.5f, by chance up to %.5f", c.name, ece, chance)
		}
	}
}

// TestOddsWeigh: a label of weight w counts as w labels.
func TestOddsWeigh(t *testing.T) {
	var once, weighed Odds
	for range 3 {
		once.Add(.7, true, 1)
		once.Add(.2, false, 1)
		once.Add(.9, false, 1)
	}
	weighed.Add(.7, true, 3)
	weighed.Add(.2, false, 3)
	weighed.Add(.9, false, 3)
	auc, ap, _ := once.Ranking()
	if a, p, ok := weighed.Ranking(); !ok || a != auc || p != ap || auc != .5 {
		t.Errorf("AUC %v and average precision %v, by weights %v and %v", auc, ap, a, p)
	}
	var none Odds
	none.Add(.5, true, 1)
	if _, _, ok := none.Ranking(); ok {
		t.Error("a ranking without other labels")
	}
}

type rated struct {
	p  float64
	is bool
}

// ranking returns the AUC and the average precision of rows, equal probabilities as one step.
func ranking(rows []rated) (auc, ap float64) {
	slices.SortFunc(rows, func(a, b rated) int { return cmp.Compare(b.p, a.p) })
	var labels, others float64
	for i := 0; i < len(rows); {
		var k, m float64
		p := rows[i].p
		for ; i < len(rows) && rows[i].p == p; i++ {
			if rows[i].is {
				k++
			} else {
				m++
			}
		}
		auc += m * (labels + k/2)
		labels, others = labels+k, others+m
		ap += k * labels / (labels + others)
	}
	return auc / (labels * others), ap / labels
}

// TestRankingErrors: over many samples of one stream, AUC and average precision scatter as the standard errors say, or up to a third less:
// that of the AUC is for worse distributions than normal ones.
func TestRankingErrors(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const samples = 300
	var aucs, aps []float64
	var aucError, apError float64
	for range samples {
		var o Odds
		for i := range 2000 {
			is := i < 60
			odds := rng.NormFloat64() - 4
			if is {
				odds += 2
			}
			o.Add(1/(1+math.Exp(-odds)), is, 1)
		}
		auc, ap, _ := o.Ranking()
		e, f := o.RankingErrors()
		aucs, aps, aucError, apError = append(aucs, auc), append(aps, ap), aucError+e/samples, apError+f/samples
	}
	for _, c := range []struct {
		score string
		list  []float64
		is    float64
	}{{"AUC", aucs, aucError}, {"average precision", aps, apError}} {
		var mean, square float64
		for _, x := range c.list {
			mean += x / samples
			square += x * x / samples
		}
		if want := math.Sqrt(square - mean*mean); c.is < .75*want || c.is > 1.6*want {
			t.Errorf("the error of %s is %.4f, and %d samples scatter by %.4f", c.score, c.is, samples, want)
		}
	}
	if auc, ap := new(Odds).RankingErrors(); auc != 0 || ap != 0 {
		t.Errorf("errors %v and %v of nothing", auc, ap)
	}
}

// TestRestOfTwo: the commoner of two classes has the AUC and the calibration of the rarer one, though nearly all of its
// probabilities are in the last bin, and its average precision is that of the exact ranks.
func TestRestOfTwo(t *testing.T) {
	rng := rand.New(rand.NewPCG(48, 1))
	var fraud, ok Odds
	type row struct {
		p  float64
		is bool
	}
	var rows []row
	for range 50_000 {
		p := 0.01 * math.Exp(1.2*rng.NormFloat64())
		if p > 0.9 {
			continue
		}
		is := rng.Float64() < p
		fraud.Add(p, is, 1)
		ok.Add(1-p, !is, 1)
		rows = append(rows, row{1 - p, !is})
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(b.p, a.p) })
	hits, precision := 0.0, 0.0
	for i, r := range rows {
		if r.is {
			hits++
			precision += hits / float64(i+1)
		}
	}
	rest := fraud.Rest()
	auc, ap, _ := rest.Ranking()
	want, _, _ := fraud.Ranking()
	wrong, _, _ := ok.Ranking()
	ece, chance := rest.ECE()
	wantECE, wantChance := fraud.ECE()
	if math.Abs(auc-want) > 1e-12 || math.Abs(ap-precision/hits) > 1e-4 || math.Abs(ece-wantECE) > 1e-12 || math.Abs(chance-wantChance) > 1e-12 {
		t.Errorf("AUC %v, average precision %v, ECE %v (%v), want %v, %v, %v (%v)", auc, ap, ece, chance, want, precision/hits, wantECE, wantChance)
	}
	if math.Abs(wrong-want) < 0.02 {
		t.Errorf("the common class's own bins give %v, the rare one's %v: they need no other", wrong, want)
	}
}
