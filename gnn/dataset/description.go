package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// GivenSplit is the split that comes with a data set whose nodes are numbered in order
// of arrival: the first Train of them train, the next Warmup warm up, and the
// others are the stream, cut into Steps steps whose sizes differ by at most
// one.
type GivenSplit struct {
	Train  int    `json:"train"`
	Warmup int    `json:"warmup"`
	Steps  int    `json:"steps"`
	How    string `json:"how,omitempty"` // how the data set was made, for people
}

// SplitGiven returns the split that comes with the data set, cut into the given number
// of steps, or for 0 into Given.Steps. It returns an error if there is none.
func (d *Dataset) SplitGiven(steps int) (Stream, error) {
	if d.Given == nil {
		return Stream{}, errors.New("the data set comes without a split (dataset.json): give a training share instead")
	}
	if steps == 0 {
		steps = d.Given.Steps
	}
	nodes := make([]int32, len(d.Labels))
	for v := range nodes {
		nodes[v] = int32(v)
	}
	s := Stream{Train: nodes[:d.Given.Train]}
	nodes = nodes[d.Given.Train:]
	s.Warmup = nodes[:d.Given.Warmup]
	var err error
	s.Steps, err = cut(nodes[d.Given.Warmup:], steps)
	return s, err
}

// description is the optional file dataset.json beside nodes.csv, for what the tables
// cannot express. Every field is optional.
type description struct {
	Name    string      `json:"name,omitempty"`
	Classes []string    `json:"classes,omitempty"` // in order; some may have no nodes
	Split   *GivenSplit `json:"split,omitempty"`
}

// describe completes a data set from its dataset.json, if there is one. labels has
// each node's label.
func (f folder) describe(d *Dataset, labels []string) error {
	path := f.path("dataset") + ".json"
	file, err := f.files.Open(f.prefix + "dataset.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("%s: %w", path, cause(err))
	}
	defer file.Close()
	if err := f.readDescription(file, d, labels); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (f folder) readDescription(r io.Reader, d *Dataset, labels []string) error {
	b, err := io.ReadAll(io.LimitReader(r, maxLine+1))
	if err != nil {
		return err
	}
	if len(b) > maxLine {
		return fmt.Errorf("more than %d bytes", maxLine)
	}
	// A class takes a string's header and a map's entry besides its bytes.
	if err := f.memory.claim(16 * len(b)); err != nil {
		return err
	}
	var text description
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	if text.Name != "" {
		d.Name = text.Name
	}
	if text.Classes != nil {
		if d.Classes, d.Labels, err = numberedBy(text.Classes, labels); err != nil {
			return err
		}
	}
	if s := text.Split; s != nil {
		n := len(labels)
		if s.Train < 1 || s.Warmup < 0 || s.Steps < 1 || s.Train > n || s.Warmup > n-s.Train || s.Steps > n-s.Train-s.Warmup {
			return fmt.Errorf("a split into %d nodes that train, %d that warm up and %d steps does not fit %d nodes", s.Train, s.Warmup, s.Steps, n)
		}
		d.Given = s
	}
	return nil
}

// numberedBy numbers the labels by the order of the listed classes.
func numberedBy(classes, labels []string) ([]string, []int32, error) {
	if len(classes) > maxClasses {
		return nil, nil, fmt.Errorf("%d classes, want at most %d", len(classes), maxClasses)
	}
	number := make(map[string]int32, len(classes))
	for c, name := range classes {
		number[name] = int32(c)
	}
	if len(number) < len(classes) {
		sorted := slices.Sorted(slices.Values(classes))
		for i, name := range sorted[1:] {
			if name == sorted[i] {
				return nil, nil, fmt.Errorf("class %.80q is listed twice", name)
			}
		}
	}
	y := make([]int32, len(labels))
	for v, l := range labels {
		c, known := number[l]
		if !known {
			return nil, nil, fmt.Errorf("label %.80q of nodes.csv is not among the classes", l)
		}
		y[v] = c
	}
	return classes, y, nil
}
