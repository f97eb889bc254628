// Package keys makes of the events of one account, merchant or device the edges between them and
// their velocity: what a feature store would. Which keys there are is [Declared]: it stands in
// dataset.json, in the file of a map and in the schema of a model. A [State] gives an event its
// attributes and edges, the same in training and in a stream.
package keys

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/spelling"
)

// Declared has the keys of events, by the attribute that names the key. It is immutable.
type Declared map[string]Key

// Key says what is made of the events of one key.
type Key struct {
	Link     *Link    `json:"link,omitempty"`     // edges to the events before, nil for none
	Velocity Spans    `json:"velocity,omitempty"` // spans of what is counted
	Amounts  []string `json:"amounts,omitempty"`  // attributes that are summed, too
	Distinct []string `json:"distinct,omitempty"` // attributes of which the different values are counted
	Labels   string   `json:"labels,omitempty"`   // the class whose share of the labels that came is told
	Max      int      `json:"max,omitempty"`      // of keys that are kept; 0 for defaultMax
}

// Link says to which events of the same key an event has an edge.
type Link struct {
	Last     int    `json:"last"`               // as many before it
	Within   Span   `json:"within,omitempty"`   // if they are not older than that; "" for any age
	Kind     string `json:"kind,omitempty"`     // of the edges
	Directed bool   `json:"directed,omitempty"` // of a kind: from the event to the older one
}

// Span is a time as text, such as 30d, in d, h, m, s or ms, or All.
type Span string

// All is the span of everything that came.
const All Span = "all"

// Spans are several of them. In JSON, true is [All].
type Spans []Span

// UnmarshalJSON implements json.Unmarshaler.
func (s *Spans) UnmarshalJSON(b []byte) error {
	var all bool
	if json.Unmarshal(b, &all) == nil {
		if *s = nil; all {
			*s = Spans{All}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]Span)(s))
}

// Bounds of a declaration. Those of keys are of the memory that each takes.
const (
	mostKeys    = 16
	mostLast    = 16
	mostSpans   = 8
	mostOthers  = 8 // amounts, and likewise attributes of which different values are counted
	mostColumns = 256
	defaultMax  = 1 << 20
	largestMax  = 1 << 30
)

// Parse reads a declaration in JSON, nil if there are no keys. The error is one line with the remedy.
func Parse(text []byte) (d Declared, err error) {
	if text == nil {
		return nil, nil
	}
	r := json.NewDecoder(bytes.NewReader(text))
	r.DisallowUnknownFields()
	if err := r.Decode(&d); err != nil {
		return nil, fmt.Errorf("keys: %w", spelling.Mistake(nil, err, d))
	}
	if len(d) == 0 {
		return nil, nil
	}
	return d, d.Check()
}

// Check returns an error unless a [State] can have these keys.
func (d Declared) Check() error {
	if len(d) > mostKeys {
		return fmt.Errorf("%d keys, at most %d are possible", len(d), mostKeys)
	}
	for _, name := range d.Names() {
		k := d[name]
		if err := k.check(); err != nil {
			return fmt.Errorf("key %.40q: %w", name, err)
		}
	}
	if kinds, _ := d.Kinds(); kinds.Check(kinds.Means()) != nil {
		return fmt.Errorf("keys: %w", kinds.Check(kinds.Means()))
	}
	columns := d.Columns()
	if len(columns) > mostColumns {
		return fmt.Errorf("keys make %d columns, at most %d are possible", len(columns), mostColumns)
	}
	slices.Sort(columns)
	for i := range columns[min(1, len(columns)):] {
		if columns[i] == columns[i+1] {
			return fmt.Errorf("keys make the column %.80q twice: rename an attribute", columns[i])
		}
	}
	return nil
}

