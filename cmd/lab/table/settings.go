package table

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/train"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
)

// Settings configure the trainings and the systems. They are the same for all systems and
// data sets. [DefaultSettings] returns the defaults; a zero does not stand for one.
type Settings struct {
	Phase1 model.Config     // of GVBLL; the other systems have its widths and constants. Hidden is given
	Update posterior.Config // GVBLL-Online's
	Bins   int              // equal-mass bins of a step's ECE

	Delay    int                 // of labels, in steps, in data sets whose labels have no times
	Withheld float64             // share of the stream's labels that never come
	Rates    pipeline.LabelRates // shares of the labels of a class that come, of those not withheld
	LearnLag int                 // steps by which GVBLL and the pools learn labels late

	Passes  int // stochastic passes of MC dropout
	Members int // of the deep ensemble
	Folds   int // of the training nodes, for temperature scaling without a warm-up
}

// DefaultSettings returns the defaults of gvbll train for architecture and training, and
// the usual constants of the baselines.
func DefaultSettings() Settings {
	return Settings{
		Phase1: model.Config{Hidden: []int{64}, Epochs: 100, LearningRate: 0.01, WeightDecay: 5e-4, Dropout: 0.5},
		Update: posterior.DefaultConfig(), Bins: 10, Passes: 50, Members: 5, Folds: 5,
	}
}

// training returns how a deterministic GNN is trained whose last layer has out outputs.
func (s Settings) training(kind gnn.Kind, in, out int, seed uint64) train.Config {
	c := &s.Phase1
	return train.Config{
		Encoder: kind, In: in, Hidden: c.Hidden, Out: out, Epochs: c.Epochs,
		LearningRate: c.LearningRate, WeightDecay: max(c.WeightDecay, 0), Dropout: max(c.Dropout, 0), Seed: seed,
	}
}

// validate returns an error for what a training cannot have.
func (s Settings) validate() error {
	switch c := &s.Phase1; {
	case len(c.Hidden) == 0:
		return errors.New("no hidden layer: give its width, such as 64")
	case c.Embedding < 0:
		return fmt.Errorf("embedding is %d: give a dimension, such as 16, or 0", c.Embedding)
	}
	return s.training(gnn.KindSAGE, 1, 2, 0).Validate()
}

// hash identifies the results of these settings on a source, see [Result.Settings].
func (s Settings) hash(source *Source) string {
	b, err := json.Marshal(struct {
		Program  string
		Settings Settings
		Source   string
	}{program(), s, source.Key})
	if err != nil {
		panic(err) // numbers and strings only, finite after validate
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// program identifies the program that runs by its bytes: a program that was built from
// other sources would have other scores. One that cannot read itself shares no results.
var program = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return rand.Text()
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return rand.Text()
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
})
