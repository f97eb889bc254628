package attributes

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/gnn/spelling"
)

// Encoder turns the named values of one row after another into vectors: Begin or Resume, a
// call for each value, and End. A name that is not given is a gap; one given twice counts as
// last given. After an error the row is void. It is not safe for concurrent use.
type Encoder struct {
	First  bool // values are read as by 1.0.0
	schema *Schema
	at     map[string]int // attributes by name
	from   []int          // first column, by attribute; then the width
	edges  []float32      // by attribute, the depth of a number that is beyond all of training
	time   int64          // of the event
	row    []float32      // columns of the current row

	respelt []bool // by attribute: some value of a category has not the spelling of names, in models from before
	aged    bool   // there are ages

	given []given // by attribute, of the current row
	when  []int64 // by attribute, its time in milliseconds since 1970
	tally Tally
	odd   uint64 // of the last row, see [Encoder.Odd]

	// The names that the schema lacks, with the values since the last tally, and where each is.
	names  []spelling.Unknown
	places map[string]int

	// The vectors since Reset.
	values  []float32
	indices []uint32
}

// given says what a row has of an attribute.
type given uint8

const (
	nothing given = iota
	value
	other // a category that training did not have
)

// Tally counts the rows that an [Encoder] turned, by attribute.
type Tally struct {
	Rows    int64
	Gaps    []int64 // rows without the value
	Others  []int64 // rows with a value that the category lacks
	Clipped []int64 // rows with a number, or an age, beyond all of training, or without ranks beyond 10 standard deviations
	// of numbers and ages as they are in the vector: their mean is the shift since training, in standard deviations
	Sum     []float64
	Unknown []spelling.Unknown // the names that the schema lacks, in the order in which they first came; at most 65
}

// NewEncoder returns an encoder of a schema that [Schema.Check] accepts.
func NewEncoder(s *Schema) *Encoder {
	n := len(s.Attributes)
	e := &Encoder{
		schema: s, at: s.places(), given: make([]given, n), when: make([]int64, n), tally: newTally(n), places: make(map[string]int),
	}
	e.from = s.Places()
	for i := range s.Attributes {
		e.aged = e.aged || s.Attributes[i].Aged
		e.respelt = append(e.respelt, slices.ContainsFunc(s.Attributes[i].Values, func(v string) bool { return spelling.Name(v) != v }))
		e.edges = append(e.edges, s.Attributes[i].depth(s.Attributes[i].Edge))
	}
	e.row = make([]float32, e.from[n])
	return e
}

func newTally(n int) Tally {
	return Tally{Gaps: make([]int64, n), Others: make([]int64, n), Clipped: make([]int64, n), Sum: make([]float64, n)}
}

// TakeTally returns the counts since it was last called.
func (e *Encoder) TakeTally() Tally {
	t := e.tally
	if t.Rows == 0 {
		return Tally{}
	}
	e.tally = newTally(len(e.given))
	for i := range e.names {
		if e.names[i].Values > 0 {
			t.Unknown = append(t.Unknown, e.names[i])
			e.names[i].Values = 0
		}
	}
	return t
}

// Reset makes the storage of all vectors available again: those of before are no longer valid.
func (e *Encoder) Reset() { e.values, e.indices = e.values[:0], e.indices[:0] }

// Begin begins a row. at is the time of its event in milliseconds since 1970, 0 for none.
func (e *Encoder) Begin(at int64) {
	e.time = at
	clear(e.row)
	clear(e.given)
}

// attribute returns the attribute of a name and its columns, emptied; nil if the schema
// lacks it.
func (e *Encoder) attribute(name string) (a *Attribute, i int, columns []float32) {
	i, known := e.at[name]
	if !known {
		e.unknown(name)
		return nil, 0, nil
	}
	columns = e.row[e.from[i]:e.from[i+1]]
	clear(columns)
	e.given[i] = value
	return &e.schema.Attributes[i], i, columns
}

// Gap gives no value.
func (e *Encoder) Gap(name string) {
	if i, known := e.at[name]; known {
		clear(e.row[e.from[i]:e.from[i+1]])
		e.given[i] = nothing
	} else {
		e.unknown(name)
	}
}

