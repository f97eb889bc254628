package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/backtest"
	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/model"
)

type backtestCmd struct {
	Data flags.Data `embed:""`

	Model    string            `help:"@backtest_model" type:"path" placeholder:"FILE"`
	Scores   []string          `help:"@backtest_scores" type:"path" placeholder:"FILE" sep:"none"`
	Capacity backtest.Capacity `help:"@backtest_capacity" placeholder:"NUMBER/UNIT"`
	Picture  string            `help:"SVG of scores over time and reliability." type:"path" placeholder:"FILE"`
	Tables   backtestTables    `embed:""`
	JSON     bool              `help:"Print everything as JSON (docs/schemas/backtest.json)." name:"json"`

	Train  modelFlags   `embed:"" group:"training"`
	Engine flags.Engine `embed:""`
}

// backtestTables are files for others to go on with.
type backtestTables struct {
	Predictions string `help:"@backtest_predictions" type:"path" placeholder:"FILE"`
	Rows        string `help:"@backtest_rows" type:"path" placeholder:"FILE"`
}

var backtestHelp = flags.Texts{
	"backtest_model": "Model file of 'gvbll train' with the same data flags, in place of a training.",
	"backtest_scores": "Your own probabilities, to stand beside: a csv with a column node and one for each class, " +
		"or one of two. Several times.",
	"backtest_predictions": "Write what each system said of each node into this csv.",
	"backtest_rows":        "Write what logistic sees of each node as it comes into this csv, and end.",
	"backtest_capacity":    "How many nodes can be looked into, such as 50/d: says how many of the rarest class are among them.",
}

// Help is shown by gvbll backtest --help.
func (backtestCmd) Help() string {
	return "Trains on the labels that have come by --train-until, and replays the nodes after it without Kafka: " +
		"each is scored as served, and labels are learned when they come. Beside it: the majority, " +
		"always with the shares " +
		"of the labels so far; logistic, a regression on a node, its neighbours and their labels, refitted after each step; and --scores."
}

func (c backtestCmd) check(g flags.Given) error {
	if c.Model != "" && c.Data.Data == "" {
		return flags.Usagef("--model %s: it has nothing to be tested on: give --data, too", c.Model)
	}
	err := errors.Join(c.Data.Check(g), c.Train.check(), c.Engine.Check(g, c.Train.Head), flags.CheckOutput("--picture", c.Picture),
		flags.CheckOutput("--predictions", c.Tables.Predictions), flags.CheckOutput("--rows", c.Tables.Rows))
	if err == nil && c.Capacity.Count > 0 && c.Data.Data == "" {
		err = flags.Usagef("--capacity %s: the synthetic graph has no times: give --data", c.Capacity)
	}
	if err != nil {
		return err
	}
	return g.Check(flags.NoEffect(c.Tables.Rows != "", "no effect with --rows, which runs nothing: leave out one of them",
		"model", "scores", "capacity", "picture", "predictions", "json"),
		flags.NoEffect(c.Model != "", "no effect on --model, which is trained: leave out one of them", "encoder", "head", "epochs"))
}

// exampleNodes is the size of the synthetic graph here: logistic is refitted after each of its steps.
const exampleNodes = 1500

