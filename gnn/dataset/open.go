package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Open reads a data set in one of these layouts, recognised by the files that are there:
//
//   - Tables: a folder with nodes.csv and edges.csv; or the path of a nodes.csv
//     with its edges.csv beside it, where both may have a common prefix
//     (web.nodes.csv and web.edges.csv). Either may be of one of the formats
//     instead.
//
//     The table of nodes has a header, and a line for each node: a column id (any
//     text, each once); a column label (any text, empty for a node that has none;
//     the classes are the distinct labels, ordered as numbers if all of them are,
//     else alphabetically); optionally columns time or year (a number), split
//     (train, valid, test or empty) and context (true for a node of the graph that is
//     never predicted) and label_time (when the label comes, or never); and a
//     column for each feature, in order. A table labels beside it, with the columns
//     node, class and time, may have labels and their times instead.
//     Instead, one column named features can hold them all: as lists of numbers,
//     or, for sparse features, as index:value pairs, indices ascending from 0.
//
//     The table of edges has columns source and target, and holds ids. A
//     dataset.json beside them may give a name, the order of the classes and a
//     split.
//
//   - A folder in the raw csv layout of the Open Graph Benchmark, without
//     headers: num-node-list and num-edge-list, a count each; node-feat,
//     node-label and edge, a line for each node or edge; and optionally
//     node_year or time. Classes are named by their numbers.
//
//   - Graphs that are classified as a whole: a table graphs with columns id and
//     label, and optionally time or year and split; a table nodes with columns id,
//     graph (the id of one) and a column for each feature; and a table edges with
//     columns source and target.
//
//   - An .npz file written by numpy.savez, see [readNPZ].
//
// Tables may be gzipped: .csv or .csv.gz. The data set is named after its
// folder, prefix or .npz file. Features are kept sparse if at most a quarter of
// the numbers are nonzero.
//
// Invalid contents are an error with the file and the place in it. Memory is bounded
// by the size of the files, see the package comment.
func Open(path string, formats ...Format) (*Dataset, error) {
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
	prefix, ok := tablePrefix(file, formats)
	if !ok {
		return nil, fmt.Errorf("%s: want a folder, an .npz file, or a table of nodes such as nodes.csv that has its "+
			"edges.csv beside it", path)
	}
	dir = filepath.Clean(dir)
	f, err := newFolder(os.DirFS(dir), dir, nameOf(dir, prefix), prefix, formats)
	if err != nil {
		return nil, err
	}
	switch {
	case f.has("graphs"):
		return openGraphs(f)
	case f.has("nodes"):
		return openTables(f)
	case f.has(ogbNodes):
		return openOGB(f)
	}
	return nil, fmt.Errorf("%s: neither a table of nodes (%s) nor num-node-list.csv is there: want a node table with "+
		"its edge list, or OGB's raw layout", path, "nodes"+strings.Join(f.endings(), ", nodes"))
}

// The numbers of nodes and edges in OGB's layout, which is recognised by the first.
const ogbNodes, ogbEdges = "num-node-list", "num-edge-list"

// tablePrefix returns what the name of a table of nodes begins with; a folder's is "".
func tablePrefix(file string, formats []Format) (prefix string, ok bool) {
	for _, ending := range (folder{formats: formats}).endings() {
		if prefix, ok = strings.CutSuffix(file, "nodes"+ending); ok {
			return prefix, true
		}
	}
	return "", file == ""
}

func openNPZ(path string) (*Dataset, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := regular(info); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readNPZ(file, info.Size(), strings.TrimSuffix(filepath.Base(path), ".npz"))
}

// regular returns an error for what is not a regular file: opening a pipe waits for its
// other end, and a device may have no end.
func regular(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	return nil
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