// The most names that are told apart of those that the schema lacks, and the most bytes of each. All others are otherNames.
const (
	mostNames    = 64
	mostNameSize = 64
	otherNames   = "(other)"
)

func (e *Encoder) unknown(name string) {
	i, seen := e.places[name]
	if !seen {
		if len(name) > mostNameSize || len(e.names) >= mostNames && name != otherNames {
			e.unknown(otherNames)
			return
		}
		u := spelling.Unknown{Name: strings.Clone(name)}
		if name != otherNames {
			u.Meant = spelling.Meant(name, slices.Sorted(maps.Keys(e.at)))
		}
		i = len(e.names)
		e.places[u.Name], e.names = i, append(e.names, u)
	}
	e.names[i].Values++
}

// Nested gives what is no value: an object, or a list of texts.
func (e *Encoder) Nested(name string) error {
	if a, _, _ := e.attribute(name); a != nil {
		return wrong(a, "an object or a list of texts")
	}
	return nil
}

// Number gives a number: of a time, milliseconds since 1970. NaN is a gap.
func (e *Encoder) Number(name string, v float64) error {
	if math.IsNaN(v) {
		e.Gap(name)
		return nil
	}
	a, i, x := e.attribute(name)
	switch {
	case a == nil:
	case math.IsInf(v, 0):
		return fmt.Errorf("attribute %.40s: a number is infinite", name)
	case a.Kind == Number:
		a.number(x, v)
	case a.Kind == Boolean && (v == 0 || v == 1):
		x[0] = float32(v)
	case a.Kind == Category && !e.First:
		e.numbered(a, i, x, v)
	case a.Kind == Category, a.Kind == Text:
		return e.Text(name, strconv.FormatFloat(v, 'f', -1, 64))
	case a.Kind == Time && e.First && e.firstMoment(a, i, x, v):
	case a.Kind == Time:
		one, _ := spelling.Unit(a.Unit)
		at, ok := spelling.MillisOf(v, one)
		if !ok {
			return wrong(a, strconv.FormatFloat(v, 'f', -1, 64))
		}
		return e.instant(i, x, at)
	default:
		return wrong(a, strconv.FormatFloat(v, 'g', -1, 64))
	}
	return nil
}

// Bool gives true or false.
func (e *Encoder) Bool(name string, v bool) error {
	if i, known := e.at[name]; known && (e.schema.Attributes[i].Kind == Category || e.schema.Attributes[i].Kind == Text) {
		return e.Text(name, strconv.FormatBool(v))
	}
	if v {
		return e.Number(name, 1)
	}
	return e.Number(name, 0)
}

// Text gives a text, which for a number, a boolean, a time or a vector is read as one. It may be
// that of a gap.
func (e *Encoder) Text(name, text string) error {
	a, i, x := e.attribute(name)
	if a == nil {
		return nil
	}
	isGap, known := a.isGap(text), true
	if e.First {
		if isGap = spelling.IsCertainGap(text) && strings.TrimSpace(text) == text; isGap {
			e.given[i] = nothing
			return nil
		}
	}
	switch a.Kind {
	case Category:
		if known = e.listed(a, i, x, text); !known && !isGap {
			e.other(a, i, x)
			return nil
		}
	case Text:
		if known = !isGap; known {
			setWords(x, text)
		}
	case Number:
		var v float64
		if v, known = e.parseNumber(a, text); known {
			a.number(x, v)
		}
	case Boolean:
		var v bool
		if v, known = e.parseBool(text); known && v {
			x[0] = 1
		}
	case Time:
		var at int64
		at, known = e.parseTime(a, text)
		switch {
		case known && e.First:
			e.moment(i, x, at)
		case known:
			return e.instant(i, x, at)
		}
	case Vector:
		var v []float32
		if v, known = parseVector(text, a.Width); known {
			return e.Vector(name, v)
		}
	}
	switch {
	case known:
		return nil
	case isGap:
		e.given[i] = nothing
		return nil
	}
	return wrong(a, strconv.Quote(text))
}