// Run runs the backtest.
func (c backtestCmd) Run(ctx context.Context, p flags.Process, g flags.Given) error {
	if err := c.check(g); err != nil {
		return err
	}
	c.Data.Nodes = exampleNodes
	set, err := c.Data.Open()
	if err != nil {
		return err
	}
	if set.Graphs != nil {
		return fmt.Errorf("%s: a backtest is of nodes; 'gvbll demo --fast --json --data' measures graphs", set.Name)
	}
	late := c.Data.LabelDelay.Steps
	if c.Data.Data == "" && !c.Data.LabelDelay.Given() {
		late = 2 // as in the demo
	}
	cfg := backtest.Config{Set: set, Late: late, Capacity: c.Capacity}
	if last := set.Split.Steps; c.Capacity.Count > 0 && len(last) > 0 {
		if _, ok := set.Milliseconds(last[0][0]); !ok {
			return flags.Usagef("--capacity %s: the nodes have no dates (a column time): leave it out, or add one", c.Capacity)
		}
	}
	if len(set.Split.Steps) == 0 {
		return fmt.Errorf("%s: all nodes train, so there is none to test on: train until earlier, or on a smaller share", set.Name)
	}
	if c.Tables.Rows != "" {
		return flags.WriteFile(p.Out, c.Tables.Rows, func(w io.Writer) error { return backtest.WriteRows(w, set, late) })
	}
	if cfg.Own, err = backtest.ReadOwns(c.Scores, set); err != nil {
		return fmt.Errorf("--scores: %w", err)
	}
	fmt.Fprintln(p.Err, set)
	if cfg.Model, err = c.model(ctx, set, p.Err); err != nil {
		return err
	}
	head := c.Train.Head
	if c.Model != "" && cfg.Model.Pool == nil {
		head = "paper"
	}
	if cfg.Settings, err = c.Engine.Settings(head); err == nil {
		cfg.Settings, err = flags.ValidSettings(cfg.Settings)
	}
	if err != nil {
		return err
	}
	bar := flags.NewProgress(p.Err, "backtest", len(set.Split.Steps))
	cfg.Progress = func(step int) { bar.Set(step, "") }
	r, err := backtest.Run(ctx, cfg)
	if err != nil {
		return err
	}
	if r.Labels == 0 {
		return fmt.Errorf("%s: no node of the stream has a label, so there is nothing to score: train until earlier", set.Name)
	}
	if c.Picture != "" {
		svg, err := picture(r)
		if err == nil {
			err = os.WriteFile(c.Picture, svg, 0o600)
		}
		if err != nil {
			return err
		}
	}
	if c.Tables.Predictions != "" {
		if err := flags.WriteFile(p.Out, c.Tables.Predictions, r.WritePredictions); err != nil {
			return err
		}
	}
	if c.JSON {
		return flags.PrintJSON(p.Out, r)
	}
	return printBacktest(p.Out, r, cfg.Own)
}

// model reads or trains the model.
func (c backtestCmd) model(ctx context.Context, set *flags.DataSet, w io.Writer) (*model.Model, error) {
	if c.Model == "" {
		f, err := defaultTraining()
		if err != nil {
			return nil, err
		}
		f.modelFlags = c.Train
		return f.train(ctx, set, f.progress(w, false), nil)
	}
	m, err := model.Open(c.Model)
	if err != nil {
		return nil, err
	}
	if fmt.Sprint(m.Classes) != fmt.Sprint(set.Classes) {
		return nil, fmt.Errorf("--model %s: its classes are %.200q, those of the data %.200q: train on these data",
			c.Model, m.Classes, set.Classes)
	}
	seen, all := 0, 0
	for _, step := range set.Split.Steps {
		for _, v := range step {
			if all++; m.TrainedOn(set.ID(v)) {
				seen++
			}
		}
	}
	if seen > 0 {
		return nil, fmt.Errorf("--model %s: it was trained on %s of the %s nodes of the stream (%s, here %s): give the "+
			"flags of its training, "+
			"or leave --model out", c.Model, look.Grouped(seen), look.Grouped(all), m.Training.Split, set.Split.How)
	}
	return m, nil
}

