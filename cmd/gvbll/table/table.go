// Package table runs the paper's comparison, Table I: twelve systems on the same
// streams, each scored on what it says of a step before the step's labels are
// told, and the averages over steps.
//
// All systems share what is not their idea: the split and the steps, the
// features' normalisation, the encoder's architecture and training, and the
// treatment of isolated training nodes ([model.Prepare]). GVBLL is not rewritten
// here: it is [model.Train] and the heads of package posterior, and a test holds
// its scores to those of the engine.
//
// A result depends on the data, the settings and the job's seed, not on which
// other jobs were asked for, nor on how many run at once.
package table

import (
	"slices"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// Version changes whenever the same job would have other scores, so that older
// results are not taken for present ones.
const Version = 1

// Systems are the columns of Table I, in its order.
var Systems = []string{
	"graphsage", "gcn", "gat", "gin",
	"mc-dropout", "deep-ensemble", "temp-scale",
	"gp-sage", "gp-gcn", "gp-gat",
	"gvbll-static", "gvbll-online",
}

// Known are all systems: those, the pool of heads that the program serves, and
// the pool with a part taken away.
var Known = append(append(slices.Clone(Systems), "pool"), Ablations...)

// The protocols. Under both, encoders are trained on the training nodes' own
// subgraph. Under Strict an arrival is embedded in the graph of the nodes that
// have arrived, its own step's included; under Full, once, in the whole graph.
const (
	Strict = "strict"
	Full   = "full"
)

// Protocols lists them.
var Protocols = []string{Strict, Full}

// Job is one cell of the comparison before it is averaged over seeds.
type Job struct {
	Dataset  string `json:"dataset"`
	Protocol string `json:"protocol"`
	System   string `json:"system"`
	Seed     uint64 `json:"seed"` // of the split, the trainings and all draws
}

// Result is what a job came to.
type Result struct {
	Job
	// Settings tells apart results of other settings, data or versions.
	Settings string   `json:"settings"`
	Steps    []Scores `json:"steps"`
	Mean     Scores   `json:"mean"`   // over steps, each counting alike: the paper's figures
	Stream   Scores   `json:"stream"` // over labels, each counting alike; ECE over Bins
	// Bins are the reliability diagram of the whole stream, of equal width.
	Bins []Bin `json:"bins"`
	// AnchorDistance and Variance tell, for GVBLL, where the posterior is after
	// each step: the Frobenius norm of M - M*, and the mean of Σ.
	AnchorDistance []float64 `json:"anchor_distance,omitempty"`
	Variance       []float64 `json:"variance,omitempty"`
	// Heads are, of the pool, its heads by themselves: means over steps.
	Heads []HeadScores `json:"heads,omitempty"`
	// Seconds is what the system takes on its own: a training that it shares
	// with others counts in full. It alone differs from run to run.
	Seconds float64 `json:"seconds"`
}

// HeadScores are those of one head of the pool.
type HeadScores struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"` // in the pool, after the last step
	Scores
}

// Scores are the paper's three measures of N labels: accuracy as a fraction, NLL
// in nats, ECE.
type Scores struct {
	N   int     `json:"n"`
	Acc float64 `json:"acc"`
	NLL float64 `json:"nll"`
	ECE float64 `json:"ece"`
}

// Bin holds the predictions whose confidence lies in one of the equal parts of
// [0, 1].
type Bin struct {
	Count      int64   `json:"count"`
	Correct    int64   `json:"correct"`
	Confidence float64 `json:"confidence"` // sum
}

// tally scores what is served, step by step. Probabilities are rounded to
// float32 first, as the engine does for what it publishes.
type tally struct {
	classes, mass int // mass is the number of equal-mass bins of a step's ECE
	result        *Result
	scores        calibration.Prequential
}

func (t *tally) step(probs []float64, labels []int32) {
	for i, p := range probs {
		probs[i] = float64(float32(p))
	}
	m := t.scores.AddWindow(calibration.ScoreRows(probs, t.classes, labels), t.mass)
	t.result.Steps = append(t.result.Steps, scoresOf(len(labels), m))
}

func (t *tally) done() {
	total := t.scores.Total()
	t.result.Mean = scoresOf(total.Labels, t.scores.WindowMeans())
	t.result.Stream = scoresOf(total.Labels, total.Means())
	for _, b := range total.Bins {
		t.result.Bins = append(t.result.Bins, Bin{Count: b.Count, Correct: b.Correct, Confidence: b.SumConfidence})
	}
}

// scoresOf are the means over n labels.
func scoresOf(n int, m calibration.Means) Scores {
	return Scores{N: n, Acc: m.Acc, NLL: m.NLL, ECE: m.ECE}
}

// divide makes means of sums.
func (s *Scores) divide(n int) {
	if n > 0 {
		s.Acc, s.NLL, s.ECE = s.Acc/float64(n), s.NLL/float64(n), s.ECE/float64(n)
	}
}

// rank is the place of name in list, its length when it is not there.
func rank(list []string, name string) int {
	if i := slices.Index(list, name); i >= 0 {
		return i
	}
	return len(list)
}
