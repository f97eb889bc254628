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

// school is what can be learned from the training nodes of one cut. Each
// training takes place when it is first asked for.
type trainer struct {
	memo
	ctx        context.Context // of the run that the school belongs to
	settings   Settings
	seed       uint64
	graph      *dataset.Dataset
	nodes      []int32    // the training nodes
	data       model.Data // they and their own subgraph
	seen       train.Data // the same, as trainings see it
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
		data.Nodes = append(data.Nodes, int64(v))
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

// classifier is a deterministic GNN.
type classifier struct {
	encoder gnn.Encoder
	head    *linear
}

// member names one of the classifiers of a kind: 0 is the one that stands alone.
type member struct {
	kind   gnn.Kind
	number int
}

// classifier trains encoder and linear head by cross-entropy, each member from
// other initial weights and with other dropout.
func (s *trainer) classifier(m member) (*classifier, error) {
	return recall(&s.memo, m, func() (*classifier, error) {
		seed := mix(s.seed, uint64(m.number))
		head := newLinear(s.settings.embedding(len(s.data.Classes)), len(s.data.Classes), s.settings.WeightDecay, seed)
		encoder, _, err := train.Fit(s.ctx, s.seen, head, s.settings.training(m.kind, s.data.Dim, len(s.data.Classes), seed), nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.kind, err)
		}
		return &classifier{encoder: encoder, head: head}, nil
	})
}

// bayesian is Phase 1 of GVBLL, as the program runs it.
func (s *trainer) gvbll() (*model.Model, error) {
	type key struct{}
	return recall(&s.memo, key{}, func() (*model.Model, error) {
		return model.Train(s.ctx, s.data, s.settings.phase1(s.seed), nil)
	})
}

// mix returns a seed of its own for each number; for 0 it is seed itself.
func mix(seed, number uint64) uint64 { return seed + number*0x9e3779b97f4a7c15 }

// folds deals the training nodes out to k folds of nearly equal size and nearly
// equal class shares, and returns for each the others and the fold.
func (s *trainer) folds(k int) (others, fold [][]int32, err error) {
	if len(s.nodes) < 2 {
		return nil, nil, fmt.Errorf("%s: %d training nodes cannot be folded: give a larger share", s.data.Name, len(s.nodes))
	}
	k = min(k, len(s.nodes))
	rng := rand.New(rand.NewPCG(s.seed, 0x666f6c6473))
	classes := make([][]int, len(s.data.Classes))
	for i, y := range s.data.Labels {
		classes[y] = append(classes[y], i)
	}
	home, dealt := make([]int, len(s.nodes)), 0
	for _, members := range classes {
		rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		for _, i := range members {
			home[i] = dealt % k
			dealt++
		}
	}
	others, fold = make([][]int32, k), make([][]int32, k)
	for i, v := range s.nodes {
		for f := range k {
			if f == home[i] {
				fold[f] = append(fold[f], v)
			} else {
				others[f] = append(others[f], v)
			}
		}
	}
	for _, f := range fold { // nodes of like number may be of like class
		rng.Shuffle(len(f), func(i, j int) { f[i], f[j] = f[j], f[i] })
	}
	return others, fold, nil
}