// Vector gives the numbers of a vector.
func (e *Encoder) Vector(name string, v []float32) error {
	a, _, x := e.attribute(name)
	switch {
	case a == nil:
	case a.Kind != Vector:
		return wrong(a, "a list of numbers")
	case len(v) != a.Width:
		return fmt.Errorf("attribute %.40s: %d numbers, the model has %d", name, len(v), a.Width)
	default:
		for j, value := range v {
			if d := math.Abs(float64(value)); !(d <= math.MaxFloat32) {
				return fmt.Errorf("attribute %.40s: number %d is %v", name, j, value)
			}
			x[j] = value
		}
	}
	return nil
}

func wrong(a *Attribute, value string) error {
	return fmt.Errorf("attribute %.40s: %.60s is no %s", a.Name, value, a.Kind)
}

// standard returns a value standardised, and not beyond clip.
func (a *Attribute) standard(v float64) float32 {
	return float32(min(max((v-a.Mean)/a.SD, -clip), clip))
}

func signedLog(v float64) float64 {
	if v < 0 {
		return -double.Log(1 - v)
	}
	return double.Log(1 + v)
}

// listed sets x to a value of a category, if training had it under this name or another spelling.
func (e *Encoder) listed(a *Attribute, i int, x []float32, text string) bool {
	k, found := slices.BinarySearch(a.Values, text)
	if !found && !e.First {
		name := spelling.Name(text)
		if k, found = slices.BinarySearch(a.Values, name); !found && e.respelt[i] {
			k = slices.IndexFunc(a.Values, func(v string) bool { return spelling.Name(v) == name })
			found = k >= 0
		}
	}
	if found {
		x[k] = 1
	}
	return found
}

// numbered sets x to the value of a category that came as a number.
func (e *Encoder) numbered(a *Attribute, i int, x []float32, v float64) {
	if e.listed(a, i, x, spelling.NameOf(v)) {
		return
	}
	if v != math.Trunc(v) { // 2.5 is "2.50" where that is listed
		for k, text := range a.Values {
			if is, ok := spelling.Number(text); ok && is == v {
				x[k] = 1
				return
			}
		}
	}
	e.other(a, i, x)
}

// other sets x to a value that a category lacks.
func (e *Encoder) other(a *Attribute, i int, x []float32) {
	e.given[i] = other
	if a.Others > 0 {
		x[len(a.Values)] = 1
	}
}

// setWords sets x to the counts of lower-case words by their hash, divided by the length.
func setWords(x []float32, text string) {
	total := 0.0
	for word := range strings.FieldsSeq(text) {
		h := uint32(2166136261) // FNV-1a
		for _, r := range strings.ToLower(word) {
			h = (h ^ uint32(r)) * 16777619
		}
		x[h%textWidth]++
	}
	for _, n := range x {
		total += float64(n * n) // counts: exact
	}
	if total > 0 {
		for j := range x {
			x[j] = float32(float64(x[j]) / math.Sqrt(total))
		}
	}
}

const (
	hourMillis = int64(3_600_000)
	dayMillis  = 24 * hourMillis
)

// instant is moment of a time that an event gives. It is refused where it is neither of the years of training rows, nor
// can be right in the attribute's unit.
func (e *Encoder) instant(i int, x []float32, at int64) error {
	a := &e.schema.Attributes[i]
	const soon = 1_000_000_000 // eleven days around 1970: a year, a number of days, or nothing
	if unit := spelling.Guess(at); (unit != "" || at > -soon && at < soon) && (at < a.From || at > a.To) {
		if a.Unit != "" {
			return fmt.Errorf("attribute %.40s: %d ms since 1970 is no likely time: the model has it in %s", a.Name, at, a.Unit)
		}
		if unit == "" {
			return fmt.Errorf("attribute %.40s: %d is no likely time in milliseconds since 1970: send those, or a date", a.Name, at)
		}
		return fmt.Errorf("attribute %.40s: %d looks like %s since 1970, and the model has milliseconds: send "+
			"those, or a date", a.Name, at, spelling.UnitNames[unit])
	}
	e.moment(i, x, at)
	return nil
}

// FitsTime returns an error if an event's time is not in milliseconds since 1970, and ages are to be measured from it.
func (e *Encoder) FitsTime(at int64) error {
	if !e.First && e.aged && at != 0 && !IsMillis(float64(at)) {
		unit := "it is not in milliseconds since 1970"
		if guess := spelling.Guess(at); guess != "" {
			unit = "it looks like " + spelling.UnitNames[guess] + ", and ages need milliseconds"
		}
		return fmt.Errorf("the event's time is %d: %s", at, unit)
	}
	return nil
}

