package setting

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// colour is a value with a name.
type colour int

func (c colour) String() string { return [...]string{"red", "blue"}[c] }

// part is what has settings in these tests.
type part struct {
	rate   float64
	limit  int
	on     bool
	name   string
	colour colour
	secret string
	extra  float64
}

func (p *part) declare() *List {
	l := new(List)
	l.Add(Setting{Name: "rate", Help: "How often.", Value: Number(&p.rate)})
	l.Count(Setting{Name: "limit", Help: "How many."}, &p.limit, 10, 100)
	l.Add(Setting{Name: "on", Value: Switch(&p.on), Kept: Optional})
	l.Add(Setting{Name: "name", Value: Text(&p.name, func(text string) error {
		if strings.Contains(text, " ") {
			return fmt.Errorf("%q: give one word", text)
		}
		return nil
	}), Kept: Optional})
	l.Add(Setting{Name: "colour", Value: Named(&p.colour, 0, 1)})
	l.Add(Setting{Name: "extra", Value: Number(&p.extra), Kept: Optional})
	l.Add(Setting{Name: "secret", Help: "Not in ledgers.", Kept: Never, Value: Text(&p.secret, func(string) error { return nil })})
	return l
}

// TestObject: what a ledger holds has the order of the declarations, leaves out what is optional and not set, and is
// read back as the same.
func TestObject(t *testing.T) {
	for want, p := range map[string]part{
		`{"rate":0.5,"limit":3,"colour":"red"}`:                             {rate: 0.5, limit: 3, secret: "x"},
		`{"rate":"+Inf","limit":0,"on":true,"name":"a\"b","colour":"blue"}`: {rate: math.Inf(1), on: true, name: `a"b`, colour: 1},
		`{"rate":1e-300,"limit":100,"name":"7","colour":"red"}`:             {rate: 1e-300, limit: 100, name: "7"},
		`{"rate":0,"limit":0,"colour":"red","extra":0.5}`:                   {extra: 0.5},
	} {
		if got := string(p.declare().Object()); got != want {
			t.Errorf("%+v is kept as %s, want %s", p, got, want)
		}
	}
	var p part
	if err := p.declare().SetAll(map[string]string{"rate": "2", "limit": "4", "colour": "blue", "on": "true"}); err != nil || p != (part{rate: 2, limit: 4, colour: 1, on: true}) {
		t.Errorf("read as %+v, %v", p, err)
	}
	for remedy, values := range map[string]map[string]string{
		"limit is missing":  {"rate": "1", "colour": "red"},
		"theta is unknown":  {"rate": "1", "limit": "1", "colour": "red", "theta": "1"},
		"secret is unknown": {"rate": "1", "limit": "1", "colour": "red", "secret": "1"},
		"give one word":     {"rate": "1", "limit": "1", "colour": "red", "name": "a b"},
		"one of [red blue]": {"rate": "1", "limit": "1", "colour": "green"},
		`rate: strconv`:     {"rate": "x", "limit": "1", "colour": "red"},
	} {
		if err := new(part).declare().SetAll(values); err == nil || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%v: %v, want an error with %q", values, err, remedy)
		}
	}
}

// TestErr: zero stands for the default of a count, and all that is out of range is said at once.
func TestErr(t *testing.T) {
	var p part
	l := p.declare()
	if err := l.Err(); err != nil || p.limit != 10 {
		t.Errorf("the limit is %d, want the default of 10: %v", p.limit, err)
	}
	p.limit = 101
	l.Check(func() error { return fmt.Errorf("another problem") })
	if err := l.Err(); err == nil || err.Error() != "limit 101: give at most 100\nanother problem" {
		t.Errorf("two problems are %v", err)
	}
	p.limit = -1
	if err := l.Err(); err == nil || !strings.Contains(err.Error(), "limit -1: give a positive number, or 0 for the default of 10") {
		t.Errorf("a negative count is %v", err)
	}
	if list := l.Flags(); len(list) != 3 || list[2].Name != "secret" {
		t.Errorf("%d flags, want those that have help", len(list))
	}
}

// TestPairs: a text holds each name once, and what it says of a wrong one names the others.
func TestPairs(t *testing.T) {
	var rate float64
	var limit int
	pairs := []Pair{{"rate", &rate}, {"limit", &limit}}
	if err := ParsePairs("limit=3, rate=0.5", pairs...); err != nil || rate != 0.5 || limit != 3 || JoinPairs(pairs...) != "rate=0.5,limit=3" {
		t.Errorf("read as %v and %v, printed as %s: %v", rate, limit, JoinPairs(pairs...), err)
	}
	for _, text := range []string{"", "rate", "rate=1,rate=2", "speed=1", "rate=x", "limit=1.5"} {
		if err := ParsePairs(text, pairs...); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
