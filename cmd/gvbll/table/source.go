package table

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/dataset"
)

// Source is a data set with a split for each seed.
type Source struct {
	Name string
	// Key identifies the data and their default cut. It is part of [Result.Settings], so
	// an existing result is reused only if the key is the same.
	Key string
	// Open returns the graph and its stream. It is safe for concurrent use, and
	// callers must not change what it returns.
	Open func(Cut) (*dataset.Dataset, dataset.Stream, error)
}

// Cut configures how a data set is divided into training nodes and steps. A zero Share or
// Steps means the source's own.
type Cut struct {
	Seed  uint64
	Share float64 // of the nodes, for training
	Steps int
}

// Of returns a data set as a source with the given share of training nodes and number of
// steps. Zeros mean the paper's numbers if it uses the data set ([dataset.Plan]), and
// otherwise 0.1 and 50. With share 0, a data set with a split of its own uses that, and
// one whose nodes have years is split by year.
func Of(d *dataset.Dataset, share float64, steps int) Source {
	given := d.Given != nil && share == 0
	byYear := d.Year != nil && share == 0 && !given
	usualShare, usualSteps, known := dataset.Plan(d.Name)
	if !known {
		usualShare, usualSteps = 0.10, 50
	}
	if share == 0 {
		share = usualShare
	}
	switch {
	case steps > 0:
	case given:
		steps = d.Given.Steps
	default:
		steps = usualSteps
	}
	key := fmt.Sprintf("%s: %d nodes, %d edges, by year %t, share %g, %d steps", d.Name, len(d.Features), len(d.Edges), byYear, share, steps)
	if given {
		key = fmt.Sprintf("%s: %d nodes, %d edges, %s, %d steps", d.Name, len(d.Features), len(d.Edges), d.Given.How, steps)
	}
	return Source{
		Name: d.Name,
		Key:  key,
		Open: func(c Cut) (*dataset.Dataset, dataset.Stream, error) {
			part, n := share, steps
			if c.Share > 0 {
				part = c.Share
			}
			if c.Steps > 0 {
				n = c.Steps
			}
			var s dataset.Stream
			var err error
			switch {
			case c.Share == 0 && given:
				s, err = d.SplitGiven(n)
			case c.Share == 0 && byYear:
				s, err = d.SplitByYear(n)
			default:
				s, err = d.Split(c.Seed, part, n)
			}
			return d, s, err
		},
	}
}

// Drifting returns the drifting generator as a source that generates a new graph for
// every seed. It ignores c.Seed.
func Drifting(c dataset.DriftConfig) Source {
	c.Seed = 0
	return Source{
		Name: c.Name,
		Key:  fmt.Sprintf("%+v", c),
		Open: func(cut Cut) (*dataset.Dataset, dataset.Stream, error) {
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
