package drift

import (
	"fmt"
	"math"

	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/posterior/internal/words"
)

const (
	// keptRows is the decay of earlier rows with every row: measures are over about the latest
	// 1000.
	keptRows = 0.999
	// priorRows is the weight of the prior that confidences are calibrated, in labelled rows, in
	// each of the calibration.BinCount bins.
	priorRows = 5
)

// Monitor estimates the accuracy and calibration error of served predictions before
// their labels come, and measures both as labels come. The estimate corrects each
// confidence by the gap between confidence and accuracy of earlier predictions in the
// same bin of [calibration.Bins]. So it follows a change of the confidences at once, and
// a change of the accuracy at a given confidence only with the labels. Earlier rows
// decay.
type Monitor struct {
	served   [calibration.BinCount]fading
	realised [calibration.BinCount]fading
}

// fading is a calibration.Bin with decaying counts.
type fading struct{ count, correct, confidence float64 }

// gap returns Σ (confidence - correct) over the rows, decayed.
func (f *fading) gap() float64 { return f.confidence - f.correct }

// measures are the measures of a Monitor. Each is 0 before its first row.
type measures struct {
	Served, Labelled  float64 // decayed number of rows
	Confidence        float64 // mean confidence of served rows: their accuracy, if calibrated
	EstimatedAccuracy float64 // of served rows, corrected by the labels so far
	EstimatedECE      float64 // of served rows
	RealisedAccuracy  float64 // of labelled rows
	RealisedECE       float64 // of labelled rows, over bins of equal width
}

// NewMonitor returns a monitor that has seen no rows.
func NewMonitor() *Monitor { return &Monitor{} }

// Serve adds rows that were served with the given confidences, in order.
func (m *Monitor) Serve(confidence ...float64) { m.count(&m.served, confidence, nil) }

// Learn adds rows whose labels came: their confidences as served, and whether the
// predictions were correct.
func (m *Monitor) Learn(confidence []float64, ok []bool) {
	if len(confidence) != len(ok) {
		panic(fmt.Sprintf("drift: %d confidences and %d outcomes", len(confidence), len(ok)))
	}
	m.count(&m.realised, confidence, ok)
}

// count decays the bins once for all rows, and weights each row by the decay of those
// after it.
func (m *Monitor) count(bins *[calibration.BinCount]fading, confidence []float64, ok []bool) {
	weight := 1.
	for range confidence {
		weight *= keptRows
	}
	for i := range bins {
		b := &bins[i]
		b.count *= weight
		b.correct *= weight
		b.confidence *= weight
	}
	weight = 1
	for i := len(confidence) - 1; i >= 0; i-- {
		b := &bins[calibration.BinOf(confidence[i])]
		b.count += weight
		b.confidence += float64(weight * confidence[i])
		if ok != nil && ok[i] {
			b.correct += weight
		}
		weight *= keptRows
	}
}

// Measures returns the current measures.
func (m *Monitor) Measures() (out measures) {
	var right float64
	for i := range m.served {
		s, r := &m.served[i], &m.realised[i]
		out.Served += s.count
		out.Labelled += r.count
		out.Confidence += s.confidence
		excess := float64(s.count * (r.gap() / (r.count + priorRows)))
		out.EstimatedAccuracy += min(max(s.confidence-excess, 0), s.count)
		out.EstimatedECE += math.Abs(excess)
		right += r.correct
		out.RealisedECE += math.Abs(r.gap())
	}
	if out.Served > 0 {
		out.Confidence /= out.Served
		out.EstimatedAccuracy /= out.Served
		out.EstimatedECE /= out.Served
	}
	if out.Labelled > 0 {
		out.RealisedAccuracy = right / out.Labelled
		out.RealisedECE /= out.Labelled
	}
	return out
}

// AppendState appends the whole state to b as canonical bytes.
func (m *Monitor) AppendState(b []byte) []byte { return words.Append(b, m.state) }

// SetState reads what AppendState wrote. On an error the state is as it was.
func (m *Monitor) SetState(b []byte) error {
	var next Monitor
	if err := words.Read(b, next.state); err != nil {
		return err
	}
	*m = next
	return nil
}

func (m *Monitor) state(s *words.Stream) {
	for _, bins := range [...]*[calibration.BinCount]fading{&m.served, &m.realised} {
		for i := range bins {
			f := &bins[i]
			s.Float(&f.count)
			s.Float(&f.correct)
			s.Float(&f.confidence)
			s.Check(f.count >= 0, "%v rows", f.count)
		}
	}
}
