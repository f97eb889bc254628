package attributes

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gvbll/gvbll/gnn"
)

// Column is a column of a table: the values of an attribute as texts, by row. A gap is an
// empty text, or one that [IsGap] names.
type Column struct {
	Name  string
	Kind  Kind // "" to infer it
	Texts []string
}

// IsGap reports whether a text stands for no value. "NA" does not: it is a country.
func IsGap(text string) bool {
	return text == "" || strings.EqualFold(text, "nan") || strings.EqualFold(text, "null")
}

// Infer sets the kinds of columns that have none, from all their texts. A column of numbers
// with a few texts among them is an error: its kind must be given.
func Infer(columns []Column) error {
	for i := range columns {
		c := &columns[i]
		if c.Kind != "" {
			if err := checkKind(c.Kind); err != nil {
				return fmt.Errorf("column %.40q: %w", c.Name, err)
			}
			continue
		}
		var err error
		if c.Kind, err = infer(c.Name, c.Texts); err != nil {
			return fmt.Errorf("column %.40q: %w", c.Name, err)
		}
	}
	return nil
}

func infer(name string, texts []string) (Kind, error) {
	distinct := make(map[string]bool)
	n, numbers, booleans, times, words := 0, 0, 0, 0, 0
	odd, oddRow := "", 0
	for row, text := range texts {
		if IsGap(text) {
			continue
		}
		n++
		if len(distinct) <= maxValues {
			distinct[text] = true
		}
		words += len(strings.Fields(text))
		if _, ok := parseBool(text); ok {
			booleans++
		}
		if _, ok := ParseTime(text); ok {
			times++
		}
		if _, ok := parseNumber(text); ok {
			numbers++
		} else if odd == "" {
			odd, oddRow = text, row+1
		}
	}
	switch {
	case n == numbers:
		return Number, nil
	case n == booleans:
		return Boolean, nil
	case n == times:
		return Time, nil
	case numbers >= n-n/20:
		return "", fmt.Errorf("%.40q in row %d is text in a column of numbers: mend it, leave it empty, or give \"columns\": {%q: \"category\"} in dataset.json", odd, oddRow, name)
	case len(distinct) > maxValues && words > 2*n:
		return Text, nil
	}
	return Category, nil
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
	for _, row := range rows {
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
		e.Reset()
	}
	s.Sparse = s.Width() > maxDense && float64(full) <= maxDensity*float64(len(rows))*float64(s.Width())
	return s, nil
}

// Vectors are sparse from so many columns on where at most this share of the numbers is not
// zero: with few columns, what is learned of standardised numbers is worth more than memory.
const (
	maxDense   = 1024
	maxDensity = .25
)

func (c *Column) learn(times []int64, rows []int32) (Attribute, error) {
	a := Attribute{Name: c.Name, Kind: c.Kind}
	var known []int32
	for _, row := range rows {
		if !IsGap(c.Texts[row]) {
			known = append(known, row)
		}
	}
	a.Gaps = 1 - share(len(known), len(rows))
	switch c.Kind {
	case Number:
		values := make([]float64, len(known))
		for i, row := range known {
			v, ok := parseNumber(c.Texts[row])
			if !ok {
				return a, fmt.Errorf("%.40q in row %d is no number", c.Texts[row], row+1)
			}
			values[i] = v
		}
		if a.Log = heavyTailed(values); a.Log {
			for i, v := range values {
				values[i] = signedLog(v)
			}
		}
		a.Mean, a.SD = moments(values)
	case Category:
		count := make(map[string]int)
		for _, row := range known {
			count[c.Texts[row]]++
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
		slices.Sort(a.Values)
	case Time:
		var ages []float64
		for _, row := range known {
			if at, ok := ParseTime(c.Texts[row]); ok && times != nil {
				ages = append(ages, logAge(times[row], at))
			}
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

// heavyTailed reports whether one of the tails, to its outermost percentile, is more than
// five times as long as the middle half is wide: of a normal distribution it is 1.7 times,
// of an exponential one 3.6, of a log-normal one with σ = 1 6.4. Where the middle half is
// one value, the mean distance from it stands for its width.
func heavyTailed(values []float64) bool {
	if len(values) == 0 {
		return false
	}
	sorted := slices.Sorted(slices.Values(values))
	at := func(q float64) float64 { return sorted[int(q*float64(len(sorted)-1))] }
	middle, width := at(.5), at(.75)-at(.25)
	if width == 0 {
		for _, v := range values {
			width += math.Abs(v-middle) / float64(len(values))
		}
	}
	return max(at(.99)-middle, middle-at(.01)) > 5*width
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

// parseNumber reads a finite number.
func parseNumber(text string) (v float64, ok bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return v, err == nil && math.Abs(v) <= math.MaxFloat64
}

func parseBool(text string) (v, ok bool) {
	switch {
	case strings.EqualFold(text, "true"), text == "1":
		return true, true
	case strings.EqualFold(text, "false"), text == "0":
		return false, true
	}
	return false, false
}

// layouts are those of times that are read. Without a zone they are in UTC.
var layouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"}

// ParseTime reads a time into milliseconds since 1970: an integer that is one, or a date in
// one of the layouts.
func ParseTime(text string) (at int64, ok bool) {
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return v, v > -latest && v < latest
	}
	if len(text) < len("2006-01-02") || text[4] != '-' { // what most texts are not
		return 0, false
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UnixMilli(), true
		}
	}
	return 0, false
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
