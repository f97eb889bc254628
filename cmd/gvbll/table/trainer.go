package table

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/gnn/train"
	"github.com/gvbll/gvbll/pipeline/model"
)

// trainer trains models on the training nodes of one cut. A model is trained when it
// is first asked for, and kept for the other systems that use it.
type trainer struct {
	memo
	ctx        context.Context // of the run
	settings   Settings
	seed       uint64
	graph      *dataset.Dataset
	nodes      []int32    // training nodes, by their numbers in graph
	data       model.Data // training nodes and their subgraph
	seen       train.Data // the same, normalised and with isolated nodes treated
	normalizer *gnn.Normalizer
}

func newTrainer(ctx context.Context, d *dataset.Dataset, nodes []int32, s Settings, seed uint64) (*trainer, error) {
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%s: no training nodes: give a larger share", d.Name)
	}
	data := model.Data{Name: d.Name, Dim: d.Dim, Classes: d.Classes}
	all := make([]int32, len(nodes))
	for i, v := range nodes {
		all[i] = int32(i)
		data.X = append(data.X, d.Features[v])
		data.Labels = append(data.Labels, d.Labels[v])
	}
	data.Src, data.Dst = d.Subgraph(nodes)
	seen, normalizer, _, err := model.Prepare(data, all, s.Normalization, seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	return &trainer{ctx: ctx, settings: s, seed: seed, graph: d, nodes: nodes, data: data, seen: seen, normalizer: normalizer}, nil
}

// classifier is a deterministic GNN: an encoder and a linear head.
type classifier struct {
	encoder gnn.Encoder
	head    *linear
}

// member identifies one of the classifiers of a kind. Number 0 is the baseline, and
// the first of an ensemble; others differ by their seed.
type member struct {
	kind   gnn.Kind
	number int
}

// classifier returns a member, trained by cross-entropy. Its initial weights and its
// dropout depend on the member's seed.
func (tr *trainer) classifier(m member) (*classifier, error) {
	return recall(&tr.memo, m, func() (*classifier, error) {
		seed := mix(tr.seed, uint64(m.number))
		head := newLinear(tr.settings.embedding(len(tr.data.Classes)), len(tr.data.Classes), tr.settings.WeightDecay, seed)
		encoder, _, err := train.Fit(tr.ctx, tr.seen, head, tr.settings.training(m.kind, tr.data.Dim, len(tr.data.Classes), seed), nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.kind, err)
		}
		return &classifier{encoder: encoder, head: head}, nil
	})
}

// gvbll returns the model that Phase 1 of GVBLL trains, as gvbll train does.
func (tr *trainer) gvbll() (*model.Model, error) {
	type key struct{}
	return recall(&tr.memo, key{}, func() (*model.Model, error) {
		return model.Train(tr.ctx, tr.data, tr.settings.phase1(tr.seed), nil)
	})
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
