// Package retrain trains a model on the windows of a stream: on what is labelled by the
// last of them, in the graph as it is then.
//
// The labels are cut in time. A candidate is trained on those before the cut, and an engine
// with it plays all windows: its predictions of the nodes that came after the cut, made
// before their labels are learned, are what the candidate would have scored, beside those of
// the model that serves. The model itself is then trained on all labels.
//
// What a pool of heads has learned is handed on, as far as no encoder is in it
// ([pool.Pool.TakeOver]): by the model that serves, at the cut, to the candidate, and by the
// candidate, at the end, to the model. So counts and weights on features are those of the
// whole stream, and the pool's weights were learned from predictions of nodes that no
// encoder was trained on.
//
// Nothing here knows where the windows come from. They are played several times, so that
// memory is bounded by the graph and not by the stream.
package retrain

import (
	"cmp"
	"context"
	"errors"

	"github.com/gvbll/gvbll/gnn/train"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// Stream calls visit with each window in turn, from number 0 on; it always has the same
// windows. A window is valid during the call. It ends at the first error, and returns it.
type Stream func(ctx context.Context, visit func(*event.Window) error) error

// Config configures the training.
type Config struct {
	Name  string       // of the stream, for the model file
	Model model.Config // of the encoder and the head, for candidate and model
	// Serving is the model that serves. The new one has its classes first, its number of
	// features and its heads. Nil begins anew, with Features and Classes.
	Serving  *model.Model
	Features int
	Classes  []string        // that the model has first; labels by index mean these
	More     []string        // classes to have besides
	Settings pipeline.Config // of the engines that play
	// Since leaves out, of the training nodes, those that arrived in an earlier window.
	Since int64
	// Share of the labels, the latest, that validate the candidate. Zero means 0.2. Labels
	// of the first window that has any are always before the cut.
	Share float64
	// Own, unless nil, returns the id by which workers know a node of the stream: those of several graphs that are one
	// stream here may differ.
	Own func(event.ID) event.ID
	// Progress, if not nil, is called after each epoch of the candidate's training and
	// then of the model's.
	Progress func(what string, p train.Progress)
}

// minLabels is the number of labels from which on a class that nobody named is one: fewer
// may be slips of a labeller.
const minLabels = 5

// keep is the share of their precision that weights learned beside one embedding keep
// beside another. The encoders are of one kind and their labels overlap, and yet their
// embeddings differ: neither all nor nothing is right. On the generator .9 is better than .5
// by .001 nats where labels come soon, and worse by .01 where they are ten steps late.
const keep = 0.5

// Result is a model and how it was made.
type Result struct {
	Model *model.Model
	// Candidate and Served are the scores of the candidate and of the model that serves,
	// by head, the one that serves first: over the nodes after the cut that both
	// predicted, by the same labels. Without a model that serves, Served is empty.
	Candidate, Served []pipeline.Summary
	Cut, Windows      int64    // first window after the cut, and number of all windows
	New               []string // classes that the model that serves lacks
	Rare              []string // names of labels that are too few to be a class
}

// Train trains a model on a stream.
func Train(ctx context.Context, stream Stream, cfg Config) (*Result, error) {
	cfg.Share = cmp.Or(cfg.Share, 0.2)
	r := &run{Config: cfg, stream: stream, known: cfg.Classes}
	if s := cfg.Serving; s != nil {
		if s.Kinds != nil {
			return nil, errors.New("the model that serves tells kinds of edges apart, which is not learned from a " +
				"ledger yet: train on a data set with the columns kind and weight")
		}
		r.Features, r.known = s.Encoder.In(), s.Classes
	}
	all, err := r.record(ctx, everything)
	if err != nil {
		return nil, err
	}
	r.chooseClasses(all)
	if err := r.chooseCut(all); err != nil {
		return nil, err
	}
	candidate, err := r.candidate(ctx)
	if err != nil {
		return nil, err
	}
	played, err := r.play(ctx, candidate, &r.result.Candidate, nil)
	if err != nil {
		return nil, err
	}
	alone := r.Model
	alone.Pool = false
	data := r.data(all)
	data.Before = candidate.Normalizer
	for i, id := range data.IDs {
		data.IDs[i] = r.own(id)
	}
	if r.result.Model, err = r.train(ctx, "model", data, alone); err != nil {
		return nil, err
	}
	if from := played.Pool(); from != nil {
		if err := r.result.Model.TakeOver(from, keep); err != nil {
			return nil, err
		}
	}
	return &r.result, r.result.Model.SetValidation(r.validation())
}
