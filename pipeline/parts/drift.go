package parts

import (
	"slices"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/drift"
)

// detectors look for drift in predictions and in their scores. They change neither, and
// are not part of the chain, so a ledger may be replayed with or without them. Their
// state is a function of the windows, like all state, and part of snapshots.
//
// What they find within sameChange predictions of a change that was found is that change, and
// is not counted again, unless a loss rises where only embeddings had changed. A loss that falls
// is what learning is for, and is not counted.
type detectors struct {
	dim      int
	embedded *posterior.Rows // of the window's predictions

	loss       [2]*drift.ADWIN // served and trained, label by label
	embeddings *drift.MMD      // before any label
	monitor    *drift.Monitor

	total [detectorCount]int64 // changes found, by detector
	last  [2]int64             // predictions that still belong to the last change, and whether a loss rose: 1 or 0

	window confidences // scratch: of the serving head
}

// The detectors, in the order of event.Drift.
const (
	served  = iota // the log loss of what was served
	trained        // the log loss of the model as trained, which no learning hides
	mmdEmbeddings
	detectorCount
)

var detectorNames = [detectorCount]string{"adwin", "adwin-static", "mmd-embeddings"}

const (
	// watchedRows bounds the embeddings of a window that the detector sees, spread evenly
	// over it. One costs about 0.7 µs at d_e = 64; in windows of 500, 64 of them add 1 %
	// to the time of an arrival.
	watchedRows = 64
	sameChange  = 1000
	// mostLoss bounds a log loss of the model as trained, in nats: single confident errors
	// would hide a change of the mean. In units of perNat it has a deviation of about 10, beside
	// which ADWIN's allowance for values from 0 to 1 is nothing.
	mostLoss = 3
	perNat   = 10
)

// NewDetectors returns detectors for predictions whose embeddings are in embedded.
func NewDetectors(m *model.Model, embedded *posterior.Rows) serve.Observer {
	often := drift.DefaultADWIN()
	often.Clock = 8
	w := &detectors{
		dim: m.Prior.Dim, embedded: embedded, loss: [2]*drift.ADWIN{
			served:  drift.NewADWIN(drift.DefaultADWIN()),
			trained: drift.NewADWIN(often),
		},
		embeddings: drift.NewMMD(m.Prior.Dim), monitor: drift.NewMonitor(),
	}
	return serve.Observer{Scored: w.scored, State: w.state}
}

// scored feeds the window's predictions and scores to the detectors.
func (w *detectors) scored(out *event.Outcome) {
	var d event.Drift
	d.Detectors = make([]event.Detector, detectorCount)
	found := func(detector int, rise float64) {
		if w.last[0] > 0 && (rise == 0 || w.last[1] == 1) {
			return
		}
		w.last = [2]int64{sameChange, 0}
		d.Detectors[detector].Changes, d.Detectors[detector].Rise = 1, rise
		w.total[detector]++
		if rise > 0 {
			w.last[1] = 1
		}
	}
	n := len(out.Predictions)
	w.last[0] = max(w.last[0]-int64(n), 0)
	for i := range min(n, watchedRows) {
		row := i * n / min(n, watchedRows)
		if w.embeddings.Add(w.embedded.Z[row*w.dim : (row+1)*w.dim]) {
			found(mmdEmbeddings, 0)
		}
	}
	w.window.clear()
	for i := range out.Predictions {
		w.window.add(float64(out.Predictions[i].Confidence), false)
	}
	w.monitor.Serve(w.window.confidence...)
	w.window.clear()
	static := slices.IndexFunc(out.Heads, func(h event.Head) bool { return h.Name == serve.Static })
	add := func(detector int, loss, unit float64) {
		a := w.loss[detector]
		n, sum := float64(a.Width()+1), float64(float64(a.Width())*a.Mean())+float64(unit*loss)
		if !a.Add(unit * loss) {
			return
		}
		left := float64(a.Width())
		if rise := a.Mean() - (sum-float64(left*a.Mean()))/(n-left); rise > 0 {
			found(detector, rise/unit)
		}
	}
	for i, l := range out.Labelled {
		s := &out.Heads[l.By].Scores[i]
		add(served, s.LogLoss, 1)
		if static >= 0 {
			add(trained, min(out.Heads[static].Scores[i].LogLoss, mostLoss), perNat)
		}
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
	d.LogLoss = w.loss[served].Mean()
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

// state declares the detectors. If the snapshot is of an engine without them, they start
// empty.
func (w *detectors) state(s *snapshot.Schema) {
	if !s.Has("drift.found", true) {
		return
	}
	snapshot.Bytes(s, "drift."+detectorNames[served], w.loss[served])
	snapshot.Bytes(s, "drift."+detectorNames[trained], w.loss[trained])
	snapshot.Bytes(s, "drift."+detectorNames[mmdEmbeddings], w.embeddings)
	snapshot.Bytes(s, "drift.monitor", w.monitor)
	found := append(w.total[:], w.last[:]...)
	snapshot.Slice(s, "drift.found", &found, len(found))
	s.Check(func() error {
		if slices.Min(found) < 0 || found[detectorCount] > sameChange || found[detectorCount+1] > 1 {
			return snapshot.Damaged("detectors found %d changes", found)
		}
		copy(w.total[:], found)
		copy(w.last[:], found[detectorCount:])
		return nil
	})
}
