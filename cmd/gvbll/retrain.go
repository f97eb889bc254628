package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/cmd/gvbll/service"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/retrain"
)

type retrainCmd struct {
	Kafka flags.Inputs `embed:""`
	Cell  flags.Cell   `embed:""`
	look.Span
	Train trainFlags `embed:""`

	Models  string     `help:"@retrain_models" required:"" type:"existingdir" placeholder:"DIR"`
	Serving string     `help:"File of the model that serves, if it is not in that folder." type:"existingfile" placeholder:"FILE"`
	Classes []string   `help:"Names of classes to have besides those of the labels." placeholder:"NAME"`
	Promote event.Rule `help:"@retrain_promote" placeholder:"after=LABELS,if=nll"`
	Yes     bool       `help:"@retrain_yes"`
	Seed    uint64     `help:"Seed of the training." default:"1" group:"training"`
}

var retrainHelp = flags.Texts{
	"retrain_models":  "Folder of model files that the workers have too (work --models).",
	"retrain_promote": "Promote the model after so many labels, if its log loss is lower, such as after=500,if=nll.",
	"retrain_yes":     "Try the model even if its candidate scored worse than the one that serves, without asking.",
}

// Help is shown by gvbll retrain --help.
func (retrainCmd) Help() string {
	return "Trains as 'gvbll train --brokers' does, puts the file into the folder of models, and sends the workers " +
		"the command to try it (docs/retraining.md)."
}

// Run trains, and sends the command.
func (c retrainCmd) Run(ctx context.Context, p flags.Process, g flags.Given) error {
	if err := c.Train.check(g); err != nil {
		return err
	}
	if err := flags.CheckFolder("--models", c.Models, 0o755); err != nil {
		return err
	}
	graphs, done, err := look.ConnectAll(ctx, p, c.Kafka, c.Cell)
	if err != nil {
		return err
	}
	defer done()
	l, err := look.OpenLogs(ctx, graphs, c.Span)
	if err != nil {
		return err
	}
	folder := service.NewModelFolder(c.Models)
	serving, err := openServing(c.Serving, l)
	if serving == nil && err == nil {
		serving, err = folder.Open(l.Serves)
	}
	if err != nil {
		return err
	}
	r, err := c.Train.fromLog(ctx, l, c.Seed, serving, c.Classes, p, folder.File)
	if err != nil {
		return err
	}
	file := folder.File(r.Model.ID)
	if err := c.agree(ctx, p, r, file); err != nil {
		return err
	}
	try := &event.Command{Name: event.Shadow, Model: r.Model.ID, Rule: c.Promote.String()}
	for _, graph := range graphs {
		if _, err := sendCommand(ctx, graph, try); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(p.Out, "%s: model %s, %s; sent the command to try it\n", file, r.Model.ID, describe(r.Model))
	return err
}

// agree returns an error unless the model is to be tried. One that is worse than the model that
// serves is tried with --yes, or if the answer at a terminal is yes.
func (c retrainCmd) agree(ctx context.Context, p flags.Process, r *retrain.Result, file string) error {
	verdict, worse := look.Verdict(r.Model.Training.Validation, r.Candidate[0].Head)
	if !worse || c.Yes {
		return nil
	}
	if line := typed(p); line != nil {
		fmt.Fprint(p.Err, "It is worse. Try it all the same? [y/N] ")
		select {
		case answer := <-line:
			if slices.Contains([]string{"y", "Y", "yes"}, answer) {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s is written and not tried: it is %s: train on more labels, or add --yes to try it all the same", file, verdict)
}
