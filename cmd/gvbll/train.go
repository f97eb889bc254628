package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/train"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/holdout"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/retrain"
)

type trainCmd struct {
	Data  flags.Data `embed:""`
	Train trainFlags `embed:""`
	Log   logFlags   `embed:""`

	Classes   []string `help:"Names of classes to have besides those of the labels." placeholder:"NAME"`
	Out       string   `help:"File to write the model into." default:"model.safetensors" type:"path" placeholder:"model.safetensors"`
	IfMissing bool     `help:"Do nothing if the model file exists."`
	Force     bool     `help:"Write over the model file if it exists."`
}

// trainFlags are the constants of Phase 1.
type trainFlags struct {
	modelFlags `group:"training"`

	LearningRate float64 `help:"Learning rate of Adam." default:"0.01" group:"training"`
	WeightDecay  float64 `help:"@train_weight_decay" default:"0.0005" group:"training"`
	Dropout      float64 `help:"Dropout of features and hidden states; 0 for none." default:"0.5" group:"training"`
	Samples      int     `help:"Number S of posterior samples of the ELBO." default:"10" group:"training"`

	Hidden     []int  `help:"Widths of the encoder's hidden layers." default:"64" group:"encoder"`
	Embedding  int    `help:"@train_embedding" default:"0" group:"encoder"`
	Heads      int    `help:"Number of attention heads of gat." default:"4" group:"encoder"`
	Activation string `help:"@train_activation" enum:",relu,elu" default:"" placeholder:"NAME" group:"encoder"`
	TempHidden int    `help:"Number of hidden units of the temperature head; 0 for τ = 1." default:"16" group:"encoder"`
	Normalize  string `help:"@train_normalize" enum:",none,row-l1,row-l2,standard,ranks" default:"" placeholder:"KIND" group:"encoder"`
	Weights    string `help:"@train_weights" type:"existingfile" placeholder:"FILE" group:"encoder"`
}

var trainHelp = flags.Texts{
	"train_weight_decay": "Weight decay of the encoder, an L2 term as in torch.optim.Adam; 0 for none.",
	"train_embedding":    "Dimension d_e of an embedding; 0 for the number of classes, rounded up to a multiple of 16.",
	"train_activation":   "Activation between layers: relu, or for gat elu, when left out.",
	"train_normalize":    "Normalisation of features: none, row-l1, row-l2 (sparse ones when left out), standard or ranks (dense ones when left out): standard, but for the rank of what is not about normal.",
	"train_weights": "State dict of an encoder trained in PyTorch Geometric, as safetensors, to use as it is " +
		"(docs/pytorch-geometric.md).",
}

// defaultTraining returns the flags as they are where none is given.
func defaultTraining() (f trainFlags, err error) {
	err = kong.ApplyDefaults(&f)
	return f, err
}

// modelFlags choose the encoder, the head and the length of the training.
type modelFlags struct {
	Encoder string `help:"Encoder: graphsage, gcn, gat or gin." enum:"graphsage,gcn,gat,gin" default:"graphsage" placeholder:"graphsage"`
	Head    string `help:"@model_head" enum:"pool,paper" default:"pool" placeholder:"pool"`
	Epochs  int    `help:"Number of epochs of the training." default:"100"`
}

var modelHelp = flags.Texts{
	"model_head": "What predicts: pool, heads on embeddings, features and the labels around a node, or paper, the " +
		"paper's head.",
}

// check refuses values out of range: 0 would be the default.
func (f modelFlags) check() error {
	if f.Epochs < 1 {
		return flags.Usagef("--epochs %d: give at least 1", f.Epochs)
	}
	return nil
}

func (f trainFlags) check(g flags.Given) error {
	switch {
	case !(f.LearningRate > 0):
		return flags.Usagef("--learning-rate %v: give a positive number, such as 0.01", f.LearningRate)
	case !(f.Dropout >= 0 && f.Dropout < 1):
		return flags.Usagef("--dropout %v: give a share below 1, such as 0.5, or 0 for none", f.Dropout)
	case f.Samples < 1:
		return flags.Usagef("--samples %d: give at least 1", f.Samples)
	case slices.ContainsFunc(f.Hidden, func(width int) bool { return width < 1 }):
		return flags.Usagef("--hidden %v: give a width of at least 1 for each layer, such as 64,32", f.Hidden)
	}
	if err := f.modelFlags.check(); err != nil {
		return err
	}
	return g.Check(
		flags.NoEffect(f.Encoder != string(gnn.KindGAT), "no effect without --encoder gat: leave it out", "heads"),
		flags.NoEffect(f.Weights != "", "no effect on --weights, an encoder that is trained already: leave it out",
			"hidden", "embedding", "weight-decay", "dropout"),
	)
}

