package attributes

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gvbll/gvbll/gnn/spelling"
)

// Doubt finds what a column of numbers may be in truth: times, dates without marks, codes, thousands with points,
// ids too long for a float64, or numbers with one among them that stands for no value.
type Doubt struct {
	n, compact, zeros, grouped, ungrouped, long int
	units                                       map[string]int
	zero, group                                 string // the first of each
	low, high                                   [2]extreme
}

type extreme struct {
	v float64
	n int
}

// Add adds a number of the column, which text is.
func (d *Doubt) Add(text string, v float64) {
	d.n++
	if len(text) > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9' {
		if d.zeros++; d.zero == "" {
			d.zero = strings.Clone(text)
		}
	}
	switch whole, rest, found := strings.Cut(strings.TrimPrefix(text, "-"), "."); {
	case found && len(rest) == 3 && len(whole) > 0 && len(whole) <= 3 && whole[0] != '0':
		if d.grouped++; d.group == "" {
			d.group = strings.Clone(text)
		}
	case found || len(whole) > 3:
		d.ungrouped++
	}
	keepExtreme(&d.low, v, v < d.low[0].v, v < d.low[1].v)
	keepExtreme(&d.high, v, v > d.high[0].v, v > d.high[1].v)
	if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
		if unit := spelling.UnitOf(v); unit != "" && unit != "days" {
			if d.units == nil {
				d.units = make(map[string]int)
			}
			d.units[unit]++
			return
		}
		if len(text) == len("20060102") && v > 1900_00_00 && v < 2100_00_00 {
			if _, err := time.Parse("20060102", text); err == nil {
				d.compact++
			}
		}
	}
	if math.Abs(v) > 1<<53 && !strings.ContainsAny(text, ".eE") {
		d.long++
	}
}

// keepExtreme counts v among two extremes, of which it may be beyond the first, or beyond the second.
func keepExtreme(e *[2]extreme, v float64, first, second bool) {
	switch {
	case e[0].n > 0 && v == e[0].v:
		e[0].n++
	case e[0].n == 0 || first:
		e[0], e[1] = extreme{v, 1}, e[0]
	case e[1].n > 0 && v == e[1].v:
		e[1].n++
	case e[1].n == 0 || second:
		e[1] = extreme{v, 1}
	}
}

// stand are numbers that people write for no value.
var stand = []float64{-1, -9, -99, -999, -9999, -99999, 99, 999, 9999, 99999, 999999, 9999999}

// Note says what the column of this name may be in truth, in a line for people; nothing if all is as it seems.
func (d *Doubt) Note(name string) string {
	give := func(what string) string {
		return fmt.Sprintf("if so, give \"columns\": {%q: %s} in dataset.json", name, what)
	}
	for unit, k := range d.units {
		if k == d.n {
			return "looks like times since 1970: " + give(fmt.Sprintf("{\"kind\": \"time\", \"unit\": %q}", unit))
		}
	}
	switch lo, hi := d.low, d.high; {
	case d.n < leastKnown && d.zeros == 0:
	case d.compact == d.n:
		return "looks like dates without marks: if so, write 2026-03-01"
	case d.long > 0:
		return "has numbers of more digits than are kept: are they ids? " + give(`"category"`)
	case d.zeros > 0:
		return fmt.Sprintf("%.20q begins with a zero: are these codes? %s", d.zero, give(`"category"`))
	case d.grouped > 0 && d.ungrouped == 0:
		return fmt.Sprintf("%.20q may have a point between thousands: if so, write it without", d.group)
	case lo[0].n > 2 && lo[1].n > 0 && slices.Contains(stand, lo[0].v) && lo[0].v < 0 && lo[1].v >= 0:
		return standsApart(lo[0])
	case hi[0].n > 2 && hi[1].n > 0 && slices.Contains(stand, hi[0].v) && hi[0].v > 0 && hi[1].v < hi[0].v/3:
		return standsApart(hi[0])
	}
	return ""
}

func standsApart(e extreme) string {
	return fmt.Sprintf("%v comes %d times, apart from all others: if it stands for no value, leave it empty", e.v, e.n)
}
