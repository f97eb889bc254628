package pipeline

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/drift"
)

// watch looks for drift in what is served and in what labels say of it. It
// changes neither, so it is no part of the chain, and a ledger is not bound to it:
// of one ledger, a worker may watch and an audit not. Its state is a function of
// the windows like all else, and stands in snapshots.
type watch struct {
	// Of the serving head's log loss, label by label.
	adwin   *drift.ADWIN
	hinkley *drift.PageHinkley
	// Before any label.
	embeddings *drift.MMD[[]float32]
	classes    *drift.MMD[int32]
	monitor    *drift.Monitor

	total [watchers]int64 // changes found

	window rated // of the serving head
}

// The detectors, in the order of event.Drift.
const (
	adwin = iota
	pageHinkley
	mmdEmbeddings
	mmdClasses
	watchers
)

var watcherNames = [watchers]string{"adwin", "page-hinkley", "mmd-embeddings", "mmd-classes"}

// watchedRows is how many embeddings of a window are looked at, at most, spread
// evenly over it: a row costs some 0.7 µs at d_e = 64, which small windows can bear
// and large ones need not. With windows of 500 it is 0.2 % of an arrival.
const watchedRows = 8

func newWatch(dim, classes int) (*watch, error) {
	z := drift.DefaultMMD(dim)
	z.Reference, z.Block = 256, 32 // full after 32 windows
	y := drift.DefaultMMD(classes)
	for _, cfg := range []drift.MMDConfig{z, y} {
		if err := cfg.Validate(); err != nil {
			return nil, fmt.Errorf("drift detectors for %d dimensions and %d classes: %w; or switch them off", dim, classes, err)
		}
	}
	return &watch{
		adwin: drift.NewADWIN(drift.DefaultADWIN()), hinkley: drift.NewPageHinkley(drift.DefaultPageHinkley()),
		embeddings: drift.Embeddings(z), classes: drift.Classes(y), monitor: drift.NewMonitor(drift.DefaultMonitor()),
	}, nil
}

// watchDrift tells the detectors of the window.
func (e *Engine) watchDrift(out *event.Outcome) {
	w := e.drift
	if w == nil {
		return
	}
	var d event.Drift
	d.Detectors = make([]event.Detector, watchers)
	found := func(detector int, changed, worse bool) {
		if changed {
			d.Detectors[detector].Changes++
			w.total[detector]++
			if worse {
				d.Detectors[detector].Worse++
			}
		}
	}
	n, dim := len(out.Predictions), e.model.Prior.Dim
	for i := range min(n, watchedRows) {
		row := i * n / min(n, watchedRows)
		found(mmdEmbeddings, w.embeddings.Add(e.arrived.Z[row*dim:(row+1)*dim]), false)
	}
	w.window.clear()
	for i := range out.Predictions {
		p := &out.Predictions[i]
		found(mmdClasses, w.classes.Add(p.ClassIndex), false)
		w.window.add(float64(p.Confidence), false)
	}
	w.monitor.Serve(w.window.confidence...)
	w.window.clear()
	for i, l := range out.Labelled {
		s := &out.Heads[l.By].Scores[i]
		before := w.adwin.Mean()
		changed := w.adwin.Add(s.LogLoss)
		found(adwin, changed, w.adwin.Mean() > before)
		changed = w.hinkley.Add(s.LogLoss)
		_, up := w.hinkley.Score()
		found(pageHinkley, changed, up)
		w.window.add(s.Confidence, s.Correct)
	}
	w.monitor.Learn(w.window.confidence, w.window.right)
	w.show(&d)
	out.Drift = &d
}

// show fills in what the detectors now say.
func (w *watch) show(d *event.Drift) {
	score, _ := w.hinkley.Score()
	z, y := w.embeddings.Last(), w.classes.Last()
	for i, s := range [watchers][2]float64{
		adwin: {}, pageHinkley: {score, drift.DefaultPageHinkley().Threshold},
		mmdEmbeddings: {z.MMD, z.Threshold}, mmdClasses: {y.MMD, y.Threshold},
	} {
		t := &d.Detectors[i]
		t.Name, t.Score, t.Threshold, t.Total = watcherNames[i], s[0], s[1], w.total[i]
	}
	m := w.monitor.Measures()
	d.Confidence, d.EstimatedAccuracy, d.EstimatedECE = m.Confidence, m.EstimatedAccuracy, m.EstimatedECE
	d.RealisedAccuracy, d.RealisedECE = m.RealisedAccuracy, m.RealisedECE
	d.ServedRows, d.LabelledRows = m.Served, m.Labelled
	d.LogLoss, d.LogLossRows = w.adwin.Mean(), w.adwin.Width()
}

// rated are confidences of a window, and whether they were right.
type rated struct {
	confidence []float64
	right      []bool
}

func (r *rated) add(confidence float64, right bool) {
	r.confidence, r.right = append(r.confidence, confidence), append(r.right, right)
}

func (r *rated) clear() { r.confidence, r.right = r.confidence[:0], r.right[:0] }

// stateful is what goes into a snapshot as the bytes that it makes of itself.
type stateful interface {
	AppendState(b []byte) []byte
	SetState(b []byte) error
}

// states are the parts of the state by their names.
func (w *watch) states() map[string]stateful {
	return map[string]stateful{
		"adwin": w.adwin, "page-hinkley": w.hinkley, "mmd-embeddings": w.embeddings, "mmd-classes": w.classes, "monitor": w.monitor,
	}
}

// watchNames are the names of the states, in the order in which they stand in a
// snapshot.
var watchNames = append(watcherNames[:], "monitor")

// driftParts are the detectors' states.
func (e *Engine) driftParts() (parts []safetensors.Part) {
	if e.drift == nil {
		return nil
	}
	states := e.drift.states()
	for _, name := range watchNames {
		state := states[name].AppendState(nil)
		parts = append(parts, safetensors.PartOf("drift."+name, state, len(state)))
	}
	return append(parts, safetensors.PartOf("drift.found", slices.Clone(e.drift.total[:]), watchers))
}

// setDrift reads them, if the snapshot is of an engine that watched. Of one that
// did not, the detectors begin here.
func (e *Engine) setDrift(file *safetensors.Reader) error {
	if file.Len("drift.found") == 0 {
		return nil
	}
	w := e.drift
	if w == nil { // read all the same: damage is to be found
		var err error
		if w, err = newWatch(e.model.Prior.Dim, e.model.Prior.Classes); err != nil {
			return err
		}
	}
	states := w.states()
	for _, name := range watchNames {
		if err := setState(file, "drift."+name, states[name]); err != nil {
			return err
		}
	}
	total, err := safetensors.Read[int64](file, "drift.found", watchers)
	if err != nil {
		return err
	}
	for i, n := range total {
		if n < 0 {
			return damaged("detector %s found %d changes", watcherNames[i], n)
		}
		w.total[i] = n
	}
	return nil
}

func setState(file *safetensors.Reader, name string, of stateful) error {
	state, err := safetensors.Read[uint8](file, name, file.Len(name))
	if err != nil {
		return err
	}
	if err := of.SetState(state); err != nil {
		return damaged("%s: %v", name, err)
	}
	return nil
}
