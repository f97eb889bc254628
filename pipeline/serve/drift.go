package serve

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/drift"
)

// detectors look for drift in predictions and in their scores. They change neither, and
// are not part of the chain, so a ledger may be replayed with or without them. Their
// state is a function of the windows, like all state, and part of snapshots.
type detectors struct {
	dim      int
	embedded *posterior.Rows // of the window's predictions

	adwin      *drift.ADWIN // of the serving head's log loss, label by label
	embeddings *drift.MMD   // before any label
	monitor    *drift.Monitor

	total [detectorCount]int64 // changes found, by detector

	window confidences // scratch: of the serving head
}

var _ Observer = (*detectors)(nil)

// The detectors, in the order of event.Drift.
const (
	adwin = iota
	mmdEmbeddings
	detectorCount
)

var detectorNames = [detectorCount]string{"adwin", "mmd-embeddings"}

// watchedRows bounds the embeddings of a window that the detector sees, spread evenly
// over it. One costs about 0.7 µs at d_e = 64; in windows of 500, all of them add 0.2 %
// to the time of an arrival.
const watchedRows = 8

// NewDetectors returns detectors for predictions whose embeddings are in embedded.
func NewDetectors(m *model.Model, embedded *posterior.Rows) (Observer, error) {
	z := drift.DefaultMMD(m.Prior.Dim)
	z.Reference, z.Block = 256, 32 // full after 32 windows
	if err := z.Validate(); err != nil {
		return nil, fmt.Errorf("drift detectors for %d dimensions: %w; or switch them off", m.Prior.Dim, err)
	}
	return &detectors{
		dim: m.Prior.Dim, embedded: embedded,
		adwin: drift.NewADWIN(drift.DefaultADWIN()), embeddings: drift.NewMMD(z), monitor: drift.NewMonitor(drift.DefaultMonitor()),
	}, nil
}

func (w *detectors) Served(*Entered) {}

func (w *detectors) Matched(slot, class int32) {}

// Scored feeds the window's predictions and scores to the detectors.
func (w *detectors) Scored(out *event.Outcome) {
	var d event.Drift
	d.Detectors = make([]event.Detector, detectorCount)
	found := func(detector int, changed, worse bool) {
		if changed {
			d.Detectors[detector].Changes++
			w.total[detector]++
			if worse {
				d.Detectors[detector].Worse++
			}
		}
	}
	n := len(out.Predictions)
	for i := range min(n, watchedRows) {
		row := i * n / min(n, watchedRows)
		found(mmdEmbeddings, w.embeddings.Add(w.embedded.Z[row*w.dim:(row+1)*w.dim]), false)
	}
	w.window.clear()
	for i := range out.Predictions {
		w.window.add(float64(out.Predictions[i].Confidence), false)
	}
	w.monitor.Serve(w.window.confidence...)
	w.window.clear()
	for i, l := range out.Labelled {
		s := &out.Heads[l.By].Scores[i]
		before := w.adwin.Mean()
		changed := w.adwin.Add(s.LogLoss)
		found(adwin, changed, w.adwin.Mean() > before)
		w.window.add(s.Confidence, s.Correct)
	}
	w.monitor.Learn(w.window.confidence, w.window.right)
	w.report(&d)
	out.Drift = &d
}

// report fills in the current values of the detectors.
func (w *detectors) report(d *event.Drift) {
	for i := range d.Detectors {
		d.Detectors[i].Name, d.Detectors[i].Total = detectorNames[i], w.total[i]
	}
	z := w.embeddings.Last()
	d.Detectors[mmdEmbeddings].Score, d.Detectors[mmdEmbeddings].Threshold = z.MMD, z.Threshold
	m := w.monitor.Measures()
	d.Confidence, d.EstimatedAccuracy, d.EstimatedECE = m.Confidence, m.EstimatedAccuracy, m.EstimatedECE
	d.RealisedAccuracy, d.RealisedECE = m.RealisedAccuracy, m.RealisedECE
	d.ServedRows, d.LabelledRows = m.Served, m.Labelled
	d.LogLoss, d.LogLossRows = w.adwin.Mean(), w.adwin.Width()
}

// confidences are the confidences of predictions, and whether each was correct.
type confidences struct {
	confidence []float64
	right      []bool
}

func (c *confidences) add(confidence float64, right bool) {
	c.confidence, c.right = append(c.confidence, confidence), append(c.right, right)
}

func (c *confidences) clear() { c.confidence, c.right = c.confidence[:0], c.right[:0] }

// State declares the detectors. If the snapshot is of an engine without them, they start
// empty.
func (w *detectors) State(s *snapshot.Schema) {
	if !s.Has("drift.found", true) {
		return
	}
	snapshot.Bytes(s, "drift."+detectorNames[adwin], w.adwin)
	snapshot.Bytes(s, "drift."+detectorNames[mmdEmbeddings], w.embeddings)
	snapshot.Bytes(s, "drift.monitor", w.monitor)
	found := w.total[:]
	snapshot.Slice(s, "drift.found", &found, len(found))
	s.Check(func() error {
		if slices.Min(found) < 0 {
			return snapshot.Damaged("a detector found %d changes", slices.Min(found))
		}
		copy(w.total[:], found)
		return nil
	})
}
