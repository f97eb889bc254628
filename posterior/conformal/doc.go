// Package conformal gives sets of classes that hold the label with a stated
// probability, on streams that drift and whose labels come late.
//
// A score says how badly a class conforms to a row's probabilities (Score); a
// class is in the row's set when its score is no more than a threshold. Split
// conformal prediction takes the threshold from labelled rows (Threshold) and
// keeps its word as long as rows are exchangeable; a Predictor moves it as labels
// come, so that coverage also holds under drift.
//
// Probabilities are n × C, flat and row-major, and must be finite; labels are
// classes from 0. Shape misuse panics. Everything is a function of configuration
// and input, to the bit, on every amd64 machine.
package conformal