// printBacktest prints the systems beside each other, what serves by class, and NLL over time.
func printBacktest(out io.Writer, r *backtest.Result, owns []*backtest.Own) error {
	fmt.Fprintf(out, "%s labels of %s nodes are scored.\n", look.Grouped(r.Labels), look.Grouped(r.Stream))
	if r.NotDue+r.Never > 0 {
		fmt.Fprintf(out, "%s of these were not learned: they come after the last node, or never.\n", look.Grouped(r.NotDue+r.Never))
	}
	for _, own := range owns {
		if own.Lacks == 0 {
			continue
		}
		fmt.Fprintf(out, "%s has no scores of %s more, which are left out for all.\n", own.Name, look.Grouped(own.Lacks))
	}
	of := "mean over classes"
	if r.Ranked != "" {
		of = "of " + r.Ranked
	}
	fmt.Fprintf(out, "AUC, AP and recall: %s.\n\n", of)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tright, %\tNLL\tECE\tby chance\tAUC\tAP\trecall in 1 %\t")
	ranked := r.Labels
	for _, c := range r.Systems[0].ByClass {
		if c.Class == r.Ranked {
			ranked = c.Labels
		}
	}
	for _, s := range r.Systems {
		fmt.Fprintf(w, "%s\t%.2f\t%.4f\t%.4f\t%.4f\t%s\t\n", s.Name, 100*s.Acc, s.NLL, s.ECE, s.Chance,
			ranks(ranked, s.AUC, s.AP, s.Recall))
	}
	if r.Systems[0].Capacity != nil {
		fmt.Fprintln(w, "\n\tlooked into\tcaught\tof all, %\tof those looked into, %\t")
		for _, s := range r.Systems {
			c := s.Capacity
			fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.1f\t%.1f\t\n", s.Name, c.Looked, c.Caught, 100*c.Recall, 100*c.Precision)
		}
	}
	fmt.Fprint(w, "\n"+backtest.Served+", by class\tlabels\tECE\tby chance\tAUC\tAP\trecall in 1 %\t\n")
	for _, c := range r.Systems[0].ByClass {
		fmt.Fprintf(w, "%.20s\t%d\t%.4f\t%.4f\t%s\t\n", c.Class, c.Labels, c.ECE, c.Chance, ranks(c.Labels, c.AUC, c.AP, c.Recall))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	first, last := r.Systems[0].OverTime[0], r.Systems[0].OverTime[len(r.Systems[0].OverTime)-1]
	fmt.Fprintf(out, "\nNLL from %s to %s\n", first.From, last.To)
	most := 0.0
	for _, s := range r.Systems {
		for _, x := range s.OverTime {
			most = max(most, x.NLL)
		}
	}
	for _, s := range r.Systems {
		var nll []float64
		for _, x := range s.OverTime {
			nll = append(nll, x.NLL)
		}
		if _, err := fmt.Fprintf(out, "%12s  %s  %.4f → %.4f\n", s.Name, look.Spark(nll, 0, most, 40), nll[0],
			nll[len(nll)-1]); err != nil {
			return err
		}
	}
	return nil
}

// ranks formats how a class with so many labels is ranked in three columns, dashes where they are too few to say.
func ranks(labels int, auc, ap, recall float64) string {
	if labels < page.FewOfClass {
		return "-\t-\t-"
	}
	return fmt.Sprintf("%.3f\t%.3f\t%.3f", auc, ap, recall)
}

// picture draws the systems beside each other, and the reliability of what serves and of somebody's own scores.
func picture(r *backtest.Result) ([]byte, error) {
	of, x := "average precision, "+r.Ranked, "step"
	if r.Ranked == "" {
		of = "average precision, mean over classes"
	}
	days := 1.0
	if r.Dated() {
		x, days = "days from "+r.Systems[0].OverTime[0].From+" on", 86_400_000
	}
	var systems []page.Compared
	for i := range r.Systems {
		s := &r.Systems[i]
		c := page.Compared{Name: s.Name}
		if i == 0 || i > 2 {
			c.Tally = &s.Tally
		}
		for _, p := range s.OverTime {
			at := p.At / days
			if days > 1 {
				at -= s.OverTime[0].At / days
			}
			c.X, c.Scores, c.Ranked = append(c.X, at), append(c.Scores, p.Means), append(c.Ranked, p.AP)
		}
		systems = append(systems, c)
	}
	return page.Compare(x, of, systems)
}
