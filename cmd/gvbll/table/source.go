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
// knows ([dataset.Plan]); any other then has 50 steps and a tenth for training, or
// is cut by year if it has years.
func Of(d *dataset.Dataset, share float64, steps int) Source {
	byYear := d.Year != nil && share == 0
	usualShare, usualSteps, known := dataset.Plan(d.Name)
	if !known {
		usualShare, usualSteps = 0.10, 50
	}
	if share == 0 {
		share = usualShare
	}
	if steps == 0 {
		steps = usualSteps
	}
	return Source{
		Name: d.Name,
		Key:  fmt.Sprintf("%s: %d nodes, %d edges, by year %t, share %g, %d steps", d.Name, len(d.Features), len(d.Edges), byYear, share, steps),
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
			if c.Share == 0 && byYear {
				s, err = d.SplitByYear(n)
			} else {
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
