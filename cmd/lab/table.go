package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/lab/table"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
)

type tableCmd struct {
	Plan planFlags `embed:""`

	Systems    []string    `help:"Systems to run; those of the paper when left out, without its Gaussian processes: ${systems}." placeholder:"NAME"`
	LabelDelay flags.Delay `help:"@table_delay" name:"delay" placeholder:"DURATION"`
	LearnLag   int         `help:"@table_learn_lag" default:"0"`
	LabelShare float64     `help:"Share of the stream's nodes, drawn at random, whose label comes; all are scored." default:"1"`
	LabelRates string      `help:"@table_label_rates" placeholder:"CLASS=SHARE,..."`
	Results    string      `help:"@table_results" default:"table-results.jsonl" type:"path" placeholder:"FILE"`
	JSON       string      `help:"@table_json" name:"json" type:"path" placeholder:"FILE"`
}

var tableHelp = flags.Texts{
	"table_delay": "Time between a node and its label, such as 30d, or a number of steps. Left out, labels come at " +
		"their own times where the data set has a column label_time, and else at once.",
	"table_learn_lag": "Steps by which GVBLL and the pools learn labels late, as 'gvbll work --learn-lag' does by windows.",
	"table_label_rates": "Shares of the labels of classes that come, such as ok=0.1; all of those of other classes. The system " +
		"pool-rates is told of it, pool-counted counts it.",
	"table_results": "File to keep results in, one in JSON a line. The same command continues after an interruption, and can " +
		"add systems and seeds; a program that was built anew measures anew.",
	"table_json": "File to write a JSON array into, with an object for each data set, protocol and system; - for standard " +
		"output, without the table.",
}

// Help is shown by lab table --help.
func (tableCmd) Help() string {
	return "Measures the paper's Table I, without its Gaussian processes: nine systems on the same streams. Each " +
		"step is scored before its labels are used. Scores are means over steps and seeds, beside the paper's " +
		"figures and what each system is behind the best, paired by seed: less than two standard errors is a tie. " +
		"--systems can add what the paper does not have: logistic regression on everything around a node, refitted " +
		"after each step, label propagation, and the pool of heads with and without its parts."
}

// planFlags choose the streams of a comparison, and the training of its systems.
type planFlags struct {
	Data       []string `help:"Data sets, comma-separated: folders or .npz files (docs/datasets.md)." placeholder:"PATH" group:"data"`
	Drift      []string `help:"@plan_drift" placeholder:"NAME" group:"data"`
	Nodes      int      `help:"Number of nodes of the synthetic graphs; 169343 is the size of ogbn-arxiv." default:"20000" group:"data"`
	Protocol   []string `help:"@plan_protocol" default:"strict" enum:"strict,full,transductive" placeholder:"NAME" group:"data"`
	Seeds      int      `help:"Number of seeds, from 1 on, of the split, the training and all draws." default:"10" group:"data"`
	TrainUntil string   `help:"@plan_train_until" placeholder:"TIME" group:"data"`
	TrainShare float64  `help:"@plan_train_share" default:"0" group:"data"`
	Steps      int      `help:"@plan_steps" default:"0" group:"data"`
	Parallel   int      `help:"Number of data sets and seeds to work on at once; 0 for the number of processors." default:"0" group:"data"`

	Epochs       int     `help:"Number of epochs of each training." default:"100" group:"training"`
	LearningRate float64 `help:"Learning rate of Adam." default:"0.01" group:"training"`
	WeightDecay  float64 `help:"Weight decay of encoders and linear heads." default:"0.0005" group:"training"`
	Dropout      float64 `help:"Dropout of features and hidden states." default:"0.5" group:"training"`
	Hidden       []int   `help:"Widths of the encoders' hidden layers." default:"64" group:"training"`
	Embedding    int     `help:"@plan_embedding" default:"0" group:"training"`

	Update flags.Engine `embed:""`
}

var planHelp = flags.Texts{
	"plan_drift": "Synthetic graphs with this drift, beside or instead of --data: none, moderate, strong or abrupt. " +
		"words-none and so on have 600 binary words as features instead of 128 numbers.",
	"plan_protocol": "What embeddings see: strict, the graph of the nodes that have arrived, or full, the whole graph. Training " +
		"sees the training nodes alone with either; with transductive it sees the whole graph, too, and the training nodes' labels.",
	"plan_train_until": "Train on the nodes before this time whose labels have come by then: a date such as " +
		"2025-11-20, or a time as the data set has it.",
	"plan_train_share": "Share of the labelled nodes to train on: the earliest, or without times drawn from every class; 0 keeps " +
		"the split of the data set (docs/datasets.md).",
	"plan_steps":     "Number of steps to cut the stream into; 0 keeps that of the data set (docs/datasets.md).",
	"plan_embedding": "Dimension of an embedding; 0 for the number of classes, rounded up to a multiple of 16.",
}

func (f planFlags) check(g flags.Given) error {
	switch {
	case f.Seeds < 1:
		return flags.Usagef("--seeds %d: give at least 1", f.Seeds)
	case f.Parallel < 0:
		return flags.Usagef("--parallel %d: give a positive number, or 0 for the number of processors", f.Parallel)
	case f.TrainShare > 0 && f.TrainUntil != "":
		return flags.Usagef("--train-share %v and --train-until %s both choose the training nodes: "+
			"leave out one of them", f.TrainShare, f.TrainUntil)
	case len(f.Data)+len(f.Drift) == 0:
		return flags.Usagef("no data: give --data DIR,DIR or --drift none,strong")
	}
	return g.Check(flags.NoEffect(len(f.Drift) == 0, "no effect without a synthetic graph: add --drift", "nodes"),
		flags.NoEffect(len(f.Data) == 0, "no effect on --drift, whose nodes train in order of arrival: leave it out", "train-until"))
}

