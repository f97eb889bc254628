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
	Hidden        []int               `json:"hidden"`              // widths of the encoder's hidden layers
	Embedding     int                 `json:"embedding"`           // d_e; 0 for [model.EmbeddingFor]
	Epochs        int                 `json:"epochs"`              // of every training
	LearningRate  float64             `json:"learning_rate"`       // Adam's
	WeightDecay   float64             `json:"weight_decay"`        // of encoders and linear heads; 0 for none
	Dropout       float64             `json:"dropout"`             // of features and hidden states; 0 for none
	Normalization gnn.Normalization   `json:"normalization"`       // empty means row-l2 for sparse features, standard for dense ones
	Bins          int                 `json:"bins"`                // equal-mass bins of a step's ECE
	Delay         int                 `json:"delay,omitempty"`     // of labels, in steps
	Withheld      float64             `json:"withheld,omitempty"`  // share of the stream's labels that never come
	Rates         pipeline.LabelRates `json:"rates,omitempty"`     // shares of the labels of a class that come, of those not withheld
	LearnLag      int                 `json:"learn_lag,omitempty"` // steps by which GVBLL and the pools learn labels late

	Passes  int `json:"passes"`  // stochastic passes of MC dropout
	Members int `json:"members"` // of the deep ensemble
	Folds   int `json:"folds"`   // of the training nodes, for temperature scaling without a warm-up

	TempHidden int              `json:"temp_hidden"` // hidden units of GVBLL's temperature head; 0 for τ = 1
	Samples    int              `json:"samples"`     // S of GVBLL's training
	Update     posterior.Config `json:"update"`      // GVBLL-Online's
}

// DefaultSettings returns the defaults of gvbll train for architecture and training, and
// the usual constants of the baselines.
func DefaultSettings() Settings {
	return Settings{
		Hidden: []int{64}, Embedding: 0, Epochs: 100, LearningRate: 0.01, WeightDecay: 5e-4, Dropout: 0.5, Bins: 10,
		Passes: 50, Members: 5, Folds: 5,
		TempHidden: 16, Samples: 10, Update: posterior.DefaultConfig(),
	}
}

// validate returns an error for what a training cannot have.
func (s Settings) validate() error {
	if len(s.Hidden) == 0 {
		return errors.New("no hidden layer: give its width, such as 64")
	}
	if s.Embedding < 0 {
		return fmt.Errorf("embedding is %d: give a dimension, such as 16, or 0", s.Embedding)
	}
	return s.training(gnn.KindSAGE, 1, 2, 0).Validate()
}

// training returns how a deterministic GNN is trained whose last layer has out outputs.
func (s Settings) training(kind gnn.Kind, in, out int, seed uint64) train.Config {
	return train.Config{
		Encoder: kind, In: in, Hidden: s.Hidden, Out: out, Epochs: s.Epochs,
		LearningRate: s.LearningRate, WeightDecay: s.WeightDecay, Dropout: s.Dropout, Seed: seed,
	}
}

// phase1 returns how GVBLL is trained.
func (s Settings) phase1(seed uint64) model.Config {
	c := model.Config{
		Hidden: s.Hidden, Embedding: s.Embedding, TempHidden: s.TempHidden, Epochs: s.Epochs, Samples: s.Samples,
		LearningRate: s.LearningRate, WeightDecay: s.WeightDecay, Dropout: s.Dropout, Normalization: s.Normalization, Seed: seed,
	}
	// model.Config takes 0 for the default and a negative number for none.
	if c.TempHidden == 0 {
		c.TempHidden = -1
	}
	for _, x := range []*float64{&c.WeightDecay, &c.Dropout} {
		if *x == 0 {
			*x = -1
		}
	}
	return c
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
