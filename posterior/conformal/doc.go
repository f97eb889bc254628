// Package conformal predicts sets of classes that hold the label with a stated
// probability, on streams that drift and whose labels come late.
//
// The score of a class in a row of class probabilities is 1 - p(c). The row's set is
// {c : 1 - p(c) ≤ t} for a threshold t. Split conformal prediction takes t as the
// ⌈(n+1)(1-α)⌉-th smallest score of n labelled rows: then a set holds the label with
// probability at least 1-α as long as rows are exchangeable. On a stream they are not, so a
// [Predictor] moves t as labels come: a set that missed its label makes the following sets
// larger, one that held it makes them smaller, and in the long run a share α of sets miss.
//
// [Limits] say when a prediction should not be acted on, because of its set or its
// confidence.
//
//	predictor.go  Predictor: thresholds that follow the labels
//	impute.go     scores of rows whose labels have not come yet
//	set.go        Set, its coverage, and when to abstain
//	state.go      state as bytes
//
// Probabilities are n × C, flat and row-major, and must be finite; labels are classes
// from 0. Misuse of shapes panics. Results depend only on configuration and input, and
// have the same bits on every amd64 machine.
package conformal
