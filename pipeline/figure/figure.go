// Package figure is how a part of the engine declares the numbers that people see of it: each once, with
// its name, its help, how windows add up, and what it is called in words. A figure is on /metrics, in the
// ledger, in status, report and page, and in docs/metrics.md from its first day.
package figure

import (
	"encoding/json"
	"slices"
	"strings"
)

// Figure is a number of every window.
type Figure struct {
	// Name is that of the metric without gvbll_, Help says what it counts.
	Name, Help string
	// Label and Value tell the series of a metric apart, "" for a metric with one.
	Label, Value string
	// Level says that the last window has it, as a gauge. Other figures are sums.
	Level bool
	// Words are what status, report and page call it; "" leaves it to /metrics and the ledger.
	Words string
	// Advice says in docs/metrics.md what to do when it looks bad.
	Advice string

	index int
	key   string
}

// all are the figures of the program, in the order in which packages declare them. Nothing is added once main runs.
var all []*Figure

// levels are the keys of figures that do not add up.
var levels = make(map[string]bool)

// New declares a figure. It is called where package variables are initialised.
func New(f Figure) *Figure {
	f.index, f.key = len(all), strings.TrimSuffix(f.Name, "_total")
	if f.Value != "" {
		f.key += "." + f.Value
	}
	if f.Level {
		levels[f.key] = true
	}
	all = append(all, &f)
	return &f
}

// Sum declares a figure that adds up.
func Sum(name, help, words, advice string) *Figure {
	return New(Figure{Name: name, Help: help, Words: words, Advice: advice})
}

// Family are figures that are series of one metric.
type Family struct {
	Name, Help, Label string
	Level             bool
	Advice            string
}

// Of declares the figure of a value of the label.
func (f Family) Of(value, words string) *Figure {
	return New(Figure{Name: f.Name, Help: f.Help, Label: f.Label, Level: f.Level, Advice: f.Advice, Value: value, Words: words})
}

// All returns the figures in the order in which they are declared.
func All() []*Figure { return slices.Clone(all) }

// Key is the figure's name in a ledger and in JSON: edges, or departures.expired.
func (f *Figure) Key() string { return f.key }

// Window are the figures of a window. The zero value has none, and figures that were not set are 0.
type Window []float64

// Add adds to a figure.
func (w *Window) Add(f *Figure, x float64) { *w.at(f) += float64(x) } // rounded: x may be a product

// Count adds so many to a figure.
func (w *Window) Count(f *Figure, n int) { *w.at(f) += float64(n) }

// Set sets a figure.
func (w *Window) Set(f *Figure, x float64) { *w.at(f) = x }

func (w *Window) at(f *Figure) *float64 {
	if *w == nil {
		*w = make(Window, len(all))
	}
	return &(*w)[f.index]
}

// Of returns a figure.
func (w Window) Of(f *Figure) float64 {
	if w == nil {
		return 0
	}
	return w[f.index]
}

// Int returns a figure that is a count.
func (w Window) Int(f *Figure) int { return int(w.Of(f)) }

// Kept returns the figures that are not 0, by key, for a ledger; nil if all are.
func (w Window) Kept() (k Kept) {
	for i, x := range w {
		if x != 0 {
			if k == nil {
				k = make(Kept)
			}
			k[all[i].Key()] = x
		}
	}
	return k
}

// Kept are figures by key. Those of many windows add up, and a level is that of the last. It may have
// keys of other programs, which are passed on.
type Kept map[string]float64

// Of returns a figure.
func (k Kept) Of(f *Figure) float64 { return k[f.Key()] }

// Int returns a figure that is a count.
func (k Kept) Int(f *Figure) int { return int(k.Of(f)) }

// Merge adds the figures of a later window.
func (k *Kept) Merge(later Kept) {
	if len(later) == 0 {
		return
	}
	if *k == nil {
		*k = make(Kept)
	}
	for key := range levels { // one that is not there is 0
		delete(*k, key)
	}
	for key, x := range later {
		if levels[key] {
			(*k)[key] = x
		} else {
			(*k)[key] += x
		}
	}
}

// MarshalJSON implements [json.Marshaler]: an object, also if there are none.
func (k Kept) MarshalJSON() ([]byte, error) {
	if k == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]float64(k))
}

// row is a figure with its number.
type row struct {
	*Figure
	Number float64
}

// Rows returns the figures that have words and are not 0, in the order of All.
func (k Kept) Rows() (list []row) {
	for _, f := range all {
		if x := k.Of(f); x != 0 && f.Words != "" {
			list = append(list, row{f, x})
		}
	}
	return list
}
