// Package attributes turns named values, such as an amount and a country, into feature
// vectors. A [Schema] says how: it is learned from the rows that train, and belongs to the
// model, so that a row has the same bits in training and in serving.
package attributes

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/keys"
	"github.com/gvbll/gvbll/gnn/spelling"
)

// Kind is what the values of an attribute are.
type Kind string

// The kinds, with the columns of an attribute. Each but text has one more where training
// rows have gaps: 1 in a gap, else 0.
const (
	Number   Kind = "number"   // its rank among the training rows, in two columns (numbers.go); 0 in a gap
	Log      Kind = "log"      // what a table says of numbers that are to be sign(x)·ln(1+|x|), standardised; a schema has Number
	Boolean  Kind = "boolean"  // 0 or 1
	Category Kind = "category" // one for each value, and one for all others where training rows have such
	Time     Kind = "time"     // age before the event (log seconds, standardised), then sine and cosine of hour and weekday
	Text     Kind = "text"     // hashed words, of length 1
	Vector   Kind = "vector"   // its numbers as they are; zeros in a gap
)

// Kinds are all kinds.
var Kinds = []Kind{Number, Log, Boolean, Category, Time, Text, Vector}

// Bounds of a schema.
const (
	maxAttributes = 4096
	maxName       = 256 // bytes
	maxWidth      = 1 << 20
	maxValues     = 64 // of a category
	leastRows     = 3  // training rows that a value of a category has
	leastKnown    = 20 // training rows with a value, from which on it is an error that hardly one is often enough
	textWidth     = 256
	clip          = 10 // standard deviations
)

// Schema is a list of attributes, and what training rows taught about them. It is immutable.
type Schema struct {
	Attributes []Attribute `json:"attributes"`
	Sparse     bool        `json:"sparse,omitempty"` // whether vectors are sparse
	// Keys make some of the attributes, and edges; nil for none.
	Keys keys.Declared `json:"keys,omitempty"`
}

// Attribute is a named value of a node. Shares are of the training rows.
type Attribute struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	Log  bool   `json:"log,omitempty"` // of a number: sign(x)·ln(1+|x|) in its place
	// Of the training values of a number; see numbers.go. Models of 1.0.0 have none, and standardise the value, or its
	// logarithm.
	gnn.Distribution
	Aged   bool     `json:"aged,omitempty"`   // of a time: training rows have event times, so there are ages
	Mean   float64  `json:"mean,omitempty"`   // of a number's log odds, or after Log, or of an age in log seconds
	SD     float64  `json:"sd,omitempty"`     // likewise, of the population; 1 where nothing varies
	Values []string `json:"values,omitempty"` // of a category, in alphabetical order
	Others float64  `json:"others,omitempty"` // share of other values of a category
	Gaps   float64  `json:"gaps,omitempty"`   // share of gaps
	Width  int      `json:"width,omitempty"`  // of a vector
	Comma  bool     `json:"comma,omitempty"`  // of a number: as a text it has a decimal comma
	Unit   string   `json:"unit,omitempty"`   // of a time that is a number; "" for milliseconds
	From   int64    `json:"from,omitempty"`   // the first time of training rows, milliseconds since 1970
	To     int64    `json:"to,omitempty"`     // the last one
	Like   string   `json:"like,omitempty"`   // an attribute before it that says the same of the training rows: its copy, or nearly
}

// Columns returns how many columns the attribute has.
func (a *Attribute) Columns() (n int) {
	if a.hasGapColumn() {
		n++
	}
	switch a.Kind {
	case Number:
		n += a.numberColumns()
	case Boolean:
		n++
	case Category:
		n += len(a.Values)
		if a.Others > 0 {
			n++
		}
	case Time:
		n += 4
		if a.Aged {
			n++
		}
	case Text:
		n = textWidth
	case Vector:
		n += a.Width
	}
	return n
}

// hasGapColumn reports whether the last column is 1 in a gap.
func (a *Attribute) hasGapColumn() bool { return a.Gaps > 0 && a.Kind != Text }

// Width returns the number of columns of all attributes.
func (s *Schema) Width() (n int) {
	for i := range s.Attributes {
		n += s.Attributes[i].Columns()
	}
	return n
}

