package table

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/gvbll/gvbll/gnn/dataset"
)

// Source is a data set with a split for each seed.
type Source struct {
	Name string
	// Key identifies the data and their default cut. It is part of [Result.Settings], so
	// an existing result is reused only if the key is the same.
	Key string
	// Ordered says that the stream is in the order of its nodes' times, so that what
	// happens along it is drift and growth.
	Ordered bool
	// Open returns the graph and its stream. A zero Share, Until or Steps means the
	// source's own. It is safe for concurrent use, and callers must not change what it
	// returns.
	Open func(dataset.Cut) (*dataset.Dataset, dataset.Stream, error)
}

// Of returns a data set as a source that is cut as own says, but for its seed.
func Of(d *dataset.Dataset, own dataset.Cut) Source {
	open := func(c dataset.Cut) (*dataset.Dataset, dataset.Stream, error) {
		if c.Share == 0 && c.Until == nil {
			c.Share, c.Until = own.Share, own.Until
		}
		c.Steps = cmp.Or(c.Steps, own.Steps)
		s, err := d.Cut(c)
		if err != nil {
			return nil, s, err
		}
		encoded, err := d.Encoded(s.Train)
		return encoded, s, err
	}
	content := sha256.New()
	declared, _ := json.Marshal(d.Keys)
	for _, part := range []any{declared, d.Features, d.Table, d.Labels, d.Edges, d.Marks, d.Time, d.LabelTime, d.Graphs} {
		fmt.Fprintln(content, part)
	}
	key := fmt.Sprintf("%s: %x", d.Name, content.Sum(nil))
	if _, s, err := open(dataset.Cut{}); err == nil { // or else every job fails with the error
		key += ", " + s.How
	}
	given := own.Share == 0 && own.Until == nil && d.Given != nil && d.Given.InOrder
	return Source{Name: d.Name, Key: key, Ordered: d.Time != nil || given, Open: open}
}

// Drifting returns the drifting generator as a source that generates a new graph for
// every seed. It ignores c.Seed.
func Drifting(c dataset.DriftConfig) Source {
	c.Seed = 0
	return Source{
		Name:    c.Name,
		Key:     fmt.Sprintf("%+v", c),
		Ordered: true,
		Open: func(cut dataset.Cut) (*dataset.Dataset, dataset.Stream, error) {
			c := c
			c.Seed = cut.Seed
			if cut.Share > 0 {
				c.Train = cut.Share
			}
			if cut.Steps > 0 {
				c.Steps = cut.Steps
			}
			return dataset.Drift(c)
		},
	}
}
