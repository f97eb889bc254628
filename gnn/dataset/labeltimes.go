package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/gvbll/gvbll/gnn/spelling"
)

// Never is the label time of a node whose label never comes: it is scored and not learned.
var Never = math.Inf(1)

var errNoTimes = errors.New("the nodes have no times (node_year, or a column time): give a training share instead")

// labelTable reads a table of labels apart from the nodes, labels or label_times: a node's id, and
// the time at which its label comes, its class, or both.
type labelTable struct {
	memory        *budget
	number        map[string]int32
	id, class, at int       // columns, -1 where there is none
	labels        []string  // by node, "" for none
	times         []float64 // by node, NaN for none
	seen          []bool    // by node
}

// namesOfLabels are the tables that a labelTable may have.
var namesOfLabels = []string{"labels", "label_times"}

// placeOf returns the first of the columns that is there, -1 if none is.
func placeOf(fields []string, names ...string) int {
	for _, name := range names {
		if at := slices.Index(fields, name); at >= 0 {
			return at
		}
	}
	return -1
}

func (t *labelTable) header(fields []string) error {
	t.id, t.class = placeOf(fields, "id", "node"), placeOf(fields, "class", "label")
	t.at = placeOf(fields, "label_time", "time")
	if t.id < 0 || t.class < 0 && t.at < 0 {
		return fmt.Errorf("the header is %.80q, want columns node and time, or node, class and time", strings.Join(fields, ","))
	}
	return unique(fields)
}

func (t *labelTable) row(fields []string) error {
	v, known := t.number[keyOf(fields[t.id])]
	switch {
	case !known:
		return fmt.Errorf("node %.80q is not in the table of nodes", fields[t.id])
	case t.seen[v]:
		return fmt.Errorf("node %.80q has a label already: give each node one", fields[t.id])
	}
	t.seen[v] = true
	if t.class >= 0 {
		if err := t.memory.claim(len(fields[t.class])); err != nil {
			return err
		}
		t.labels[v] = strings.Clone(fields[t.class])
	}
	if t.at < 0 {
		return nil
	}
	var err error
	if t.times[v], err = parseLabelTime(fields[t.at]); err != nil {
		return fmt.Errorf("the time of the label of node %.80q: %w", fields[t.id], err)
	}
	return nil
}

// parseLabelTime reads the time of a label, NaN for none, or the word never.
func parseLabelTime(text string) (float64, error) {
	if text == "" {
		return math.NaN(), nil
	}
	if strings.EqualFold(text, "never") {
		return Never, nil
	}
	at, _, err := parseTime(text)
	if err != nil {
		err = fmt.Errorf("%w, or never", err)
	}
	return at, err
}

// readLabels reads the table of labels, if there is one, into the columns of n that it has.
func (f folder) readLabels(n *nodeTable) error {
	for _, name := range namesOfLabels {
		if !f.has(name) {
			continue
		}
		if err := n.memory.claim(25 * len(n.ids)); err != nil {
			return err
		}
		t := labelTable{
			memory: n.memory, number: n.number, labels: make([]string, len(n.ids)),
			times: slices.Repeat([]float64{math.NaN()}, len(n.ids)), seen: make([]bool, len(n.ids)),
		}
		if err := f.records(name, t.header, t.row); err != nil {
			return err
		}
		if err := n.takeLabels(&t); err != nil {
			return fmt.Errorf("%s: %w", f.path(name), err)
		}
	}
	if n.label < 0 && !slices.ContainsFunc(n.labels, func(l string) bool { return l != "" }) {
		return fmt.Errorf("%s has no column label, and no table labels has classes: give one of them", f.path("nodes"))
	}
	return nil
}

// takeLabels takes over what a table of labels has and the table of nodes lacks.
func (t *nodeTable) takeLabels(from *labelTable) error {
	if from.class >= 0 && t.label >= 0 {
		return errors.New("classes, and a column label in the table of nodes: keep one of them")
	}
	if from.at >= 0 && t.labelTimes != nil {
		return errors.New("times, and label times beside it: keep one of them")
	}
	if from.class >= 0 {
		t.labels = from.labels
	}
	if from.at >= 0 {
		t.labelTimes = from.times
	}
	return nil
}

