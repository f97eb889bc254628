package page

import "github.com/gvbll/gvbll/posterior/calibration"

// Compared is how one system did on a stream.
type Compared struct {
	Name   string
	X      []float64           // places of the parts of the stream
	Scores []calibration.Means // by part
	Ranked []float64           // average precision by part; 0 where there is none
	Tally  *calibration.Tally  // of the whole stream; nil where its reliability is not drawn
}

// Compare draws systems beside each other as an image: NLL and average precision over x, and reliability.
func Compare(x, precision string, systems []Compared) ([]byte, error) {
	f := &plot{Label: "Negative log-likelihood and average precision over the stream by system, and reliability diagrams."}
	var list []measured
	var ranked []series
	for _, s := range systems {
		list = append(list, measured{name: s.Name, x: s.X, scores: s.Scores})
		r := series{name: s.Name}
		for i, ap := range s.Ranked {
			if ap > 0 {
				r.add(s.X[i], ap)
			}
		}
		ranked = append(ranked, r)
	}
	f.add("NLL, nats", x, false, linesOf(list, func(m calibration.Means) float64 { return m.NLL })...)
	f.add(precision, x, false, ranked...)
	for _, s := range systems {
		if s.Tally != nil {
			f.reliability(s.Name, s.Tally)
		}
	}
	return execute("image", f)
}
