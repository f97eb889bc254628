package attributes

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/spelling"
)

// Column is a column of a table: the values of an attribute as texts, by row.
type Column struct {
	Name  string
	Kind  Kind   // "" to infer it
	Unit  string // of times that are numbers; "" for milliseconds
	Texts []string
	Note  string // what Infer was unsure of, in a line for people

	inferred, comma bool   // Infer chose the kind; the numbers have decimal commas
	mixed           string // what Infer found of other kinds
}

// Given is what dataset.json says of a column: its kind, or {"kind": "time", "unit": "s"}.
type Given struct {
	Kind Kind   `json:"kind"`
	Unit string `json:"unit,omitempty"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (g *Given) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &g.Kind)
	}
	type given Given
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode((*given)(g))
}

// IsGiven reports whether the column's kind was given, and not inferred.
func (c *Column) IsGiven() bool { return c.Kind != "" && !c.inferred }

// Give gives the column the kind that a schema has for its name, and reports whether it has one. Numbers that came as truth
// values or with decimal commas are written as a table has them.
func (c *Column) Give(s *Schema) bool {
	if s == nil {
		return false
	}
	i := slices.IndexFunc(s.Attributes, func(a Attribute) bool { return a.Name == c.Name })
	if i < 0 {
		return false
	}
	a := &s.Attributes[i]
	if c.Kind, c.Unit = a.Kind, a.Unit; a.Log {
		c.Kind = Log
	}
	for row, text := range c.Texts {
		if v, ok := spelling.WithComma(text); a.Comma && ok {
			c.Texts[row] = strconv.FormatFloat(v, 'f', -1, 64)
		} else if v, ok := spelling.Bool(text); a.Kind == Number && ok { // as an event may have it
			c.Texts[row] = map[bool]string{true: "1", false: "0"}[v]
		}
	}
	return true
}

// Infer sets the kinds of columns that have none, from all their texts, and checks those that are given. A kind holds
// where all values are of it, but for words such as ? and NA, which are then gaps. Where nearly all are of it, or a form is
// not read, it is an error: the values must be mended, or the kind given.
func Infer(columns []Column) error {
	for i := range columns {
		c := &columns[i]
		if one, ok := spelling.Unit(c.Unit); !ok || c.Unit != "" && c.Kind != Time {
			return fmt.Errorf("column %.40q: unit %.20q: give one of %s, with the kind time", c.Name, c.Unit, spelling.Units)
		} else if c.Kind == Time {
			if err := c.checkUnit(one); err != nil {
				return fmt.Errorf("column %.40q: %w", c.Name, err)
			}
		}
		if c.Kind != "" {
			if err := checkKind(c.Kind); err != nil {
				return fmt.Errorf("column %.40q: %w", c.Name, err)
			}
			continue
		}
		c.inferred = true
		if err := c.infer(); err != nil {
			return fmt.Errorf("column %.40q: %w", c.Name, err)
		}
	}
	return nil
}

// checkUnit refuses times of which more than half are of 1970, or of another age of the world, in this unit.
func (c *Column) checkUnit(one time.Duration) error {
	n, odd := 0, 0
	last := ""
	for _, text := range c.Texts {
		v, isNumber := spelling.Number(text)
		if !isNumber {
			continue
		}
		n++
		if at, ok := spelling.MillisOf(v, one); !ok || spelling.Guess(at) != "" {
			odd++
			last = text
		}
	}
	if 2*odd <= n {
		return nil
	}
	remedy := "give another unit: " + spelling.Units
	if v, _ := spelling.Number(last); one == time.Millisecond {
		if unit := spelling.Guess(int64(v)); unit != "" {
			remedy = fmt.Sprintf("give \"columns\": {%q: {\"kind\": \"time\", \"unit\": %q}} in dataset.json", c.Name, unit)
		}
	}
	return fmt.Errorf("%.40q is no time in the unit %s: %s", last, cmp.Or(c.Unit, "ms"), remedy)
}

// tried counts the values of a kind, and has the first one that is not.
type tried struct {
	n, row int
	odd    string
}

func (t *tried) count(is bool, row int, text string) {
	if is {
		t.n++
	} else if t.row == 0 {
		t.row, t.odd = row+1, text
	}
}

// firstDate is 1901, in milliseconds: dates before it stand for none in most tables that have them.
const firstDate = -2_177_452_800_000

// infer sets the kind by the texts.
func (c *Column) infer() error {
	distinct := make(map[string]bool)
	n, words, gapWords, gapWord := 0, 0, 0, ""
	comma, unparted := 0, 0
	var doubt Doubt
	far, farText := 0, "" // dates of no year that people enter
	var number, boolean, instant, decimal, amount, dateLike, vector tried
	width := c.width() // of lists of numbers
	for row, text := range c.Texts {
		v, isNumber := spelling.Number(text)
		if !isNumber {
			if spelling.IsCertainGap(text) {
				continue
			}
			if spelling.IsGapWord(text) {
				if gapWords++; gapWord == "" {
					gapWord = text
				}
				continue
			}
		}
		n++
		if len(distinct) <= maxValues {
			distinct[text] = true
		}
		words += len(strings.Fields(text))
		number.count(isNumber, row, text)
		_, isBoolean := spelling.Bool(text)
		boolean.count(isBoolean, row, text)
		at, isDate := spelling.Date(text)
		if isDate && (at < firstDate || at >= spelling.LastMillis || at == 0) {
			if far++; farText == "" {
				farText = text
			}
		}
		isMillis := isNumber && spelling.UnitOf(v) == "ms" // beside dates, they are as certain
		instant.count(isDate || isMillis, row, text)
		_, isDecimal := spelling.WithComma(text)
		decimal.count(isDecimal, row, text)
		if isDecimal && !isNumber {
			comma++
			if !spelling.IsThousands(text) {
				unparted++
			}
		}
		amount.count(isNumber || spelling.IsAmount(text), row, text)
		vector.count(width > 1 && isVector(text, width), row, text)
		dateLike.count(isDate || !isNumber && spelling.LooksLikeDate(text), row, text)
		if isNumber {
			doubt.Add(text, v)
		}
	}
	nearly := n - n/20 // values that make a kind, if the others are mended
	ofKind := func(k Kind, note string) error {
		c.Kind, c.Note = k, note
		if gapWords > 0 {
			c.Note = strings.TrimPrefix(fmt.Sprintf("%s; %.20q is taken for a gap (%d)", note, gapWord, gapWords), "; ")
		}
		return nil
	}
	other := func(t *tried, what string) error {
		return fmt.Errorf("%.40q in row %d is none of the %s that nearly all others are: mend it, leave it empty, or "+
			"give \"columns\": {%q: \"category\"} in dataset.json", t.odd, t.row, what, c.Name)
	}
	switch {
	case n == 0 && gapWords > 0:
		c.Kind = Category
	case number.n == n:
		return ofKind(Number, doubt.Note(c.Name))
	case boolean.n == n:
		return ofKind(Boolean, "")
	case instant.n == n && far > 0:
		return ofKind(Time, fmt.Sprintf("%.20q is one of %d far times: if they stand for none, leave them empty", farText, far))
	case instant.n == n:
		return ofKind(Time, "")
	case comma > 0 && decimal.n == n && unparted > 0:
		c.comma = true
		return ofKind(Number, "with decimal commas")
	case vector.n == n && amount.n < n:
		return ofKind(Vector, fmt.Sprintf("lists of %d numbers each", width))
	case number.n >= nearly && amount.n < n:
		return other(&number, "numbers")
	case boolean.n >= nearly:
		return other(&boolean, "truth values")
	case instant.n >= nearly:
		return other(&instant, "dates")
	case vector.n >= nearly && amount.n < nearly:
		return other(&vector, fmt.Sprintf("lists of %d numbers", width))
	case amount.n >= nearly:
		return fmt.Errorf("%.40q in row %d is a number in a form that is not read: write it plainly, as 1234.5, or "+
			"with a decimal comma in all rows; or give \"columns\": {%q: \"category\"} in dataset.json", number.odd, number.row, c.Name)
	case dateLike.n >= nearly:
		return fmt.Errorf("%.40q in row %d is a date in a form that is not read: write 2026-03-01, or "+
			"2026-03-01T10:00:00Z, or give \"columns\": {%q: \"category\"} in dataset.json", instant.odd, instant.row, c.Name)
	case len(distinct) > maxValues && words > 2*n:
		c.Kind = Text
	default:
		c.Kind = Category
	}
	if c.Kind == Category {
		c.Note = Alike(slices.Sorted(maps.Keys(distinct)))
	}
	if gapWords > 0 && c.Kind == Category && !spelling.IsGap(gapWord) {
		c.Note = fmt.Sprintf("%.20q is one of its values, not a gap (%d)", gapWord, gapWords)
	}
	for _, t := range []*tried{&number, &instant, &boolean, &vector} {
		if n > 0 && 3*t.n >= n {
			c.mixed = fmt.Sprintf(", and %d of %d values are numbers, dates, truth values or lists of numbers, and others are not, "+
				"such as %.40q in row %d", t.n, n, t.odd, t.row)
			c.Note = strings.TrimPrefix(c.mixed, ", and ") + ": is that right?"
		}
	}
	return nil
}

// Alike says which two names differ by capitals only, in a line for people; nothing if none do.
func Alike(names []string) string {
	seen := make(map[string]string, len(names))
	for _, name := range names {
		if other, twice := seen[strings.ToLower(spelling.Name(name))]; twice && spelling.Name(name) != spelling.Name(other) {
			return fmt.Sprintf("%.40q and %.40q differ by capitals only, and are two", other, name)
		}
		seen[strings.ToLower(spelling.Name(name))] = name
	}
	return ""
}

// Learn learns a schema from the given rows of columns whose kinds are known. times are those
// of the rows' events in milliseconds since 1970, or nil.
func Learn(columns []Column, times []int64, rows []int32) (*Schema, error) {
	s := &Schema{}
	for i := range columns {
		a, err := columns[i].learn(times, rows)
		if err != nil {
			return nil, fmt.Errorf("column %.40q: %w", columns[i].Name, err)
		}
		s.Attributes = append(s.Attributes, a)
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	full := 0
	e := NewEncoder(s)
	var some []gnn.Vector
	every := len(rows)/likeRows + 1
	for i, row := range rows {
		x, err := EncodeRow(e, columns, times, int(row))
		if err != nil {
			return nil, err
		}
		full += len(x.Dense)
		for _, v := range x.Dense {
			if v == 0 {
				full--
			}
		}
		if i%every == 0 && len(x.Dense) <= likeMost {
			some = append(some, gnn.Vector{Dense: slices.Clone(x.Dense)})
		}
		e.Reset()
	}
	s.Sparse = s.Width() > maxDense && float64(full) <= maxDensity*float64(len(rows))*float64(s.Width())
	s.learnLikeness(some)
	return s, nil
}

// Vectors are sparse from so many columns on where at most this share of the numbers is not
// zero: with few columns, what is learned of standardised numbers is worth more than memory.
const (
	maxDense   = 1024
	maxDensity = .25
)

func (c *Column) learn(times []int64, rows []int32) (Attribute, error) {
	a := Attribute{Name: c.Name, Kind: c.Kind, Unit: c.Unit, Comma: c.comma}
	var known []int32
	for _, row := range rows {
		if !a.isGap(c.Texts[row]) {
			known = append(known, row)
		}
	}
	a.Gaps = 1 - share(len(known), len(rows))
	if len(known) == 0 && len(rows) > 0 && c.Note == "" {
		c.Note = "has no value in the rows that train: leave it out, or train on more rows"
	}
	switch c.Kind {
	case Number, Log:
		a.Kind, a.Log = Number, c.Kind == Log
		values := make([]float64, len(known))
		for i, row := range known {
			v, ok := a.parseNumber(c.Texts[row])
			if !ok {
				return a, fmt.Errorf("%.40q in row %d is no number", c.Texts[row], row+1)
			}
			values[i] = v
		}
		if !a.Log {
			a.learnRanks(values)
			break
		}
		for i, v := range values {
			values[i] = signedLog(v)
		}
		a.Mean, a.SD = moments(values)
	case Category:
		count := make(map[string]int)
		for _, row := range known {
			count[spelling.Name(c.Texts[row])]++
		}
		for v, n := range count {
			if n >= leastRows {
				a.Values = append(a.Values, v)
			}
		}
		slices.SortFunc(a.Values, byCount(count))
		a.Values = a.Values[:min(len(a.Values), maxValues)]
		listed := 0
		for _, v := range a.Values {
			listed += count[v]
		}
		a.Others = share(len(known)-listed, len(rows))
		if listed < len(known)/2 && c.Note == "" {
			c.Note = fmt.Sprintf("%d of %d training rows have a value that comes fewer than %d times, and are as one",
				len(known)-listed, len(known), leastRows)
		}
		if c.inferred && listed < len(known)/10+1 && len(known) >= leastKnown {
			return a, fmt.Errorf("hardly a value comes %d times in %d training rows, such as %.40q%s: leave the column "+
				"out, or give \"columns\": {%q: \"text\"} in dataset.json, or \"category\" if it is to be one "+
				"all the same", leastRows, len(known), c.Texts[known[0]], c.mixed, c.Name)
		}
		slices.Sort(a.Values)
	case Time:
		var ages []float64
		for i, row := range known {
			at, ok := a.parseTime(c.Texts[row])
			if !ok {
				return a, fmt.Errorf("%.40q in row %d is no time", c.Texts[row], row+1)
			}
			if times != nil {
				ages = append(ages, logAge(times[row], at))
			}
			if i == 0 {
				a.From, a.To = at, at
			}
			a.From, a.To = min(a.From, at), max(a.To, at)
		}
		if a.Aged = len(ages) > 0; a.Aged {
			a.Mean, a.SD = moments(ages)
		}
	case Vector:
		if len(known) > 0 {
			a.Width = len(strings.FieldsFunc(c.Texts[known[0]], betweenNumbers))
		}
	}
	return a, nil
}

// share returns n of all, 0 of none.
func share(n, all int) float64 { return float64(n) / float64(max(all, 1)) }

// moments returns the mean and the population's standard deviation, or 1 if that is 0.
func moments(values []float64) (mean, sd float64) {
	n := float64(max(len(values), 1))
	for _, v := range values {
		mean += v
	}
	mean /= n
	for _, v := range values {
		sd += float64((v - mean) * (v - mean))
	}
	if sd = math.Sqrt(sd / n); sd == 0 {
		sd = 1
	}
	return mean, sd
}

// EncodeRow encodes a row of columns that have the names of the encoder's schema.
func EncodeRow(e *Encoder, columns []Column, times []int64, row int) (gnn.Vector, error) {
	at := int64(0)
	if times != nil {
		at = times[row]
	}
	e.Begin(at)
	for i := range columns {
		if err := e.Text(columns[i].Name, columns[i].Texts[row]); err != nil {
			return gnn.Vector{}, fmt.Errorf("row %d: %w", row+1, err)
		}
	}
	return e.End(), nil
}

func (a *Attribute) isGap(text string) bool {
	switch a.Kind {
	case Number, Boolean, Time:
		return spelling.IsGapWord(text)
	}
	return spelling.IsGap(text)
}

func (a *Attribute) parseNumber(text string) (v float64, ok bool) {
	if a.Comma {
		return spelling.WithComma(text)
	}
	return spelling.Number(text)
}

// parseTime reads a time into milliseconds since 1970: a number of the attribute's units, or a date.
func (a *Attribute) parseTime(text string) (at int64, ok bool) {
	one, _ := spelling.Unit(a.Unit)
	return spelling.Time(text, one)
}

// width returns how many numbers most of the texts list that are lists of numbers, 0 if none is.
func (c *Column) width() (most int) {
	count := make(map[int]int)
	for _, text := range c.Texts {
		if text == "" || text[0] > '9' && text[0] != '[' { // what most texts are not
			continue
		}
		if n := len(strings.FieldsFunc(text, betweenNumbers)); n > 1 && n <= maxWidth && isVector(text, n) {
			if count[n]++; count[n] > count[most] {
				most = n
			}
		}
	}
	return most
}

func isVector(text string, width int) bool {
	n := 0
	for item := range strings.FieldsFuncSeq(text, betweenNumbers) {
		if n++; !spelling.IsNumber(item) {
			return false
		}
	}
	return n == width
}

func betweenNumbers(r rune) bool { return strings.ContainsRune(" ,\t[]", r) }

// parseVector reads as many numbers as a vector has.
func parseVector(text string, width int) (v []float32, ok bool) {
	for item := range strings.FieldsFuncSeq(text, betweenNumbers) {
		x, err := strconv.ParseFloat(item, 32)
		if err != nil || len(v) == width {
			return nil, false
		}
		v = append(v, float32(x))
	}
	return v, len(v) == width
}
