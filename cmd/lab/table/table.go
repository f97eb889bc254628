// Package table runs the paper's comparison, Table I without its Gaussian processes: nine
// systems on the same streams. A stream is a number of steps, each a batch of nodes that arrive. Every
// system predicts a step's nodes, is scored on these predictions, and only then may
// learn from the step's labels.
//
// Systems share the split and the steps, the normalisation of features, the widths of
// hidden layers, the training's constants, and the treatment of isolated training nodes
// ([model.Data.Complete]). The GNN baselines are built as users of PyTorch Geometric build
// them, a last layer whose outputs are the logits; GVBLL is built as the paper describes,
// on embeddings of d_e dimensions. GVBLL and the pool of heads
// are not implemented again here: [model.Train] trains them, and the program's own engine
// predicts and learns.
//
// A result depends on the data, the settings and the job's seed. It does not depend on
// the other jobs of a plan, or on how many run at once.
package table

import (
	"slices"

	"github.com/gvbll/gvbll/cmd/gvbll/backtest"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// Systems are those of Table I, in its order, but for its Gaussian processes, which were
// best nowhere.
var Systems = []string{
	"graphsage", "gcn", "gat", "gin",
	"mc-dropout", "deep-ensemble", "temp-scale",
	"gvbll-static", "gvbll-online",
}

// simple are baselines without an encoder, which the paper does not have and a user would
// try first. They learn from the warm-up's labels and then from the stream's, as the pool
// does.
var simple = []string{"logistic", "label-propagation"}

// Known are all systems: those of Table I, simple baselines, the pool of heads that the
// program serves by default, the pool's ablations, and pools that know or count the rates of labels.
var Known = slices.Concat(Systems, simple, []string{"pool"}, ablations, []string{poolRates, poolCounted})

// The protocols. Under strict a node is embedded in the graph of the nodes that have arrived,
// those of its own step included, under the others in the whole graph. Encoders are trained on the subgraph of the training
// nodes, and under transductive on features and edges of the whole graph, with the labels of the training nodes.
const (
	strict       = "strict"
	full         = "full"
	transductive = "transductive"
)

// protocols lists all.
var protocols = []string{strict, full, transductive}

// Job is one run of one system: a cell of Table I before it is averaged over seeds.
type Job struct {
	Dataset  string `json:"dataset"`
	Protocol string `json:"protocol"`
	System   string `json:"system"`
	Seed     uint64 `json:"seed"` // of the split, the trainings and all draws
}

// Result holds the scores of a job.
type Result struct {
	Job
	// Settings is a hash of the settings, the data and the program. Results with
	// another hash do not belong to the same table.
	Settings string `json:"settings"`
	// Ordered is that of the [Source].
	Ordered bool     `json:"ordered,omitempty"`
	Steps   []Scores `json:"steps"`
	Mean    Scores   `json:"mean"`   // unweighted mean over steps: the paper's figures
	Stream  Scores   `json:"stream"` // mean over all labels; ECE over Bins
	// Bins are the reliability diagram of the whole stream: bins of equal width.
	Bins calibration.Bins `json:"bins"`
	// AUC and AP are over all labels of the stream: of Ranked, the rarer of two classes, or of more the
	// means over classes. Ranks has them by class.
	AUC    float64         `json:"auc,omitempty"`
	AP     float64         `json:"ap,omitempty"`
	Ranked string          `json:"ranked,omitempty"`
	Ranks  []backtest.Rank `json:"ranks,omitempty"`
	// Heads holds the scores of each head of the pool by itself, as means over steps.
	// Other systems have none.
	Heads []headScores `json:"heads,omitempty"`
}

// headScores are the scores of one head of the pool, or of one product of its mixture.
type headScores struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"` // in the pool, after the last step; 0 of a product
	Share  float64 `json:"share"`  // in the mixture, after the last step
	Scores
}

// Scores are the paper's three measures over N labels: accuracy as a fraction, NLL
// in nats, and ECE.
type Scores struct {
	N   int     `json:"n"`
	Acc float64 `json:"acc"`
	NLL float64 `json:"nll"`
	ECE float64 `json:"ece"`
}

// labelled returns the rows of probs whose node has a label, and these labels.
func labelled(probs []float64, classes int, labels []int32) ([]float64, []int32) {
	if !slices.Contains(labels, dataset.Unlabelled) {
		return probs, labels
	}
	var rows []float64
	var known []int32
	for i, y := range labels {
		if y != dataset.Unlabelled {
			rows, known = append(rows, probs[i*classes:(i+1)*classes]...), append(known, y)
		}
	}
	return rows, known
}

// scoresOf returns means over n labels as Scores.
func scoresOf(n int, m calibration.Means) Scores {
	return Scores{N: n, Acc: m.Acc, NLL: m.NLL, ECE: m.ECE}
}

// rank returns the index of name in list, or the list's length if it is not there.
func rank(list []string, name string) int {
	if i := slices.Index(list, name); i >= 0 {
		return i
	}
	return len(list)
}