// IsMillis reports whether a time can be in milliseconds since 1970: it is after 1973 then, and before 5138.
func IsMillis(at float64) bool { return at >= 1e11 && at <= 1e14 }

// moment sets x to the columns of attribute i, a time in milliseconds since 1970.
func (e *Encoder) moment(i int, x []float32, at int64) {
	e.when[i] = at
	if a := &e.schema.Attributes[i]; a.Aged {
		if e.time != 0 {
			x[0] = a.standard(logAge(e.time, at))
		}
		x = x[1:]
	}
	day := floorDivide(at, dayMillis)
	hour := (at - day*dayMillis) / hourMillis
	x[0], x[1] = hourSine[hour], hourSine[(hour+6)%24]
	weekday := ((day+4)%7 + 7) % 7 // the first of January 1970 was a Thursday
	x[2], x[3] = weekSine[weekday], weekCosine[weekday]
}

// logAge returns the logarithm of 1 + the seconds from a time to the event's.
func logAge(event, at int64) float64 { return double.Log(1 + float64(max(event-at, 0))/1000) }

func floorDivide(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Sines and cosines as numbers, because the last bit of math.Sin depends on the processor.
var (
	hourSine = [24]float32{
		0, .25881905, .5, .70710678, .8660254, .96592583, 1, .96592583, .8660254, .70710678, .5, .25881905,
		0, -.25881905, -.5, -.70710678, -.8660254, -.96592583, -1, -.96592583, -.8660254, -.70710678, -.5, -.25881905,
	}
	weekSine   = [7]float32{0, .78183148, .97492791, .43388374, -.43388374, -.97492791, -.78183148}
	weekCosine = [7]float32{1, .6234898, -.22252093, -.90096887, -.90096887, -.22252093, .6234898}
)

// End ends the row and returns its vector, which is valid until Reset.
func (e *Encoder) End() gnn.Vector {
	e.tally.Rows++
	e.odd = 0
	odd := func(i int, is bool) {
		if is && i < 64 {
			e.odd |= 1 << i
		}
	}
	for i := range e.schema.Attributes {
		a := &e.schema.Attributes[i]
		switch x := e.row[e.from[i]:e.from[i+1]]; {
		case e.given[i] == nothing:
			e.tally.Gaps[i]++
			odd(i, true)
			if a.hasGapColumn() {
				x[len(x)-1] = 1
			}
		case e.given[i] == other:
			e.tally.Others[i]++
			odd(i, true)
		case a.Kind == Time && a.Aged && e.time != 0:
			e.tally.Sum[i] += float64(x[0])
			odd(i, x[0] >= farOut || x[0] <= -farOut)
			if x[0] == clip || x[0] == -clip {
				e.tally.Clipped[i]++
			}
		case a.Kind == Number:
			e.tally.Sum[i] += float64(x[0])
			odd(i, x[0] >= farOut || x[0] <= -farOut)
			if a.isBeyond(x, e.edges[i]) {
				e.tally.Clipped[i]++
			}
		}
	}
	from := len(e.values)
	if !e.schema.Sparse {
		e.values = append(e.values, e.row...)
		return gnn.Vector{Dense: e.values[from:len(e.values):len(e.values)]}
	}
	for j, v := range e.row {
		if v != 0 {
			e.values, e.indices = append(e.values, v), append(e.indices, uint32(j))
		}
	}
	return gnn.Vector{Index: e.indices[from:len(e.indices):len(e.indices)], Value: e.values[from:len(e.values):len(e.values)]}
}

// farOut is by how many standard deviations a number is odd, or an age, and farShare about the share of the training rows of which it is.
const (
	farOut   = 2
	farShare = 0.05
)

// Odd returns which of the first 64 attributes of the last row, a bit for each, have no value, one that training had not, or one
// far out.
func (e *Encoder) Odd() uint64 { return e.odd }

// OddShare returns about the share of the training rows of which the attribute was odd.
func (a *Attribute) OddShare() float64 {
	share := a.Gaps + a.Others
	if a.Kind == Number || a.Kind == Time && a.Aged {
		share += float64(farShare * (1 - a.Gaps))
	}
	return share
}
