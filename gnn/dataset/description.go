package dataset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/spelling"
)

// description is the optional file dataset.json beside the tables, for what they cannot
// express. Every field is optional.
type description struct {
	Name    string      `json:"name,omitempty"`
	Classes []string    `json:"classes,omitempty"` // in order; some may have no nodes
	Split   *splitSizes `json:"split,omitempty"`
	// LabelTime is the column of the table of nodes with the times of labels, label_time if it is not given.
	LabelTime string `json:"label_time,omitempty"`
	// Columns are the kinds of attributes by their columns.
	Columns map[string]attributes.Given `json:"columns,omitempty"`
	// Attributes are the names of attributes by their columns, where another column has the name.
	Attributes map[string]string `json:"attributes,omitempty"`
	// Keys are attributes that name an account, a merchant or the like: see [keys.Declared].
	Keys json.RawMessage `json:"keys,omitempty"`
	Dim  int             `json:"dim,omitempty"` // number of sparse features, if it is more than those that nodes have
	// Time is "any" where times of several units are no mistake.
	Time string `json:"time,omitempty"`
	// Unlabelled are the labels that stand for none. Where they are given, no others but gaps do.
	Unlabelled []string `json:"unlabelled,omitempty"`

	path   string   // of the file, without its ending
	unused []string // of Unlabelled: what no node has
}

// splitSizes is a split of nodes that are listed in order of arrival: the first Train of
// them train, the next Warmup warm up, and the others are the stream, cut into Steps
// steps.
type splitSizes struct {
	Train  int    `json:"train"`
	Warmup int    `json:"warmup"`
	Steps  int    `json:"steps"`
	How    string `json:"how,omitempty"` // how the data set was made, for people
}

// sizes returns a split of nodes in order of arrival in the form of dataset.json, or nil
// if the nodes are in no such order.
func (g *GivenSplit) sizes() *splitSizes {
	if g == nil || !g.InOrder {
		return nil
	}
	s := &splitSizes{Steps: g.Steps, How: g.How}
	for _, part := range g.Parts {
		switch part {
		case InTrain:
			s.Train++
		case inValid:
			s.Warmup++
		}
	}
	return s
}

func (f folder) description() (text description, err error) {
	file, err := f.files.Open(f.prefix + "dataset.json")
	if errors.Is(err, fs.ErrNotExist) {
		return text, nil
	}
	var b []byte
	if err == nil {
		defer file.Close()
		b, err = io.ReadAll(io.LimitReader(file, maxLine+1))
	}
	if err == nil && len(b) > maxLine {
		err = fmt.Errorf("more than %d bytes", maxLine)
	}
	// A class takes a string's header and a map's entry besides its bytes.
	if err == nil {
		err = f.memory.claim(16 * len(b))
	}
	if err == nil {
		if err = json.Unmarshal(b, &text); err != nil {
			err = spelling.Mistake(b, err, text)
		}
	}
	if err == nil {
		err = misspelt(b)
	}
	if err != nil {
		return text, fmt.Errorf("%s.json: %w", f.path("dataset"), cause(err))
	}
	text.path = f.path("dataset")
	return text, nil
}

// misspelt refuses a field that may be meant for another. What else there may be is for other programs.
func misspelt(b []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		known := []string{"name", "classes", "split", "label_time", "columns", "attributes", "keys", "dim", "time", "unlabelled"}
		if meant := spelling.Meant(name, known); meant != "" && !strings.EqualFold(name, meant) {
			return fmt.Errorf("unknown field %.40q: give %q, or another name", name, meant)
		}
	}
	return nil
}

// complete completes a data set. labels has each node's label.
func (text *description) complete(d *Dataset, labels []string) error {
	if err := text.fill(d, labels); err != nil {
		return fmt.Errorf("%s.json: %w", text.path, err)
	}
	return nil
}

func (text *description) fill(d *Dataset, labels []string) error {
	if text.Name != "" {
		d.Name = text.Name
	}
	if text.Classes != nil {
		if err := checkClasses(text.Classes); err != nil {
			return err
		}
		var unlisted string
		if d.Labels, unlisted = numberedBy(text.Classes, labels); unlisted != "" {
			return fmt.Errorf("label %.80q of the node table is not among the classes", unlisted)
		}
		d.Classes = text.Classes
	}
	if s := text.Split; s != nil {
		n := len(labels)
		if s.Train < 1 || s.Warmup < 0 || s.Steps < 1 || s.Train > n || s.Warmup > n-s.Train || s.Steps > n-s.Train-s.Warmup {
			return fmt.Errorf("a split into %d nodes that train, %d that warm up and %d steps does not fit %d nodes",
				s.Train, s.Warmup, s.Steps, n)
		}
		d.Given = inOrder(n, s.Train, s.Warmup, s.Steps, s.How)
	}
	return nil
}

// checkClasses returns an error if listed classes are too many, or two of them one.
func checkClasses(classes []string) error {
	if len(classes) > maxClasses {
		return fmt.Errorf("%d classes, want at most %d", len(classes), maxClasses)
	}
	seen := make(map[string]string, len(classes))
	for _, name := range classes {
		switch other, twice := seen[spelling.Name(name)]; {
		case twice && other == name:
			return fmt.Errorf("class %.80q is listed twice", name)
		case twice:
			return errors.New("two classes are one but for their spelling, such as 1 and 1.0")
		}
		seen[spelling.Name(name)] = name
	}
	return nil
}

// numberedBy numbers labels by the order of classes, which have the same or the one spelling, and returns one that is not among them.
func numberedBy(classes, labels []string) (y []int32, unlisted string) {
	number := make(map[string]int32, len(classes))
	for c, name := range classes {
		number[name], number[spelling.Name(name)] = int32(c), int32(c)
	}
	number[""] = Unlabelled
	for _, l := range labels {
		c, known := number[l]
		if !known {
			c, unlisted = Unlabelled, cmp.Or(unlisted, l)
		}
		y = append(y, c)
	}
	return y, unlisted
}
