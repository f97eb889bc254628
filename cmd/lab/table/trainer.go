package table

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/gnn/train"
	"github.com/gvbll/gvbll/pipeline/holdout"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/pool"
)

// trainer trains models on the training nodes of one cut. A model is trained when it
// is first asked for, and kept for the other systems that use it.
type trainer struct {
	kept       memo
	ctx        context.Context // of the run
	settings   Settings
	seed       uint64
	graph      *dataset.Dataset
	nodes      []int32    // training nodes, by their numbers in graph
	data       model.Data // training nodes and their subgraph
	seen       model.Data // what encoders are trained on: the same, or under transductive the whole graph
	rows       train.Data // seen with normalised features; see seenBy
	normalizer *gnn.Normalizer
}

// newTrainer returns a trainer on the training nodes of a cut, and on nothing else.
func newTrainer(ctx context.Context, d *dataset.Dataset, cut dataset.Stream, s Settings, seed uint64) (*trainer, error) {
	nodes := cut.Train
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%s: no training nodes: give a larger share", d.Name)
	}
	data := model.Data{Name: d.Name, Dim: d.Dim, Classes: d.Classes, Ordered: cut.Ordered, Schema: d.Schema}
	for _, v := range nodes {
		data.X = append(data.X, d.Features[v])
		data.Labels = append(data.Labels, d.Labels[v])
	}
	data.Src, data.Dst = d.Subgraph(nodes)
	tr := &trainer{ctx: ctx, settings: s, seed: seed, graph: d, nodes: nodes, data: data}
	return tr, tr.see(data)
}

// see sets what encoders are trained on: the training nodes, and perhaps others behind them.
func (tr *trainer) see(data model.Data) (err error) {
	tr.kept, tr.seen = memo{}, data
	if tr.rows, tr.normalizer, err = model.Prepare(data, numbers(0, len(tr.nodes)), tr.settings.Phase1.Normalization); err != nil {
		return fmt.Errorf("%s: %w", data.Name, err)
	}
	return nil
}

// seeWhole has encoders be trained on the whole graph of a stream, with the labels of the training nodes alone.
func (tr *trainer) seeWhole(stream *replay) error {
	whole := tr.data
	whole.X, whole.Src, whole.Dst = stream.raw, stream.src, stream.dst
	return tr.see(whole)
}

// seenBy returns the training nodes as an encoder of a kind is trained on them: as Phase 1
// of GVBLL would see them.
func (tr *trainer) seenBy(kind gnn.Kind) train.Data {
	data := tr.rows
	data.Src, data.Dst, _ = tr.seen.Complete(kind, data.Train, tr.seed)
	return data
}

// member identifies one of the classifiers of a kind. Number 0 is the baseline, and
// the first of an ensemble; others differ by their seed.
type member struct {
	kind   gnn.Kind
	number int
}

// classifier returns a member: a GNN whose last layer's outputs are the logits of the
// classes, trained by cross-entropy. Its initial weights and its dropout depend on the
// member's seed.
func (tr *trainer) classifier(m member) (gnn.Encoder, error) {
	return recall(tr.kept, m, func() (gnn.Encoder, error) {
		classes := len(tr.data.Classes)
		return tr.fit(m.kind, &logits{classes}, classes, mix(tr.seed, uint64(m.number)))
	})
}

// fit trains a GNN with out outputs and a head.
func (tr *trainer) fit(kind gnn.Kind, head train.Head, out int, seed uint64) (gnn.Encoder, error) {
	encoder, _, err := train.Fit(tr.ctx, tr.seenBy(kind), head, tr.settings.training(kind, tr.data.Dim, out, seed), nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return encoder, nil
}

// phase1 returns how GVBLL is trained.
func (tr *trainer) phase1() model.Config {
	c := tr.settings.Phase1
	c.Seed = tr.seed
	return c
}

// gvbll returns the model that Phase 1 of GVBLL trains, as gvbll train does.
func (tr *trainer) gvbll() (*model.Model, error) {
	type key struct{}
	return recall(tr.kept, key{}, func() (*model.Model, error) {
		return model.Train(tr.ctx, tr.seen, tr.phase1(), nil)
	})
}

// start returns a pool's configuration with what the pool starts with, as gvbll train has
// it learned from training nodes held out.
func (tr *trainer) start(spec pool.Config) (pool.Config, error) {
	type key struct{}
	held, err := recall(tr.kept, key{}, func() (*holdout.Held, error) {
		return holdout.New(tr.ctx, tr.data, tr.phase1(), nil)
	})
	if err == nil {
		spec.Start, err = held.Start(spec)
	}
	return spec, err
}

// mix derives a seed for each number: for 0 the seed itself. The constant is 2^64 divided
// by the golden ratio, so that the seeds of consecutive numbers are far apart.
func mix(seed, number uint64) uint64 { return seed + number*0x9e3779b97f4a7c15 }

// folds divides the training nodes into k folds of nearly equal size and class
// shares. For each fold it returns the nodes outside it and those inside.
func (tr *trainer) folds(k int) (others, fold [][]int32, err error) {
	if len(tr.nodes) < 2 {
		return nil, nil, fmt.Errorf("%s: %d training nodes cannot be divided into folds: give a larger share", tr.data.Name, len(tr.nodes))
	}
	k = min(k, len(tr.nodes))
	rng := rand.New(rand.NewPCG(tr.seed, 0x666f6c6473))
	classes := make([][]int, len(tr.data.Classes))
	for i, y := range tr.data.Labels {
		classes[y] = append(classes[y], i)
	}
	home, dealt := make([]int, len(tr.nodes)), 0
	for _, members := range classes {
		rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		for _, i := range members {
			home[i] = dealt % k
			dealt++
		}
	}
	others, fold = make([][]int32, k), make([][]int32, k)
	for i, v := range tr.nodes {
		for f := range k {
			if f == home[i] {
				fold[f] = append(fold[f], v)
			} else {
				others[f] = append(others[f], v)
			}
		}
	}
	for _, f := range fold { // neighbouring numbers may have the same class
		rng.Shuffle(len(f), func(i, j int) { f[i], f[j] = f[j], f[i] })
	}
	return others, fold, nil
}