// Check returns an error unless the schema is one that [Learn] could have made.
func (s *Schema) Check() error {
	if n := len(s.Attributes); n == 0 || n > maxAttributes {
		return fmt.Errorf("%d attributes, from 1 to %d are expected", n, maxAttributes)
	}
	seen := map[string]bool{"": true} // of Like
	width := 0
	for i := range s.Attributes {
		a := &s.Attributes[i]
		switch {
		case a.Name == "" || len(a.Name) > maxName:
			return fmt.Errorf("attribute %d has a name of %d bytes, from 1 to %d are expected", i, len(a.Name), maxName)
		case seen[a.Name]:
			return fmt.Errorf("attribute %q is listed twice", a.Name)
		case !seen[a.Like]:
			return fmt.Errorf("attribute %q is like %.40q, which is none before it", a.Name, a.Like)
		}
		if err := a.check(); err != nil {
			return fmt.Errorf("attribute %.40q: %w", a.Name, err)
		}
		seen[a.Name] = true
		width += a.Columns()
	}
	if width < 1 || width > maxWidth {
		return fmt.Errorf("%d columns, from 1 to %d are expected", width, maxWidth)
	}
	for _, name := range s.Keys.Columns() {
		if !seen[name] {
			return fmt.Errorf("keys make %.80q, which is no attribute", name)
		}
	}
	return s.Keys.Check()
}

func (a *Attribute) check() error {
	isShare := func(x float64) bool { return x >= 0 && x <= 1 }
	switch {
	case !isShare(a.Gaps) || !isShare(a.Others):
		return errors.New("a share is not from 0 to 1")
	case (a.Kind == Number || a.Kind == Time && a.Aged) && !(a.SD > 0 && isFinite(a.SD) && isFinite(a.Mean)):
		return fmt.Errorf("a mean of %v and a standard deviation of %v", a.Mean, a.SD)
	case len(a.Values) > maxValues:
		return fmt.Errorf("%d values, at most %d are expected", len(a.Values), maxValues)
	case a.Width < 0 || a.Width > maxWidth:
		return fmt.Errorf("a width of %d", a.Width)
	}
	if _, ok := spelling.Unit(a.Unit); !ok {
		return fmt.Errorf("unit %.20q: give one of %s", a.Unit, spelling.Units)
	}
	for i, v := range a.Values[min(1, len(a.Values)):] {
		if a.Values[i] >= v {
			return fmt.Errorf("value %.40q after %.40q: they must increase", v, a.Values[i])
		}
	}
	if a.Kind == Log {
		return errors.New("kind log: a schema has numbers with a logarithm")
	}
	return errors.Join(checkKind(a.Kind), a.checkRanks())
}

func isFinite(x float64) bool { return math.Abs(x) <= math.MaxFloat64 }

func checkKind(k Kind) error {
	for _, known := range Kinds {
		if k == known {
			return nil
		}
	}
	return fmt.Errorf("kind %.40q: give one of %v", k, Kinds)
}

// String describes the attribute in one line, without its name.
func (a *Attribute) String() string {
	text := string(a.Kind)
	switch a.Kind {
	case Number:
		if n := len(a.Knots); n > 0 {
			text += fmt.Sprintf(", %.4g to %.4g, median %.4g", a.Knots[0], a.Knots[n-1], a.Median())
		} else {
			text += fmt.Sprintf(", mean %.4g, sd %.4g", a.Mean, a.SD)
		}
		if a.Log {
			text += " of ln(1+|x|)"
		}
	case Category:
		text += fmt.Sprintf(", %d values", len(a.Values))
		if n := min(len(a.Values), 3); n > 0 {
			text += " (" + strings.Join(a.Values[:n], ", ") + map[bool]string{true: ", …"}[len(a.Values) > n] + ")"
		}
		if a.Others > 0 {
			text += fmt.Sprintf(", %.3g %% others", 100*a.Others)
		}
	case Time:
		if a.Unit != "" {
			text += " in " + a.Unit
		}
		if !a.Aged {
			text += ", without age"
		}
	case Vector:
		text += fmt.Sprintf(" of %d", a.Width)
	}
	if a.Gaps > 0 {
		text += fmt.Sprintf(", %.3g %% gaps", 100*a.Gaps)
	}
	return text
}

func (s *Schema) places() map[string]int {
	at := make(map[string]int, len(s.Attributes))
	for i := range s.Attributes {
		at[s.Attributes[i].Name] = i
	}
	return at
}

// byCount orders values by how many rows have them, most first, then by name.
func byCount(count map[string]int) func(a, b string) int {
	return func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(a, b)) }
}