// config returns the constants for a data set of the given seed.
func (f trainFlags) config(seed uint64) (model.Config, error) {
	cfg := model.Config{
		Encoder: gnn.Kind(f.Encoder), Activation: gnn.Activation(f.Activation), Heads: f.Heads,
		Hidden: f.Hidden, Embedding: f.Embedding, TempHidden: f.TempHidden, Epochs: f.Epochs, Samples: f.Samples,
		LearningRate: f.LearningRate, WeightDecay: flags.OrNone(f.WeightDecay), Dropout: flags.OrNone(f.Dropout),
		Normalization: gnn.Normalization(f.Normalize), Seed: seed,
		Pool: f.Head == pipeline.HeadPool,
	}
	if f.TempHidden == 0 {
		cfg.TempHidden = -1
	}
	if f.Weights == "" {
		return cfg, nil
	}
	var err error
	cfg.Frozen, err = model.OpenEncoder(f.Weights, cfg.Encoder, cfg.Activation)
	return cfg, err
}

// Help is shown by gvbll train --help.
func (trainCmd) Help() string {
	return "Trains on a data set or, with --brokers, on what the ledger of a running graph has " +
		"(docs/retraining.md): a candidate is then first scored beside the model that serves. The flags for TLS " +
		"and passwords of 'gvbll work' are here, too."
}

// Run trains a model and saves it.
func (c trainCmd) Run(ctx context.Context, p flags.Process, g flags.Given) error {
	if err := errors.Join(c.Data.Check(g), c.Train.check(g), c.Log.check(g, !c.Data.LabelDelay.Timed())); err != nil {
		return err
	}
	switch _, err := os.Stat(c.Out); {
	case err == nil && c.IfMissing:
		fmt.Fprintf(p.Err, "%s exists already\n", c.Out)
		return nil
	case err == nil && !c.Force:
		return flags.Usagef("--out %s: it exists already: give another name, or --force to write over it", c.Out)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	if err := flags.CheckOutput("--out", c.Out); err != nil {
		return err
	}
	if c.Log.given(g) {
		return c.fromLog(ctx, p)
	}
	set, err := c.Data.Open()
	if err != nil {
		return err
	}
	set.Classes = withClasses(set.Classes, c.Classes)
	fmt.Fprintln(p.Err, set)
	if set.Schema != nil {
		if err := look.PrintSchema(p.Err, set.Schema, set.Table); err != nil {
			return err
		}
	}
	look.PrintKeys(p.Err, set)
	for _, note := range set.Notes {
		fmt.Fprintln(p.Err, note)
	}
	var held watchedLabels
	m, err := c.Train.train(ctx, set, c.Train.progress(p.Err, true), held.add)
	if err != nil {
		return err
	}
	if err := m.Save(c.Out); err != nil {
		return err
	}
	printRare(p.Err, &held, set.Classes, set.Training().Labels)
	_, err = fmt.Fprintf(p.Out, "%s: model %s, %s\n", c.Out, m.ID, describe(m))
	return err
}

// fromLog trains a model on a graph's ledger and saves it.
func (c trainCmd) fromLog(ctx context.Context, p flags.Process) error {
	graphs, done, err := look.ConnectAll(ctx, p, c.Log.Kafka, c.Log.Cell)
	if err != nil {
		return err
	}
	defer done()
	l, err := look.OpenLogs(ctx, graphs, c.Log.Span)
	if err != nil {
		return err
	}
	serving, err := openServing(c.Log.Serving, l)
	if err != nil {
		return err
	}
	r, err := c.Train.fromLog(ctx, l, c.Data.Seed, serving, c.Classes, p, func(string) string { return c.Out })
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "%s: model %s, %s\n", c.Out, r.Model.ID, describe(r.Model))
	return err
}

// openServing reads the file of the model that serves in a ledger, "" for none.
func openServing(file string, l *look.Log) (*model.Model, error) {
	if file == "" {
		return nil, nil
	}
	m, err := model.Open(file)
	if err != nil {
		return nil, err
	}
	return m, l.CheckServes(m)
}

