package retrain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/train"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// run is one call of Train.
type run struct {
	Config
	stream  Stream
	known   []string // classes of the model that serves, or those given
	classes []string // of the new model: the known ones, and more
	result  Result
}

// own returns the id by which workers know a node.
func (r *run) own(id event.ID) event.ID {
	if r.Own == nil {
		return id
	}
	return r.Own(id)
}

// everything is a window after all others.
const everything = math.MaxInt64

// errEnough ends a stream early.
var errEnough = errors.New("enough windows")

// record returns the history of the windows before the given one.
func (r *run) record(ctx context.Context, before int64) (*pipeline.History, error) {
	h, err := pipeline.NewHistory(pipeline.HistoryConfig{
		Features: r.Features, Schema: r.schema(), Classes: r.known, Settings: r.Settings,
	})
	if err != nil {
		return nil, err
	}
	err = r.stream(ctx, func(w *event.Window) error {
		if w.Number >= before {
			return errEnough
		}
		if r.schema() == nil && slices.ContainsFunc(w.Nodes, func(n event.Node) bool { return n.Named != nil }) {
			return errors.New("features come by name: give the model that serves, whose schema a new one keeps (--serving)")
		}
		h.Step(w)
		r.result.Windows = max(r.result.Windows, w.Number+1)
		return h.Err()
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return h, err
}

// schema returns that of the model that serves: a new model keeps it.
func (r *run) schema() *attributes.Schema {
	if r.Serving == nil {
		return nil
	}
	return r.Serving.Schema
}

// chooseClasses sets the classes of the new model: those known, those named, and those of
// enough labels.
func (r *run) chooseClasses(h *pipeline.History) {
	counts := make([]int, len(h.Classes()))
	h.Nodes(func(n *pipeline.Recorded) bool {
		if n.Class >= 0 {
			counts[n.Class]++
		}
		return false
	})
	r.classes = slices.Clone(r.known)
	for _, name := range r.More {
		if !slices.Contains(r.classes, name) {
			r.classes = append(r.classes, name)
		}
	}
	for c, name := range h.Classes() {
		switch {
		case slices.Contains(r.classes, name):
		case counts[c] >= minLabels:
			r.classes = append(r.classes, name)
		default:
			r.result.Rare = append(r.result.Rare, name)
		}
	}
	r.result.New = r.classes[len(r.known):]
}

// chooseCut sets the first window after the cut: that of the first of the latest labels.
func (r *run) chooseCut(h *pipeline.History) error {
	var windows []int64
	h.Nodes(func(n *pipeline.Recorded) bool {
		if r.learns(h, n) {
			windows = append(windows, n.Labelled)
		}
		return false
	})
	if len(windows) == 0 {
		return errors.New("no label of these windows can be learned: wait for labels, or begin with an earlier window")
	}
	slices.Sort(windows)
	later, _ := slices.BinarySearch(windows, windows[0]+1) // what came at once cannot be cut
	if later == len(windows) {
		return fmt.Errorf("all labels came in window %d: wait for labels of later ones, to validate on", windows[0])
	}
	r.result.Cut = windows[max(later, int(float64(len(windows))*(1-r.Share)))]
	return nil
}

// learns reports whether the model is trained on a node.
func (r *run) learns(h *pipeline.History, n *pipeline.Recorded) bool {
	return n.Class >= 0 && n.Window >= r.Since && slices.Contains(r.classes, h.Classes()[n.Class])
}

// data returns the nodes of a history that are trained on, with the edges between them.
func (r *run) data(h *pipeline.History) model.Data {
	number := make([]int32, len(h.Classes())) // of a class, by its index in the history
	for c, name := range h.Classes() {
		number[c] = int32(slices.Index(r.classes, name))
	}
	nodes, edges := h.Nodes(func(n *pipeline.Recorded) bool { return r.learns(h, n) })
	d := model.Data{
		Name: r.Name, Split: fmt.Sprintf("labelled in windows before %d", r.result.Windows), Dim: r.Features,
		Classes: r.classes, Schema: r.schema(),
	}
	for i := range nodes {
		n := &nodes[i]
		d.IDs, d.X, d.Labels = append(d.IDs, n.ID), append(d.X, n.Features), append(d.Labels, number[n.Class])
	}
	for _, e := range edges {
		d.Src, d.Dst = append(d.Src, e.Source, e.Target), append(d.Dst, e.Target, e.Source)
	}
	return d
}

// train trains a model on d.
func (r *run) train(ctx context.Context, what string, d model.Data, cfg model.Config) (*model.Model, error) {
	m, err := model.Train(ctx, d, cfg, func(p train.Progress) {
		if r.Progress != nil {
			r.Progress(what, p)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return m, nil
}

// candidate trains the candidate. Its pool is taken over from the model that serves, as that
// is at the cut, and trained on the candidate's nodes if there is none.
func (r *run) candidate(ctx context.Context) (*model.Model, error) {
	before, err := r.record(ctx, r.result.Cut)
	if err != nil {
		return nil, err
	}
	cfg := r.Model
	if s := r.Serving; s != nil {
		cfg.Pool = cfg.Pool && s.Pool == nil
	}
	data := r.data(before)
	if r.Serving != nil {
		data.Before = r.Serving.Normalizer
	}
	m, err := r.train(ctx, "candidate", data, cfg)
	if err != nil || r.Serving == nil {
		return m, err
	}
	_, err = r.play(ctx, r.Serving, &r.result.Served, func(e *pipeline.Engine) error {
		if from := e.Pool(); from != nil && r.Model.Pool {
			return m.TakeOver(from, keep)
		}
		return nil
	})
	return m, err
}

// play has an engine of a model step all windows. It adds up the scores of the nodes that
// came after the cut, and calls at, unless that is nil, with the engine before the first
// window after the cut.
func (r *run) play(ctx context.Context, m *model.Model, scores *[]pipeline.Summary,
	at func(*pipeline.Engine) error,
) (*pipeline.Engine, error) {
	settings := r.Settings
	settings.Local.Unwatched = true
	e, err := pipeline.New(m, settings)
	if err != nil {
		return nil, err
	}
	for _, s := range e.Summaries() {
		*scores = append(*scores, pipeline.Summary{Head: s.Head})
	}
	return e, r.stream(ctx, func(w *event.Window) error {
		if w.Number == r.result.Cut && at != nil {
			if err := at(e); err != nil {
				return err
			}
		}
		events := *w
		events.Commands = nil
		out := e.Step(&events)
		r.score(*scores, out)
		e.Recycle(out)
		return nil
	})
}

// score adds the scores of a window's labels, as far as they compare the two models.
func (r *run) score(scores []pipeline.Summary, out *event.Outcome) {
	var room []calibration.Score
	for h := range scores {
		room = room[:0]
		for i := range out.Labelled {
			if r.compares(&out.Labelled[i]) {
				room = append(room, calibration.Score(out.Heads[h].Scores[i]))
			}
		}
		scores[h].AddWindow(room, calibration.BinCount)
	}
}

// compares reports whether both the candidate and the model that serves predicted the node
// of a label after the cut, and neither was trained on it.
func (r *run) compares(l *event.Labelled) bool {
	if l.Served < r.result.Cut {
		return false
	}
	return r.Serving == nil || int(l.Class) < len(r.known) && !r.Serving.TrainedOn(r.own(l.Node))
}

// validation returns the scores of both, for the model's file.
func (r *run) validation() model.Validation {
	v := model.Validation{
		Cut: r.result.Cut, Windows: r.result.Windows, Labels: r.result.Candidate[0].Total().Labels,
		Scores: means(r.result.Candidate), Served: means(r.result.Served),
	}
	if r.Serving != nil {
		v.Serving = r.Serving.ID
	}
	return v
}

func means(scores []pipeline.Summary) map[string]calibration.Means {
	m := make(map[string]calibration.Means)
	for i := range scores {
		m[scores[i].Head] = scores[i].LabelMeans()
	}
	return m
}