// setLabelTimes gives d the times of labels: each label has one, in the unit of the nodes' times.
func (d *Dataset) setLabelTimes(times []float64) error {
	if times == nil {
		return nil
	}
	if d.Time == nil {
		return errors.New("labels have times, and nodes have none: give these a column time")
	}
	before, labelled := 0, d.Labelled()
	for v, y := range d.Labels {
		if y != Unlabelled && math.IsNaN(times[v]) {
			return fmt.Errorf("row %d: the label of node %.80q has no time: give one, or never for one that is only scored", v+1,
				d.IDs.String(int32(v)))
		}
		if times[v] < d.Time[v] {
			if before++; 2*before > labelled {
				return fmt.Errorf("the label of node %.80q comes at %s, before the node at %s, as do more than half: give both times in "+
					"one unit", d.IDs.String(int32(v)), formatTime(times[v]), formatTime(d.Time[v]))
			}
			times[v] = d.Time[v]
		}
	}
	if before > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("%d labels come before their nodes, and are taken to come with them", before))
	}
	d.LabelTime = times
	return nil
}

// formatLabelTime returns the text that [parseLabelTime] reads.
func formatLabelTime(at float64) string {
	if at == Never {
		return "never"
	}
	if math.IsNaN(at) {
		return ""
	}
	return formatTime(at)
}

// unit returns the milliseconds of a unit of the nodes' times: not ok of years and other numbers.
func (d *Dataset) unit() (ms float64, ok bool) {
	if d.Time == nil {
		return 0, false
	}
	name := spelling.UnitOf(math.Trunc(slices.Max(d.Time)))
	one, _ := spelling.Unit(name)
	return one.Seconds() * 1000, name != ""
}

// ParseTime reads a time as the nodes have it: a number in their unit, or a date.
func (d *Dataset) ParseTime(text string) (float64, error) {
	at, isDate, err := parseTime(text)
	switch {
	case d.Time == nil:
		return 0, errNoTimes
	case err != nil:
		return 0, err
	case isDate:
		ms, ok := d.unit()
		if !ok {
			return 0, fmt.Errorf("%.40q is a date, and times go from %v to %v: give one of these", text,
				slices.Min(d.Time), slices.Max(d.Time))
		}
		at /= ms
	}
	return at, nil
}

// FormatTime returns a time for people: a date where it can be one.
func (d *Dataset) FormatTime(at float64) string {
	if ms, ok := d.unit(); ok && !math.IsInf(at, 0) {
		return spelling.FormatMillis(int64(at * ms))
	}
	return formatTime(at)
}

// DelayLabels has every label come so many milliseconds after its node, in place of its own time. One that never
// comes still does not.
func (d *Dataset) DelayLabels(by float64) error {
	ms, ok := d.unit()
	if !ok {
		return errors.New("the nodes have no times with a unit (a column time, with dates or milliseconds since 1970): " +
			"give a number of steps")
	}
	own := d.LabelTime
	d.LabelTime = make([]float64, len(d.Time))
	for v, at := range d.Time {
		switch {
		case d.Labels[v] == Unlabelled:
			d.LabelTime[v] = math.NaN()
		case own != nil && own[v] == Never:
			d.LabelTime[v] = Never
		default:
			d.LabelTime[v] = at + by/ms
		}
	}
	return nil
}

// Due returns the nodes whose labels come: before the stream, after each step, and what is left at its end. With times,
// a label comes before the first step whose first node is later than it, once its node has come; by the end of the stream if
// it is not later than the last node; those that never come are left out. Without, labels come late steps after their nodes.
func (d *Dataset) Due(s Stream, late int) [][]int32 {
	n := len(s.Steps)
	due := make([][]int32, n+2)
	late = min(late, n)
	add := func(after int, nodes []int32) {
		for _, v := range nodes {
			at := after
			switch {
			case d.Labels[v] == Unlabelled || d.LabelTime != nil && d.LabelTime[v] == Never:
				continue
			case d.LabelTime != nil:
				at += sort.Search(n-after, func(i int) bool { return d.LabelTime[v] <= d.Time[s.Steps[after+i][0]] })
				if at == n && n > 0 && d.LabelTime[v] > d.Time[s.Steps[n-1][len(s.Steps[n-1])-1]] {
					at++
				}
			case after > 0:
				at = min(after+late, n+1)
			}
			due[at] = append(due[at], v)
		}
	}
	due[0] = append(due[0], s.Train...) // whose labels are known
	add(0, s.Warmup)
	for t, step := range s.Steps {
		add(t+1, step)
	}
	if d.LabelTime != nil {
		for _, nodes := range due[1:] {
			slices.SortStableFunc(nodes, func(a, b int32) int { return cmp.Compare(d.LabelTime[a], d.LabelTime[b]) })
		}
	}
	return due
}
