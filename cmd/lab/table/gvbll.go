package table

import (
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/posterior"
)

// gvbll is GVBLL-Online, the paper's model (Algorithm 1): a frozen encoder and
// temperature, MAP predictions, and a posterior that learns from each step.
type gvbll struct{ *engine }

func newOnline(tr *trainer, stream *replay, protocol string, update posterior.Config) (gvbll, error) {
	m, err := tr.gvbll()
	if err != nil {
		return gvbll{}, err
	}
	// the online head always serves
	cfg := pipeline.Config{Head: pipeline.HeadPaper, Update: update, LearnLag: tr.settings.LearnLag, Fallback: -1}
	e, err := newEngine(m, cfg, stream, protocol, stream.context.nodes)
	return gvbll{e}, err
}

// static is GVBLL-Static: the same without updates. Its engine gets no labels of the
// stream.
type static struct{ gvbll }

func newStatic(tr *trainer, stream *replay, protocol string) (static, error) {
	g, err := newOnline(tr, stream, protocol, tr.settings.Update)
	return static{g}, err
}

func (static) learn([]int32) {}
