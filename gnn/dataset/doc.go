// Package dataset reads, writes and generates graphs of which some or all nodes have
// labels, and cuts them into training nodes and the steps of a stream.
//
// [Open] reads tables with headers, OGB's raw csv and PyTorch Geometric's arrays in
// an .npz, [Drift] generates graphs whose classes, features and homophily drift. Both
// give a [Dataset], and [Dataset.Cut] makes a [Stream] of it.
//
// What always holds of a Dataset that Open or Drift returned: nodes are numbered
// from 0; Features, Labels and, unless nil, Time and Context have an entry each; ids are
// distinct; features are finite, of dimension Dim, and all sparse or all dense;
// labels index Classes, or are [Unlabelled]; edges name nodes.
//
// Files are untrusted. No memory is allocated on the word of a header or a count
// before the bytes have been read, and a data set may take at most 64 times the size
// of its files plus 16 MiB (limits.go). An error names the file, the line, array or
// column, the value, and the remedy where there is one.
//
// Everything random is drawn from a seeded generator. Only open.go and save.go
// touch the file system; the loaders read from an [io/fs.FS].
package dataset
