package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// openOGB reads a folder in the raw csv layout of the Open Graph Benchmark.
func openOGB(f folder) (*Dataset, error) {
	d := &Dataset{Name: f.name}
	counts := make(map[string]int)
	for _, list := range []struct {
		name      string
		low, high int
	}{{ogbNodes, 1, maxNodes}, {ogbEdges, 0, maxEdges}} {
		n, err := f.count(list.name, list.low, list.high)
		if err != nil {
			return nil, err
		}
		counts[list.name] = n
	}
	// rows calls row for each line of a table that has as many as the list says.
	rows := func(name, list string, row func(line string) error) error {
		lines, n := 0, counts[list]
		err := f.lines(name, func(line []byte, number int) error {
			if lines = number; number > n {
				return fmt.Errorf("more lines than the %d of %s", n, list)
			}
			return row(string(line))
		})
		if err == nil && lines != n {
			err = fmt.Errorf("%s: %s has %d lines, %s says %d", f.dir, name, lines, list, n)
		}
		return err
	}
	all := features{memory: f.memory}
	var row []float32
	err := rows("node-feat", ogbNodes, func(line string) (err error) {
		if row, err = addFeatures(row[:0], line); err != nil {
			return err
		}
		if len(all.x) == 0 {
			d.Dim = len(row)
		}
		if len(row) != d.Dim {
			return fmt.Errorf("%d features, the first line has %d", len(row), d.Dim)
		}
		return all.add(row)
	})
	if err != nil {
		return nil, err
	}
	if d.Features, d.Sparse, err = all.finish(d.Dim); err != nil {
		return nil, fmt.Errorf("%s: %w", f.path("node-feat"), err)
	}
	// Labels are integers from 0; -1, nan or nothing for none.
	if err := rows("node-label", ogbNodes, func(line string) (err error) {
		y := Unlabelled
		if line != "" && !strings.EqualFold(line, "nan") {
			y, err = parseInt(line, Unlabelled, maxClasses-1)
		}
		d.Labels = append(d.Labels, int32(y))
		return err
	}); err != nil {
		return nil, err
	}
	d.Classes = numbered(d.Labels)
	if err := rows("edge", ogbEdges, func(line string) error {
		source, target, ok := strings.Cut(line, ",")
		if !ok {
			return fmt.Errorf("%.40q, want source,target", line)
		}
		u, err := parseInt(source, 0, len(d.Labels)-1)
		v, wrong := parseInt(target, 0, len(d.Labels)-1)
		d.Edges = append(d.Edges, [2]int32{int32(u), int32(v)})
		return errors.Join(cmp.Or(err, wrong), f.memory.claim(edgeBytes))
	}); err != nil {
		return nil, err
	}
	for _, name := range []string{"node_year", "time"} {
		if f.has(name) && d.Time == nil {
			if err := rows(name, ogbNodes, func(line string) error {
				at, _, err := parseTime(line)
				d.Time = append(d.Time, at)
				return err
			}); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// count reads a table that holds one integer from low to high.
func (f folder) count(name string, low, high int) (int, error) {
	n := -1
	err := f.lines(name, func(line []byte, number int) (err error) {
		if number > 1 {
			return errors.New("one line with one count is expected")
		}
		n, err = parseInt(string(line), low, high)
		return err
	})
	if err == nil && n < 0 {
		err = fmt.Errorf("%s holds no count", f.path(name))
	}
	return n, err
}

// parseInt reads an integer from low to high. OGB writes some as floats: 3.0.
func parseInt(text string, low, high int) (int, error) {
	s := strings.TrimSpace(text)
	v, err := strconv.Atoi(s)
	if err != nil {
		f, ferr := strconv.ParseFloat(s, 64)
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1e15 { // up to 2⁵³ ≈ 9e15 floats are exact integers
			return 0, fmt.Errorf("%.40q is not an integer", s)
		}
		v = int(f)
	}
	if v < low || v > high {
		return 0, fmt.Errorf("%d is not between %d and %d", v, low, high)
	}
	return v, nil
}

// numbered names classes by their numbers, up to the largest label.
func numbered(labels []int32) (classes []string) {
	top := int32(-1)
	for _, y := range labels {
		top = max(top, y)
	}
	for c := range top + 1 {
		classes = append(classes, strconv.Itoa(int(c)))
	}
	return classes
}
