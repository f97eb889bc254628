package dataset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Open reads a data set in one of four layouts, which it tells apart by what is
// there:
//
//   - a folder in the raw csv layout of the Open Graph Benchmark: node-feat,
//     node-label, edge, num-node-list and num-edge-list (.csv.gz or .csv), and
//     node_year where it is there. Classes are named by their numbers.
//   - a folder with nodes.csv and edges.csv (or .csv.gz). nodes.csv has a header
//     and a line for each node: a column id (any text, each once), a column label
//     (any text; the classes are the distinct labels, in order of their numbers if
//     all are numbers and of the alphabet if not), a column year if there are
//     years, and a column for each feature, in order; or, for sparse features, one
//     column features that holds index:value pairs with spaces between, indices
//     ascending from 0. edges.csv has a header, columns source and target, and
//     holds ids.
//   - an .npz file as numpy.savez writes it of PyTorch Geometric's data: x, n×d
//     numbers, edge_index, 2×e integers, y, n integers, and node_year, n integers,
//     where it is there. Other arrays are passed over.
//   - an .npz file with sparse matrices as their parts: adj_indices, adj_indptr and
//     adj_shape; attr_data, attr_indices, attr_indptr and attr_shape; labels.
//
// Features are kept sparse if at most a quarter of the numbers are not zero. A
// file that does not hold what it should is an error that says where.
func Open(path string) (*Dataset, error) {
	if strings.HasSuffix(path, ".npz") {
		return openNPZ(path)
	}
	for _, name := range []string{"nodes.csv", "nodes.csv.gz"} {
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			return openCSV(path)
		} else if !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "not a directory") {
			return nil, err
		}
	}
	return openOGB(path)
}
