package backtest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/gnn/spelling"
)

// Own is somebody's own probabilities, from a table in csv: a column node, and one for each class with its name, or of
// two classes one alone.
type Own struct {
	Name  string
	Probs []float64 // nodes × classes
	Has   []bool    // by node
	Lacks int       // nodes of the stream with a label that it does not have
}

// mostOff is by how much probabilities may miss 1, as rounded ones do.
const mostOff = 0.01

// ReadOwns reads such tables of nodes of a data set. Each is a system with the name of its file.
func ReadOwns(paths []string, set *flags.DataSet) (all []*Own, err error) {
	taken := []string{Served, Majority, logistic}
	for _, path := range paths {
		own, err := readOwn(path, set)
		if err != nil {
			return nil, err
		}
		if slices.Contains(taken, own.Name) {
			return nil, fmt.Errorf("two systems are called %s: rename one of the files", own.Name)
		}
		all, taken = append(all, own), append(taken, own.Name)
	}
	return all, nil
}

func readOwn(path string, set *flags.DataSet) (*Own, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	classes := len(set.Classes)
	own := &Own{Name: filepath.Base(path), Probs: make([]float64, len(set.Labels)*classes), Has: make([]bool, len(set.Labels))}
	number := make(map[string]int32, len(set.Labels))
	for v := range set.Labels {
		number[set.IDs.String(int32(v))] = int32(v)
	}
	id, class, names := -1, []int(nil), []string(nil)
	err = dataset.ReadCSV(file, path, func(fields []string) error {
		names = fields
		for i, name := range fields {
			c := slices.IndexFunc(set.Classes, func(c string) bool { return spelling.Name(c) == spelling.Name(name) })
			if name == "node" || name == "id" {
				id, c = i, -1
			} else if c < 0 {
				return fmt.Errorf("column %.40q is no class of the data, which are %.200q: give a column node, and one "+
					"for each class", name, set.Classes)
			}
			class = append(class, c)
		}
		if n := len(fields) - 1; id < 0 || n != classes && (classes != 2 || n != 1) {
			return fmt.Errorf("the header is %.200q: give a column node, and one for each class (%.200q)",
				strings.Join(fields, ","), set.Classes)
		}
		return nil
	}, func(fields []string) error {
		v, known := number[fields[id]]
		if !known {
			return fmt.Errorf("node %.80q is not in the data", fields[id])
		}
		if own.Has[v] {
			return fmt.Errorf("node %.80q is there twice", fields[id])
		}
		row, sum := own.Probs[int(v)*classes:(int(v)+1)*classes], 0.0
		for i, c := range class {
			if i == id {
				continue
			}
			p, ok := spelling.Number(fields[i])
			if !ok || !(p >= 0 && p <= 1) {
				return fmt.Errorf("node %.80q, column %.40q: %.40q is no probability: give a number from 0 to 1",
					fields[id], names[i], fields[i])
			}
			row[c], sum = p, sum+p
			if len(fields) == 2 {
				row[1-c], sum = 1-p, 1
			}
		}
		if math.Abs(sum-1) > mostOff {
			return fmt.Errorf("node %.80q: its probabilities add up to %.3g: give those of all classes, which add up to 1", fields[id], sum)
		}
		for c := range row {
			row[c] /= sum
		}
		own.Has[v] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	found := 0
	for _, step := range set.Split.Steps {
		for _, v := range step {
			if set.Labels[v] == dataset.Unlabelled {
				continue
			}
			if own.Has[v] {
				found++
			} else {
				own.Lacks++
			}
		}
	}
	if found == 0 {
		return nil, fmt.Errorf("%s has none of the %d nodes of the stream that have a label: score those from the end "+
			"of the training on (%s)",
			path, own.Lacks, set.Split.How)
	}
	return own, nil
}
