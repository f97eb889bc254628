package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/cmd/gvbll/table"
	"github.com/gvbll/gvbll/gnn/dataset"
)

type tableCmd struct {
	Plan planFlags `embed:""`

	Systems []string `help:"Systems to run, the paper's twelve when left out: ${systems}." placeholder:"NAME"`
	Folds   int      `help:"Instead: cross-validate these settings inside the training nodes, with so many folds, without a look at the stream." default:"0"`
	Results string   `help:"Where results are kept, a line of JSON each: run again to go on where it was interrupted, or to add systems and seeds." default:"table-results.jsonl" type:"path" placeholder:"FILE"`
	Delay   int      `help:"Steps by which labels come late." default:"0"`
	JSON    string   `help:"Write a JSON array here, an object for each data set, protocol and system; - for standard output instead of the table." name:"json" type:"path" placeholder:"FILE"`
	Format  string   `help:"How the table is printed: text or markdown." enum:"text,markdown" default:"text" placeholder:"text"`
	Plots   string   `help:"Write plots here, SVG and PNG: curves over the steps, reliability, the posterior, systems beside the paper's figures." type:"path" placeholder:"DIR"`
}

// Help is shown by gvbll table --help.
func (tableCmd) Help() string {
	return "The paper's Table I, measured: twelve systems on the same streams, each step scored before its labels are told, means over steps and seeds, beside the paper's figures."
}

// planFlags say on what a comparison is run.
type planFlags struct {
	Data     []string `help:"Data sets: folders or files as for gvbll train, comma-separated." placeholder:"DIR"`
	Drift    []string `help:"Synthetic drifting graphs beside or instead of --data: none, moderate, strong, abrupt." placeholder:"NAME"`
	Nodes    int      `help:"Nodes of the synthetic graphs; 169343 has the size of ogbn-arxiv." default:"20000"`
	Protocol []string `help:"strict: embedded in the graph of the nodes that have arrived; full: in the whole graph. Trained on the training nodes' own subgraph in either." default:"strict" enum:"strict,full" placeholder:"NAME"`
	Seeds    int      `help:"Seeds, from 1; of the split, the training and all draws." default:"10"`

	TrainShare float64 `help:"Share of the nodes that train; 0 follows the data set's name." default:"0"`
	Steps      int     `help:"Steps that the stream is cut into; 0 follows the data set's name." default:"0"`
	Parallel   int     `help:"Data sets and seeds worked on at once; 0 for the number of processors." default:"0"`

	Hidden       []int   `help:"Widths of the encoders' hidden layers." default:"64"`
	Embedding    int     `help:"Dimension of the embeddings; 0 for 16, or as many as there are classes, in sixteens." default:"0"`
	Epochs       int     `help:"Epochs of every training." default:"100"`
	LearningRate float64 `help:"Adam's learning rate." default:"0.01"`
	WeightDecay  float64 `help:"Weight decay of encoders and linear heads." default:"0.0005"`
	Dropout      float64 `help:"Dropout of features and hidden states." default:"0.5"`

	Update updateFlags `embed:"" group:"update"`
}

func (f planFlags) plan() (table.Plan, error) {
	p := table.Plan{Protocols: f.Protocol, Parallel: f.Parallel, Settings: table.DefaultSettings()}
	if p.Parallel == 0 {
		p.Parallel = runtime.GOMAXPROCS(0)
	}
	if f.Seeds < 1 || f.Parallel < 0 {
		return p, usagef("--seeds %d --parallel %d: give at least 1 seed, and 0 or more at once", f.Seeds, f.Parallel)
	}
	for s := range f.Seeds {
		p.Seeds = append(p.Seeds, uint64(s+1))
	}
	update := f.Update.update()
	if err := update.Validate(); err != nil {
		return p, settingError(err)
	}
	s := &p.Settings
	s.Hidden, s.Embedding, s.Epochs = f.Hidden, f.Embedding, f.Epochs
	s.LearningRate, s.WeightDecay, s.Dropout, s.Update = f.LearningRate, f.WeightDecay, f.Dropout, update
	if len(f.Data)+len(f.Drift) == 0 {
		return p, usagef("no data: give --data DIR,DIR or --drift none,strong")
	}
	for _, path := range f.Data {
		d, err := dataset.Open(path)
		if err != nil {
			return p, err
		}
		p.Sources = append(p.Sources, table.Of(d, f.TrainShare, f.Steps))
	}
	for _, name := range f.Drift {
		c, err := dataset.DriftPreset(name)
		if err != nil {
			return p, usageError{err}
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
			return p, usagef("--data: two data sets are named %s", s.Name)
		}
	}
	return p, nil
}

