package main

import (
	"fmt"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/lab/payments"
	"github.com/gvbll/gvbll/gnn/dataset"
)

// generateCmd makes a synthetic graph of package dataset.
type generateCmd struct {
	Out   string `help:"Folder to write nodes.csv, edges.csv and dataset.json into, for --data." required:"" type:"path" placeholder:"DIR"`
	Like  string `help:"@generate_like" enum:"citations,payments,motifs" default:"citations" placeholder:"citations"`
	Drift string `help:"Drift: none, moderate, strong or abrupt." enum:"none,moderate,strong,abrupt" default:"strong" placeholder:"strong"`
	Seed  uint64 `help:"Seed of all draws." default:"1"`
	Nodes int    `help:"Number of nodes; of payments, to which their cards, merchants and devices come." default:"6000"`
	Steps int    `help:"Number of steps to cut the stream into." default:"50"`
	OneIn int    `help:"A payment in so many is a fraud." default:"300"`

	Classes int  `help:"Number of classes." default:"10" group:"citations"`
	Dim     int  `help:"Number of features." default:"128" group:"citations"`
	Late    *int `help:"Number of classes that appear only in the stream; set by --drift when left out." placeholder:"N" group:"citations"`
}

var generateHelp = flags.Texts{
	"generate_like": "What the graph is like: citations; or payments, with cards, merchants and devices, frauds and late " +
		"chargebacks (docs/transactions.md); or motifs, small graphs to classify (docs/data.md).",
}

// Help is shown by lab generate --help.
func (generateCmd) Help() string {
	return "Writes a growing citation graph whose features, class shares and homophily drift. " +
		"Nodes are in order of arrival, with a split: the first 53.7 % are for training, those up to 71.3 % for " +
		"warm-up, and the others are the stream. " +
		"With all but --drift, --seed and --steps left out, '--data DIR' gives the same model and the same " +
		"predictions, to the bit, as '--drift' of 'gvbll demo', 'train' and 'send' with the same seed and " +
		"steps.\n\n" +
		"--like payments writes a year of payments instead, each with edges to its card, merchant and device and to " +
		"the payment before it of each. " +
		"The first 120 days are for training, the next 60 for warm-up, and events.jsonl, for 'gvbll send --events', " +
		"has labels when they are known: a chargeback 20 to 60 days after the payment, others after 60."
}

// config returns the configuration of the synthetic graph with the flags applied.
func (c generateCmd) config() (dataset.DriftConfig, error) {
	d, err := flags.Synthetic(c.Drift, c.Seed)
	d.Nodes, d.Steps, d.Classes, d.Dim = c.Nodes, c.Steps, c.Classes, c.Dim
	if c.Late != nil {
		d.Drift.Late = *c.Late
	}
	return d, err
}

// Run makes the graph and writes it.
func (c generateCmd) Run(p flags.Process, g flags.Given) error {
	if c.Like == "payments" {
		return c.payments(p, g)
	}
	if c.Like == "motifs" {
		return c.motifs(p, g)
	}
	if err := g.Check(flags.NoEffect(true, "no effect without --like payments: add it, or leave this out", "one-in")); err != nil {
		return err
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	d, split, err := dataset.Drift(cfg)
	if err != nil {
		return flags.SettingError(err)
	}
	if err := d.Save(c.Out); err != nil {
		return fmt.Errorf("--out %s: %w", c.Out, err)
	}
	_, err = fmt.Fprintf(p.Out, "%s: %s\n", c.Out, &flags.DataSet{Dataset: d, Split: split})
	return err
}

// citationFlags have no effect on other graphs than citations.
var citationFlags = []string{"steps", "classes", "dim", "late"}

// payments makes a year of payments and writes it.
func (c generateCmd) payments(p flags.Process, g flags.Given) error {
	if err := g.Check(flags.NoEffect(true, "no effect on --like payments: leave out one of them", citationFlags...)); err != nil {
		return err
	}
	cfg := dataset.PaymentsConfig{Payments: c.Nodes, Seed: c.Seed, OneIn: c.OneIn}
	var err error
	if cfg.Drift, cfg.Abrupt, err = dataset.PaymentsDrift(c.Drift); err != nil {
		return flags.SettingError(err)
	}
	d, err := payments.Save(c.Out, cfg)
	if err != nil {
		return fmt.Errorf("--out %s: %w", c.Out, err)
	}
	frauds := 0
	for _, y := range d.Labels {
		frauds += max(int(y), 0)
	}
	_, err = fmt.Fprintf(p.Out, "%s: %d payments, of which %d are frauds; %d nodes with cards, devices and "+
		"merchants, %d edges\n", c.Out, c.Nodes, frauds, len(d.Labels), len(d.Edges))
	return err
}

// motifs makes graphs to classify and writes them.
func (c generateCmd) motifs(p flags.Process, g flags.Given) error {
	others := append([]string{"one-in"}, citationFlags...)
	if err := g.Check(flags.NoEffect(true, "no effect on --like motifs: leave out one of them", others...)); err != nil {
		return err
	}
	drift := map[string]float64{"moderate": 0.3, "strong": 0.6}[c.Drift]
	if c.Drift == "abrupt" {
		return flags.Usagef("--drift abrupt: --like motifs has none, moderate or strong")
	}
	d, err := dataset.Motifs(dataset.MotifsConfig{Graphs: c.Nodes, Drift: drift, Seed: c.Seed})
	if err != nil {
		return flags.SettingError(err)
	}
	if err := d.Save(c.Out); err != nil {
		return fmt.Errorf("--out %s: %w", c.Out, err)
	}
	_, err = fmt.Fprintf(p.Out, "%s: %d graphs, %d nodes, %d edges\n", c.Out, c.Nodes, len(d.Graphs.X), len(d.Graphs.Src)/2)
	return err
}