// fromLog trains a model on a graph's ledger, saves it in the file for its id, and prints how it compares. serving is the
// model that serves, or nil, and more are classes to have besides those of the labels.
func (f trainFlags) fromLog(
	ctx context.Context, l *look.Log, seed uint64, serving *model.Model, more []string, p flags.Process, file func(id string) string,
) (*retrain.Result, error) {
	cfg, err := f.config(seed)
	if err != nil {
		return nil, err
	}
	r, err := l.Train(ctx, retrain.Config{Model: cfg, Serving: serving, More: more, Progress: f.progress(p.Err, true)})
	if err != nil {
		return nil, err
	}
	if err := r.Model.Save(file(r.Model.ID)); err != nil {
		return nil, err
	}
	look.PrintValidation(p.Out, r)
	return r, nil
}

// withClasses returns classes with the names in more that are not among them.
func withClasses(classes, more []string) []string {
	for _, name := range more {
		if !slices.Contains(classes, name) {
			classes = append(classes[:len(classes):len(classes)], name)
		}
	}
	return classes
}

// progress shows trainings, each by itself, with notes of the loss and the accuracy or without.
func (f trainFlags) progress(w io.Writer, notes bool) func(what string, p train.Progress) {
	bars := make(map[string]*flags.Progress)
	return func(what string, p train.Progress) {
		if bars[what] == nil {
			bars[what] = flags.NewProgress(w, "training the "+what, f.Epochs)
		}
		if !notes {
			bars[what].Set(p.Epoch+1, "")
			return
		}
		note := fmt.Sprintf("loss %.3f = %.3f + %.2f KL %.0f, accuracy %.3f", p.Loss.Total, -p.Loss.ELL,
			p.Loss.KLWeight, p.Loss.KL, p.Accuracy)
		bars[what].Set(p.Epoch+1, note)
	}
}

// train trains a model, and shows what it trains after each epoch, and what was scored of the nodes held out.
func (f trainFlags) train(
	ctx context.Context, set *flags.DataSet, show func(what string, p train.Progress), scored func(*event.Outcome),
) (*model.Model, error) {
	cfg, err := f.config(set.Seed)
	if err != nil {
		return nil, err
	}
	return holdout.Train(ctx, set.Training(), cfg, show, scored)
}

// trained reports whether the model was trained with these flags on this data set.
func (f trainFlags) trained(m *model.Model, set *flags.DataSet) bool {
	cfg, err := f.config(set.Seed)
	if err != nil {
		return false
	}
	t := m.Training
	return t.DataSet == set.Name && t.Split == set.Split.How && m.NodeEncoder().In() == set.Dim && slices.Equal(m.Classes, set.Classes) &&
		t.Settings == cfg.String()
}

// describe returns a line about a model: its layers, its classes and its training.
func describe(m *model.Model) string {
	t := m.Training
	widths := ""
	for _, w := range t.Hidden {
		widths += fmt.Sprintf("-%d", w)
	}
	pool := ""
	if m.Pool != nil {
		pool = fmt.Sprintf("; a pool of %d heads", len(m.Pool.Heads))
	}
	what := "nodes"
	if m.Readout != nil {
		what = "graphs"
	}
	return fmt.Sprintf("%s %d%s-%d, %d classes, trained on %d %s to accuracy %.3f%s", m.Meta.Encoder,
		m.NodeEncoder().In(), widths, m.Prior.Dim, len(m.Classes), t.Nodes, what, t.Accuracy, pool)
}

// logFlags choose what gvbll train reads of a ledger.
type logFlags struct {
	look.Span
	Serving string `help:"@log_serving" type:"existingfile" placeholder:"FILE" group:"log"`

	Kafka flags.Inputs `embed:""`
	Cell  flags.Cell   `embed:""`
}

var logHelp = flags.Texts{
	"log_serving": "File of the model that serves: scored beside the new one, which keeps its classes, features and " +
		"what its pool has learned.",
}

// given reports whether the ledger is to be read. Brokers in the environment or the file of
// flags, which commands share, do not turn a training on a data set into one on a ledger.
func (f logFlags) given(g flags.Given) bool {
	return g.OnLine("brokers")
}

func (f logFlags) check(g flags.Given, delayed bool) error {
	if f.given(g) {
		return g.Check(flags.NoEffect(true, "no effect with --brokers, which trains on a ledger: leave out one of them",
			"data", "drift", "train-share", "train-until", "label-delay", "steps", "if-missing"))
	}
	return g.Check(flags.NoEffect(delayed, "no effect: a training knows the labels that have come by their times: give one such as 30d",
		"label-delay"), flags.NoEffect(true, "no effect without --brokers: add it, or leave this out", "since", "until",
		"serving", "inputs-prefix", "nodes-topic", "labels-topic"))
}