// Run does what is missing and prints all that was asked for.
func (c tableCmd) Run(ctx context.Context, s streams) error {
	plan, err := c.Plan.plan()
	if err != nil {
		return err
	}
	plan.Settings.Delay, plan.Systems = c.Delay, c.Systems
	if len(plan.Systems) == 0 {
		plan.Systems = table.Systems
	}
	for _, name := range plan.Systems {
		if !slices.Contains(table.Known, name) {
			return usagef("--systems %s: give some of %s", name, strings.Join(table.Known, ", "))
		}
	}
	if c.Folds > 0 {
		return c.crossValidate(ctx, s, plan)
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

	missing, results := table.Missing(plan, existing)
	bar := newProgress(s.err, "table", len(results)+missing)
	if n := len(results); n > 0 {
		fmt.Fprintf(s.err, "%d of %d results are in %s already\n", n, n+missing, c.Results)
	}
	err = table.Run(ctx, plan, existing, func(r table.Result) error {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := file.Write(append(line, '\n')); err != nil {
			return err
		}
		results = append(results, r)
		bar.set(len(results), fmt.Sprintf("%s %s %s seed %d: %.3f / %.3f", r.Dataset, r.Protocol, r.System, r.Seed, r.Mean.Acc, r.Mean.NLL))
		return nil
	})
	if err != nil {
		if errors.Is(err, context.Canceled) {
			fmt.Fprintf(s.err, "%d results are in %s: the same command goes on from there\n", len(results), c.Results)
		}
		return err
	}
	if err := writePictures(c.Plots, table.Pictures(results)); err != nil {
		return err
	}
	rows := table.Summarise(results)
	if c.JSON != "" {
		if err := writeJSON(s.out, c.JSON, rows); err != nil || c.JSON == "-" {
			return err
		}
	}
	text := table.Text(rows)
	if c.Format == "markdown" {
		text = table.Markdown(rows)
	}
	_, err = io.WriteString(s.out, text)
	return err
}

// crossValidate prints how the settings do on training nodes that were held out.
func (c tableCmd) crossValidate(ctx context.Context, s streams, plan table.Plan) error {
	found, err := table.CrossValidate(ctx, plan, c.Folds, []table.Settings{plan.Settings})
	if err != nil {
		return err
	}
	if c.JSON != "" {
		if err := writeJSON(s.out, c.JSON, found); err != nil || c.JSON == "-" {
			return err
		}
	}
	fmt.Fprintf(s.out, "%-12s %-14s %17s %17s\n", "data set", "system", "accuracy %", "NLL")
	for _, v := range found {
		fmt.Fprintf(s.out, "%-12s %-14s %9.1f ± %5.1f %9.3f ± %.3f\n", v.Dataset, v.System, 100*v.Acc, 100*v.AccSE, v.NLL, v.NLLSE)
	}
	return nil
}

// readResults reads what earlier runs have left. A last line that was cut off
// by an interruption is as if it had not been written.
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

// writePictures writes each as SVG and PNG; no directory, no pictures.
func writePictures(dir string, pictures []table.Picture) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, p := range pictures {
		for ending, render := range map[string]func() ([]byte, error){".svg": p.SVG, ".png": p.PNG} {
			b, err := render()
			if err != nil {
				return fmt.Errorf("plot %s: %w", p.Name, err)
			}
			if err := os.WriteFile(filepath.Join(dir, p.Name+ending), b, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeJSON writes v indented to the file, or to out for -.
func writeJSON(out io.Writer, path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if path == "-" {
		_, err := out.Write(b)
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
