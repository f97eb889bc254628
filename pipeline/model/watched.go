package model

import (
	"cmp"
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
)

// Watched returns the classes that are scored one by one: all, or where there are more than event.MaxWatched the named ones, and of the
// others the rarest of the training nodes.
func (m *Model) Watched(named ...string) (classes []int32) {
	names := m.Classes
	if len(names) > event.MaxWatched {
		names = slices.Concat(named, m.Training.Rare)
	}
	for _, name := range names {
		if c := int32(slices.Index(m.Classes, name)); c >= 0 && !slices.Contains(classes, c) && len(classes) < event.MaxWatched {
			classes = append(classes, c)
		}
	}
	slices.Sort(classes)
	return classes
}

// Foremost returns the named classes and the n rarest of those that are watched, but not the commonest of all, whose ranking bins of its
// own probability hide: of two classes, it is that of the other. All are returned if the model file does not say which are rare.
func (m *Model) Foremost(n int, named ...string) []int32 {
	classes := m.Watched()
	if len(m.Training.Labels) == len(m.Classes) {
		slices.SortStableFunc(classes, func(a, b int32) int { return cmp.Compare(m.Training.Labels[a], m.Training.Labels[b]) })
		n = min(n, max(len(m.Classes)-1, 1))
	} else if len(m.Training.Rare) > 0 {
		slices.SortStableFunc(classes, func(a, b int32) int {
			return cmp.Compare(slices.Index(m.Training.Rare, m.Classes[a]), slices.Index(m.Training.Rare, m.Classes[b]))
		})
	} else {
		n = len(classes)
	}
	var list []int32
	for _, name := range named {
		if c := int32(slices.Index(m.Classes, name)); c >= 0 {
			list = append(list, c)
		}
	}
	for _, c := range classes[:min(n, len(classes))] {
		if !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list
}

// rare returns the rarest classes of training nodes, nil if there are few classes.
func rare(d Data) []string {
	if len(d.Classes) <= event.MaxWatched {
		return nil
	}
	counts := countLabels(d)
	order := make([]int, len(counts))
	for c := range order {
		order[c] = c
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(counts[a], counts[b]) })
	names := make([]string, event.MaxWatched)
	for i := range names {
		names[i] = d.Classes[order[i]]
	}
	return names
}

// countLabels returns the numbers of training nodes by class.
func countLabels(d Data) []int {
	counts := make([]int, len(d.Classes))
	for _, y := range d.Labels {
		counts[y]++
	}
	return counts
}

// Shares returns the shares of the classes among the training nodes, nil if they are not known.
func (m *Model) Shares() []float64 {
	all := 0.0
	for _, n := range m.Training.Labels {
		all += float64(max(n, 0))
	}
	if all == 0 || len(m.Training.Labels) != len(m.Classes) {
		return nil
	}
	shares := make([]float64, len(m.Classes))
	for c, n := range m.Training.Labels {
		shares[c] = float64(max(n, 0)) / all
	}
	return shares
}
