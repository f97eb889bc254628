package calibration

import "math"

// OddsBins is the number of bins of [Odds].
const OddsBins = 40

// evenOdds is the bin that begins at p = 1/2.
const evenOdds = 28

// Odds counts predictions by the probability p that they gave to one class. Bins have equal
// widths of log odds, half an octave: bin b begins at p/(1-p) = 2^((b-28)/2), but bin 0 at p = 0,
// and the last one has no end. So rare classes have bins where their probabilities are, down to
// p = .00009. The zero value is empty and ready to use.
//
// Counts add up over time and over workers, and those of labels that count w times are sums of w.
type Odds [OddsBins]OddsBin

// OddsBin is the predictions of one bin.
type OddsBin struct {
	Rows   float64 // predictions that have a label
	Labels float64 // those whose label is the class
	Sum    float64 // of p over all
}

// oddsBinOf returns the bin of a probability. NaN counts in the first.
func oddsBinOf(p float64) int {
	odds := p / max(1-p, 0) // rounding may bring p above 1
	if !(odds > 0) {
		return 0
	}
	exponent := int(math.Float64bits(odds*odds)>>52) - 1023 // ⌊2 log₂ odds⌋
	return min(max(exponent+evenOdds, 0), OddsBins-1)
}

// OddsEdge returns the least probability of a bin.
func OddsEdge(bin int) float64 {
	if bin == 0 {
		return 0
	}
	odds := math.Sqrt(math.Ldexp(1, bin-evenOdds))
	return odds / (1 + odds)
}

// Add counts one prediction, weight times: the probability that it gave to the class, and
// whether its label is the class.
func (o *Odds) Add(p float64, is bool, weight float64) {
	b := &o[oddsBinOf(p)]
	b.Rows += weight
	b.Sum += float64(p * weight)
	if is {
		b.Labels += weight
	}
}

// Merge adds the counts of other.
func (o *Odds) Merge(other *Odds) {
	for i, b := range other {
		o[i].add(b)
	}
}

// Rest returns the counts of all other labels by 1-p, for Ranking and ECE alone: its bins begin elsewhere than those of OddsEdge.
// Of two classes it is those of the other, and where that one is common, finer than by its own p, whose last bin begins at .98.
func (o *Odds) Rest() (rest Odds) {
	for i, b := range o {
		rest[OddsBins-1-i] = OddsBin{Rows: b.Rows, Labels: b.Rows - b.Labels, Sum: b.Rows - b.Sum}
	}
	return rest
}

// From returns the predictions in the bins from number bin on, as one: those that are acted on
// where p ≥ OddsEdge(bin). The precision of such a rule is Labels/Rows, its recall Labels over
// those of From(0).
func (o *Odds) From(bin int) (all OddsBin) {
	for _, b := range o[bin:] {
		all.add(b)
	}
	return all
}

// aboveInBin is what it is if odds grow by √2 from the beginning of a bin to its end, as they say:
// the mean of x in [0, 1] with a density in proportion to 2^(x/2), 1/(1-2^-½) - 2/ln 2.
const aboveInBin = 0.529

// Ranking returns how well the probabilities rank: the AUC, the probability that a random
// prediction of the class has a larger p than a random other one, and the average precision,
// the mean of the precision at each label of the class, itself among them. A bin hides the order in it: there, one of
// the class is above another one with probability aboveInBin. Both are off by less than .005 if a
// class has a few hundred labels, or, however it is ranked, by some hundredths of themselves. They are not ok unless
// there are labels of the class and others.
func (o *Odds) Ranking() (auc, averagePrecision float64, ok bool) {
	var from OddsBin
	for i := range o {
		b := o[OddsBins-1-i]
		from.add(b)
		others := b.Rows - b.Labels
		auc += float64(others * (from.Labels - float64((1-aboveInBin)*b.Labels)))
		if b.Labels > 0 {
			above := from.Labels - float64(b.Labels/2) + 0.5
			averagePrecision += float64(b.Labels * (above / (above + from.Rows - from.Labels - float64(aboveInBin*others))))
		}
	}
	if from.Labels <= 0 || from.Labels >= from.Rows {
		return 0, 0, false
	}
	return auc / (from.Labels * (from.Rows - from.Labels)), averagePrecision / from.Labels, true
}

// RankingErrors returns standard errors of what Ranking returns: of the AUC by Hanley and McNeil (1982), of the average precision as
// of a share of the labels of the class (Boyd et al., 2013). They are 0 where it is not ok.
func (o *Odds) RankingErrors() (auc, averagePrecision float64) {
	a, p, ok := o.Ranking()
	if !ok {
		return 0, 0
	}
	all := o.From(0)
	n, others := all.Labels, all.Rows-all.Labels
	variance := float64(a*(1-a)) + float64((n-1)*(a/(2-a)-float64(a*a))) + float64((others-1)*(float64(2*a*a)/(1+a)-float64(a*a)))
	return math.Sqrt(max(variance/(n*others), 0)), math.Sqrt(float64(p*(1-p)) / n)
}

// ECE returns the expected calibration error of p, and its chance level, as [Bins.ECE] does for
// confidences.
func (o *Odds) ECE() (ece, chance float64) {
	return gaps(OddsBins, func(i int) (rows, hits, sum float64) { return o[i].Rows, o[i].Labels, o[i].Sum })
}

func (b *OddsBin) add(other OddsBin) {
	b.Rows += other.Rows
	b.Labels += other.Labels
	b.Sum += other.Sum
}
