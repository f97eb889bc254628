package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/train"
	"github.com/gvbll/gvbll/pipeline/model"
)

type trainCmd struct {
	Data  dataFlags  `embed:""`
	Train trainFlags `embed:""`

	Out       string `help:"Where the model is written." default:"model.safetensors" type:"path" placeholder:"FILE"`
	IfMissing bool   `help:"Do nothing when the file is there already."`
}

// trainFlags are the constants of Phase 1.
type trainFlags struct {
	Epochs       int     `help:"Epochs." default:"300"`
	Hidden       int     `help:"Width of the encoder's hidden layer." default:"64"`
	Embedding    int     `help:"Dimension of an embedding, d_e." default:"32"`
	Samples      int     `help:"Posterior samples of the ELBO, S." default:"10"`
	LearningRate float64 `help:"Adam's learning rate." default:"0.01"`
	WeightDecay  float64 `help:"Weight decay of the encoder (an L2 term, as in torch.optim.Adam); 0 for none." default:"0.0005"`
	Dropout      float64 `help:"Dropout of features and hidden states in training; 0 for none." default:"0.5"`
	Normalize    string  `help:"Normalisation of the features: none, row-l1, row-l2 or standard; row-l2 for sparse and standard for dense ones when left out." enum:",none,row-l1,row-l2,standard" default:"" placeholder:"KIND"`
}

// Run trains and saves.
func (c trainCmd) Run(ctx context.Context, s streams) error {
	if _, err := os.Stat(c.Out); err == nil && c.IfMissing {
		fmt.Fprintf(s.err, "%s is there already\n", c.Out)
		return nil
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	set, err := c.Data.open()
	if err != nil {
		return err
	}
	fmt.Fprintln(s.err, set)
	m, err := c.Train.train(ctx, set, s.err)
	if err != nil {
		return err
	}
	if err := m.Save(c.Out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s: model %s, %s\n", c.Out, m.ID, describe(m))
	return err
}

func (f trainFlags) train(ctx context.Context, set *dataSet, w io.Writer) (*model.Model, error) {
	d := set.training()
	bar := newProgress(w, "training", f.Epochs)
	return model.Train(ctx, d, model.Config{
		Hidden: []int{f.Hidden}, Embedding: f.Embedding, Epochs: f.Epochs, Samples: f.Samples, LearningRate: f.LearningRate,
		WeightDecay: orNone(f.WeightDecay), Dropout: orNone(f.Dropout), Normalization: gnn.Normalization(f.Normalize), Seed: set.seed,
	}, func(p train.Progress) {
		bar.set(p.Epoch+1, fmt.Sprintf("loss %.3f = %.3f + %.2f KL %.0f, accuracy %.3f",
			p.Loss.Total, -p.Loss.ELL, p.Loss.KLWeight, p.Loss.KL, float64(p.Loss.Correct)/float64(len(d.X))))
	})
}

// made tells whether these flags and this data set made the model.
func (f trainFlags) made(m *model.Model, set *dataSet) bool {
	t := m.Training
	return t.DataSet == set.Name && t.Split == set.how && t.Seed == set.seed && m.Encoder.In() == set.Dim && slices.Equal(m.Classes, set.Classes) &&
		t.Epochs == f.Epochs && t.Samples == f.Samples && slices.Equal(t.Hidden, []int{f.Hidden}) && m.Prior.Dim == f.Embedding &&
		t.LearningRate == f.LearningRate && t.WeightDecay == f.WeightDecay && t.Dropout == f.Dropout &&
		(f.Normalize == "" || f.Normalize == m.Normalization)
}

// orNone turns the flags' 0, for none, into the configuration's.
func orNone(x float64) float64 {
	if x == 0 {
		return -1
	}
	return x
}

func describe(m *model.Model) string {
	t := m.Training
	return fmt.Sprintf("%s %d-%v-%d, %d classes, trained on %d nodes to accuracy %.3f", m.Meta.Encoder, m.Encoder.In(), t.Hidden, m.Prior.Dim, len(m.Classes), t.Nodes, t.Accuracy)
}
