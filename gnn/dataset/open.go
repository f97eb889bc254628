package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Open reads a data set in one of four layouts, recognised by the files that are there:
//
//   - A folder with nodes.csv and edges.csv; or the path of a nodes.csv with
//     its edges.csv beside it, where both may have a common prefix
//     (web.nodes.csv and web.edges.csv). nodes.csv has a header, and a line for
//     each node: a column id (any text, each once); a column label (any text;
//     the classes are the distinct labels, ordered as numbers if all of them
//     are, else alphabetically); optionally a column year; and a column for
//     each feature, in order. Sparse features are instead one column named
//     features with index:value pairs separated by spaces, indices ascending
//     from 0. edges.csv has a header with columns source and target, and holds
//     ids. A dataset.json beside them may give a name, the order of the classes
//     and a split, see [Dataset.SplitGiven].
//   - A folder in the raw csv layout of the Open Graph Benchmark, without
//     headers: num-node-list and num-edge-list, a count each; node-feat,
//     node-label and edge, a line for each node or edge; and optionally
//     node_year. Classes are named by their numbers.
//   - An .npz file written by numpy.savez from PyTorch Geometric's data: x, n×d
//     numbers; edge_index, 2×e integers; y, n integers from 0; and optionally
//     node_year, n integers. Other arrays are ignored.
//   - An .npz file with the parts of scipy's sparse matrices, as the
//     "gnn-benchmark" graphs are published: adj_data, adj_indices, adj_indptr
//     and adj_shape; attr_data, attr_indices, attr_indptr and attr_shape;
//     labels, n integers from 0; and optionally node_year.
//
// Tables may be gzipped: .csv or .csv.gz. The data set is named after its
// folder, prefix or .npz file. Features are kept sparse if at most a quarter of
// the numbers are nonzero.
//
// Invalid contents are an error with the file and the place in it. Memory is bounded
// by the size of the files, see the package comment.
func Open(path string) (*Dataset, error) {
	if strings.HasSuffix(path, ".npz") {
		d, err := openNPZ(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, cause(err))
		}
		return d, nil
	}
	dir, file := path, ""
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%s: %w", path, cause(err))
	} else if !info.IsDir() {
		dir, file = filepath.Split(path)
	}
	prefix, ok := strings.CutSuffix(strings.TrimSuffix(file, ".gz"), "nodes.csv")
	if file != "" && !ok {
		return nil, fmt.Errorf("%s: want a folder, an .npz file, or a nodes.csv that has its edges.csv beside it", path)
	}
	dir = filepath.Clean(dir)
	f, err := newFolder(os.DirFS(dir), dir, nameOf(dir, prefix), prefix)
	switch {
	case err != nil:
		return nil, err
	case f.has("nodes"):
		return openCSV(f)
	case f.has("num-node-list"):
		return openOGB(f)
	}
	return nil, fmt.Errorf("%s: neither nodes.csv nor num-node-list.csv is there, gzipped (.gz) or not: want a node table with its edge list, or OGB's raw layout", path)
}

// openNPZ opens an archive of numpy arrays.
func openNPZ(path string) (*Dataset, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return readNPZ(file, info.Size(), strings.TrimSuffix(filepath.Base(path), ".npz"))
}

// nameOf names a data set after its tables' prefix, or their folder, or the
// folder's parent where the folder is OGB's "raw".
func nameOf(dir, prefix string) string {
	if name := strings.TrimRight(prefix, "-_. "); name != "" {
		return name
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if filepath.Base(dir) == "raw" {
		dir = filepath.Dir(dir)
	}
	return filepath.Base(dir)
}
