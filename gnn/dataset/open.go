package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Open reads a data set in one of four layouts, which it tells apart by what is
// there:
//
//   - a folder in the raw csv layout of the Open Graph Benchmark, without headers:
//     num-node-list and num-edge-list, a count each; node-feat, node-label and
//     edge, a line for each node or edge; and node_year where there are years.
//     Classes are named by their numbers.
//   - a folder with nodes.csv and edges.csv, or the path of a nodes.csv that has
//     its edges.csv beside it, where both may have a prefix (web.nodes.csv and
//     web.edges.csv). nodes.csv has a header and a line for each node: a column id
//     (any text, each once), a column label (any text; the classes are the
//     distinct labels, in order of their numbers if all are numbers and of the
//     alphabet if not), a column year if there are years, and a column for each
//     feature, in order; or, for sparse features, one column features that holds
//     index:value pairs with spaces between, indices ascending from 0. edges.csv
//     has a header with columns source and target, and holds ids. A dataset.json
//     beside them may give the data set's name, the classes in their order, and a
//     split of its own ([Own]).
//   - an .npz file as numpy.savez writes it of PyTorch Geometric's data: x, n×d
//     numbers; edge_index, 2×e integers; y, n integers from 0; and node_year, n
//     integers, where it is there. Other arrays are passed over.
//   - an .npz file with the parts of scipy's sparse matrices, as the "gnn-benchmark"
//     graphs are given: adj_data, adj_indices, adj_indptr and adj_shape; attr_data,
//     attr_indices, attr_indptr and attr_shape; labels, n integers from 0.
//
// Tables may be packed: .csv or .csv.gz. The data set has the name of its folder,
// prefix or .npz, unless dataset.json gives another. Features are kept sparse if at most a quarter of the numbers are
// not zero.
//
// A file that does not hold what it should is an error that says where. Nothing
// that a file claims takes memory before it is there, and all that is there may
// take 64 times the size of the files and 16 MiB.
func Open(path string) (*Dataset, error) {
	if strings.HasSuffix(path, ".npz") {
		return openNPZ(path)
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
	f, err := newFolder(filepath.Clean(dir), prefix)
	switch {
	case err != nil:
		return nil, err
	case f.has("nodes"):
		return openCSV(f)
	case f.has("num-node-list"):
		return openOGB(f)
	}
	return nil, fmt.Errorf("%s: neither nodes.csv nor num-node-list.csv is there, packed (.gz) or not: want a node table with its edge list, or OGB's raw layout", path)
}
