package table

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/dataset"
)

// Source is a data set that can be cut by many seeds.
type Source struct {
	Name string
	// Key tells the data and their usual cut from others: results are taken up
	// again only where it is the same.
	Key string
	// Open returns the graph and its stream. Several goroutines may call it at
	// once; what it returns is only read.
	Open func(Cut) (*dataset.Dataset, dataset.Stream, error)
}

// Cut says how a data set is divided into training nodes and steps. Share and
// Steps are 0 for what is usual for the data set.
type Cut struct {
	Seed  uint64
	Share float64 // of the nodes, for training
	Steps int
}

// Of returns a data set as a source, with the given share of the nodes for
// training and so many steps. Zeros follow the paper for the data sets that it
// knows ([dataset.Plan]); any other then keeps its own split if it has one, is cut by
// year if it has years, or else has 50 steps and a tenth for training.
func Of(d *dataset.Dataset, share float64, steps int) Source {
	own := d.Own != nil && share == 0
	byYear := d.Year != nil && share == 0 && !own
	usualShare, usualSteps, known := dataset.Plan(d.Name)
	if !known {
		usualShare, usualSteps = 0.10, 50
	}
	if share == 0 {
		share = usualShare
	}
	switch {
	case steps > 0:
	case own:
		steps = d.Own.Steps
	default:
		steps = usualSteps
	}
	key := fmt.Sprintf("%s: %d nodes, %d edges, by year %t, share %g, %d steps", d.Name, len(d.Features), len(d.Edges), byYear, share, steps)
	if own {
		key = fmt.Sprintf("%s: %d nodes, %d edges, %s, %d steps", d.Name, len(d.Features), len(d.Edges), d.Own.How, steps)
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
			case c.Share == 0 && own:
				s, err = d.SplitOwn(n)
			case c.Share == 0 && byYear:
				s, err = d.SplitByYear(n)
			default:
				s, err = d.Split(c.Seed, part, n)
			}
			return d, s, err
		},
	}
}

// Drifting returns the drifting generator as a source: another graph for every
// seed. c.Seed is not read.
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