func (k *Key) check() error {
	counts := len(k.Velocity)+len(k.Distinct) > 0
	switch {
	case k.Link == nil && !counts && k.Labels == "":
		return fmt.Errorf(`nothing is made of it: give "link", "velocity" or "labels", or leave it out`)
	case k.Link != nil && (k.Link.Last < 1 || k.Link.Last > mostLast):
		return fmt.Errorf("a link to the last %d: give 1 to %d", k.Link.Last, mostLast)
	case k.Link != nil && k.Link.Directed && k.Link.Kind == "":
		return fmt.Errorf("edges that are directed have a kind: give one")
	case len(k.Velocity) > mostSpans || len(k.Amounts) > mostOthers || len(k.Distinct) > mostOthers:
		return fmt.Errorf("at most %d spans, %d amounts and %d other attributes are possible", mostSpans, mostOthers, mostOthers)
	case len(k.Amounts)+len(k.Distinct) > 0 && len(k.Velocity) == 0:
		return fmt.Errorf(`amounts and different values are of spans: give "velocity", such as true or ["1h", "30d"]`)
	case k.Max < 0 || k.Max > largestMax:
		return fmt.Errorf("max %d: give 1 to %d, or leave it out for %d", k.Max, largestMax, defaultMax)
	}
	spans := slices.Clone(k.Velocity)
	if k.Link != nil && k.Link.Within != "" {
		spans = append(spans, k.Link.Within)
	}
	for i, s := range spans {
		if within := i == len(k.Velocity); s.milliseconds() == 0 && (within || s != All) {
			return fmt.Errorf("span %.20q: give a whole number of d, h, m, s or ms, such as 30d", string(s))
		}
	}
	return nil
}

// milliseconds returns the length of a span, 0 if it has none.
func (s Span) milliseconds() int64 { return spelling.Span(string(s)) }

// Names returns the attributes that name keys, in alphabetical order: that of all that is made of them.
func (d Declared) Names() []string { return slices.Sorted(maps.Keys(d)) }

// Has reports whether an attribute names a key.
func (d Declared) Has(name string) bool { _, has := d[name]; return has }

// Tell reports whether a key tells a share of labels.
func (d Declared) Tell() bool {
	for _, k := range d {
		if k.Labels != "" {
			return true
		}
	}
	return false
}

// Columns returns the names of the attributes that an event gets.
func (d Declared) Columns() (columns []string) {
	for _, name := range d.Names() {
		k := d[name]
		add := func(what string, of ...string) {
			columns = append(columns, strings.Join(append(append([]string{what}, of...), name), "_"))
		}
		if len(k.Velocity) > 0 {
			add("gap")
		}
		for _, s := range k.Velocity {
			from := len(columns)
			add("n")
			for _, a := range k.Amounts {
				if s != All {
					add("sum", a)
					add("mean", a)
				}
				add("ratio", a)
			}
			for _, other := range k.Distinct {
				add("distinct", other)
			}
			if s != All {
				for i := range columns[from:] {
					columns[from+i] += "_" + string(s)
				}
			}
		}
		if k.Labels != "" {
			add("share", k.Labels)
		}
	}
	return columns
}

// Of returns those columns of a key that compare an amount of an event with the ones before it.
func (d Declared) Of(key, amount string) []string {
	return slices.DeleteFunc(Declared{key: d[key]}.Columns(), func(column string) bool {
		return !strings.HasPrefix(column, "ratio_"+amount+"_"+key)
	})
}

// Inputs returns the attributes that are read: keys, amounts, and those of which different values are counted.
func (d Declared) Inputs() []string {
	list := d.Names()
	for _, name := range d.Names() {
		list = append(append(list, d[name].Amounts...), d[name].Distinct...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Kinds returns the kinds of the edges, and whether some have none.
func (d Declared) Kinds() (kinds gnn.EdgeKinds, plain bool) {
	for _, name := range d.Names() {
		switch l := d[name].Link; {
		case l == nil:
		case l.Kind == "":
			plain = true
		case !slices.Contains(kinds, gnn.EdgeKind{Name: l.Kind, Directed: l.Directed}):
			kinds = append(kinds, gnn.EdgeKind{Name: l.Kind, Directed: l.Directed})
		}
	}
	return kinds, plain
}

// Equal reports whether two declarations make the same of events.
func (d Declared) Equal(other Declared) bool {
	a, _ := json.Marshal(d) // strings and numbers
	b, _ := json.Marshal(other)
	return bytes.Equal(a, b)
}