// plan opens the data sets.
func (f planFlags) plan(g flags.Given, delay flags.Delay) (table.Plan, error) {
	if err := f.check(g); err != nil {
		return table.Plan{}, err
	}
	p := table.Plan{Protocols: f.Protocol, Parallel: f.Parallel, Settings: table.DefaultSettings()}
	p.Parallel = cmp.Or(p.Parallel, runtime.GOMAXPROCS(0))
	for s := range f.Seeds {
		p.Seeds = append(p.Seeds, uint64(s+1))
	}
	cfg, err := f.Update.Settings(pipeline.HeadPaper)
	if err == nil {
		cfg, err = flags.ValidSettings(cfg)
	}
	if err != nil {
		return p, err
	}
	p.Settings.Update = cfg.Update
	p.Settings.Phase1 = model.Config{
		Hidden: f.Hidden, Embedding: f.Embedding, Epochs: f.Epochs,
		LearningRate: f.LearningRate, WeightDecay: flags.OrNone(f.WeightDecay), Dropout: flags.OrNone(f.Dropout),
	}
	for _, path := range f.Data {
		d, err := flags.OpenData(path)
		if err == nil {
			err = delay.Apply(d)
		}
		if err != nil {
			return p, err
		}
		until, err := flags.Until(d, f.TrainUntil)
		if err != nil {
			return p, err
		}
		p.Sources = append(p.Sources, table.Of(d, dataset.Cut{Share: f.TrainShare, Until: until, Steps: f.Steps}))
	}
	for _, name := range f.Drift {
		c, err := dataset.DriftPreset(name)
		if err != nil {
			return p, flags.Usagef("%w", err)
		}
		c.Nodes = f.Nodes
		if f.Steps > 0 {
			c.Steps = f.Steps
		}
		if f.TrainShare > 0 {
			c.Train = f.TrainShare
		}
		p.Sources = append(p.Sources, table.Drifting(c))
	}
	for i, s := range p.Sources {
		if slices.ContainsFunc(p.Sources[:i], func(o table.Source) bool { return o.Name == s.Name }) {
			return p, flags.Usagef("--data: two data sets are named %s", s.Name)
		}
	}
	return p, nil
}

// Run measures what the file of results does not hold yet, and prints the table.
func (c tableCmd) Run(ctx context.Context, p flags.Process, g flags.Given) error {
	if c.LearnLag < 0 || c.LearnLag > pipeline.MostLearnLag/3 {
		return flags.Usagef("--learn-lag %d: give a number of steps up to %d, or 0 for none", c.LearnLag, pipeline.MostLearnLag/3)
	}
	if !(c.LabelShare >= 0 && c.LabelShare <= 1) {
		return flags.Usagef("--label-share %v: give a share from 0 to 1, such as 0.1", c.LabelShare)
	}
	rates, err := pipeline.ParseLabelRates(c.LabelRates)
	if err != nil {
		return flags.Usagef("--%w", err)
	}
	plan, err := c.Plan.plan(g, c.LabelDelay)
	if err != nil {
		return err
	}
	plan.Settings.LearnLag, plan.Settings.Rates = c.LearnLag, rates
	plan.Settings.Delay, plan.Settings.Withheld, plan.Systems = c.LabelDelay.Steps, 1-c.LabelShare, c.Systems
	if len(plan.Systems) == 0 {
		plan.Systems = table.Systems
	}
	for _, name := range plan.Systems {
		if !slices.Contains(table.Known, name) {
			return flags.Usagef("--systems %s: give some of %s", name, strings.Join(table.Known, ", "))
		}
	}
	if err := flags.CheckOutput("--json", c.JSON); err != nil {
		return err
	}
	existing, err := readResults(c.Results)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(c.Results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()

	groups, results := plan.Missing(existing)
	total := len(results)
	for _, g := range groups {
		total += len(g.Jobs)
	}
	bar := flags.NewProgress(p.Err, "table", total)
	if n := len(results); n > 0 {
		fmt.Fprintf(p.Err, "%d of %d results are in %s already\n", n, total, c.Results)
	}
	err = table.Run(ctx, plan, groups, func(r table.Result) error {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := file.Write(append(line, '\n')); err != nil {
			return err
		}
		results = append(results, r)
		bar.Set(len(results), fmt.Sprintf("%s %s %s seed %d: %.3f / %.3f", r.Dataset, r.Protocol, r.System, r.Seed, r.Mean.Acc, r.Mean.NLL))
		return nil
	})
	if err != nil {
		if errors.Is(err, context.Canceled) {
			fmt.Fprintf(p.Err, "%d results are in %s: the same command continues from there\n", len(results), c.Results)
		}
		return err
	}
	rows := table.Summarise(results)
	if c.JSON != "" {
		if err := flags.WriteFile(p.Out, c.JSON, func(w io.Writer) error { return flags.PrintJSON(w, rows) }); err != nil || c.JSON == "-" {
			return err
		}
	}
	_, err = io.WriteString(p.Out, table.Markdown(rows))
	return err
}

// readResults reads the results of earlier runs. A last line that an interruption cut
// off is removed from the file.
func readResults(path string) (results []table.Result, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if end := strings.LastIndexByte(string(b), '\n') + 1; end < len(b) {
		if err := os.Truncate(path, int64(end)); err != nil {
			return nil, err
		}
		b = b[:end]
	}
	lines := bufio.NewScanner(strings.NewReader(string(b)))
	lines.Buffer(nil, 1<<26)
	for n := 1; lines.Scan(); n++ {
		var r table.Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w: remove the file, or name another with --results", path, n, err)
		}
		results = append(results, r)
	}
	return results, lines.Err()
}
