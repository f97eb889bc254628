// Package dataset reads, writes and generates labelled graphs, and cuts them into
// training nodes and the steps of a stream.
//
// [Open] reads four layouts (tables with headers, OGB's raw csv, PyTorch
// Geometric's and scipy's arrays in an .npz), [Drift] generates graphs whose
// classes, features and homophily drift. Both give a [Dataset]; a [Stream] of it
// comes from [Dataset.Split] (stratified at random), [Dataset.SplitByYear] or
// [Dataset.SplitGiven].
//
// What always holds of a Dataset that Open or Drift returned: nodes are numbered
// from 0; Features, Labels and, unless nil, Year have an entry each; features are
// finite, of dimension Dim, and all sparse or all dense; labels index Classes;
// edges name nodes.
//
// Files are untrusted. No memory is allocated on the word of a header or a count
// before the bytes have been read, and a data set may take at most 64 times the size
// of its files plus 16 MiB (limits.go). An error names the file, the line, array or
// column, the value, and the remedy where there is one.
//
// Everything random is drawn from a seeded generator. Only open.go and save.go
// touch the file system; the loaders read from an [io/fs.FS].
//
// # Files
//
//	dataset.go      Dataset: neighbours, arrivals, subgraphs
//	split.go        Stream, and the splits
//	description.go  dataset.json: class names, and a given split
//	open.go         Open: which layout a path has
//	folder.go       the tables of a folder, plain or gzipped, line by line
//	csv.go          nodes.csv and edges.csv
//	ogb.go          OGB's raw layout
//	npz.go, npy.go  archives of numpy arrays
//	features.go     feature vectors while they are read: sparse or dense
//	limits.go       limits of input
//	save.go         Save: nodes.csv, edges.csv, dataset.json
//	drift.go        the generator
package dataset
