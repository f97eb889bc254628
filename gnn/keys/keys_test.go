package keys

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/double"
)

// payment is an event of a test.
type payment struct {
	at                int64
	account, merchant string // "" for none
	amount            float64
	label             int32 // none or a class
	known             int64 // when the label comes
	left              bool
}

// declared is what the tests say of payments.
func declared(t testing.TB, text string) Declared {
	t.Helper()
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const everything = `{
	"account": {"link": {"last": 3, "within": "2h"}, "velocity": ["all", "1h", "1d"], "amounts": ["amount"],
		"distinct": ["merchant"], "labels": "fraud"},
	"merchant": {"link": {"last": 1, "kind": "shop", "directed": true}, "velocity": ["30m"], "labels": "fraud"}
}`

// given gives a payment to the state.
func (p *payment) given(s *State) ([]float64, []To) {
	s.Begin(p.at)
	s.Text("account", p.account)
	s.Text("merchant", p.merchant)
	s.Number("amount", p.amount)
	return s.End()
}

// same reports whether numbers have the same bits, or are gaps.
func same(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}

// mean is as pandas' expanding mean, written down anew: compensated, and of equal values their value.
func mean(list []float64) float64 {
	sum, lost, alike := 0., 0., true
	for _, x := range list {
		y := x - lost
		next := sum + y
		lost = next - sum - y
		sum, alike = next, alike && x == list[0]
	}
	if alike && len(list) > 0 {
		return list[0]
	}
	return sum / float64(len(list))
}

// oracle has the columns and links of a payment after those before it, all of which are there.
func oracle(d Declared, before []payment, p *payment, clock int64) map[string]float64 {
	want := make(map[string]float64)
	for name, k := range d {
		of := func(q *payment) string { return map[string]string{"account": q.account, "merchant": q.merchant}[name] }
		if of(p) == "" {
			continue
		}
		var mine []payment
		for _, q := range before {
			if of(&q) == of(p) {
				mine = append(mine, q)
			}
		}
		latest := int64(0)
		labels, frauds := 0., 0.
		gap := int64(math.MinInt64)
		byTime := slices.Clone(mine)
		slices.Reverse(byTime)
		slices.SortStableFunc(byTime, func(a, b payment) int { return int(b.at - a.at) })
		for i, q := range byTime {
			if kept := i < max(k.Link.Last, 1); kept && q.at <= p.at {
				gap = max(gap, q.at)
			}
			latest = max(latest, q.at)
			if q.label >= 0 && q.known < clock {
				labels++
				if q.label == 1 {
					frauds++
				}
			}
		}
		if gap >= 0 {
			want["gap_"+name] = float64(p.at-gap) / 1000
		}
		if labels > 0 {
			want["share_fraud_"+name] = frauds / labels
		}
		for _, span := range k.Velocity {
			suffix, length := "_"+name, span.milliseconds()
			if span != All {
				suffix += "_" + string(span)
			}
			var amounts []float64
			steps := make(map[int64][]float64)
			n, cells := 0., make(map[uint64]bool)
			for _, q := range mine {
				if at := hashOf(q.merchant); q.merchant != "" && (span == All || q.at/1000*1000 > p.at-length) {
					cells[uint64(at)%64] = true
				}
				every := max(length/6, 1)
				if step := q.at / every; span == All || step <= p.at/every && step > p.at/every-6 && step > latest/every-6 {
					n++
					if !math.IsNaN(q.amount) {
						amounts = append(amounts, q.amount)
						steps[step] = append(steps[step], q.amount)
					}
				}
			}
			want["n"+suffix] = n
			average := mean(amounts)
			if span != All {
				sum, of := 0., 0.
				for step := int64(0); len(steps) > 0; step++ {
					one := 0.
					for _, x := range steps[step] {
						one += x
						of++
					}
					sum += one
					delete(steps, step)
				}
				if average = sum / of; len(k.Amounts) > 0 {
					want["sum_amount"+suffix], want["mean_amount"+suffix] = sum, average
				}
			}
			if r := p.amount / average; len(k.Amounts) > 0 && math.Abs(r) <= math.MaxFloat64 {
				want["ratio_amount"+suffix] = r
			}
			if len(k.Distinct) > 0 {
				want["distinct_merchant"+suffix] = 64 * double.Log(64/max(float64(64-len(cells)), .5))
			}
		}
	}
	return want
}

// linked has what edges a payment gets, as event:kind.
func linked(d Declared, before []payment, p *payment) (want []string) {
	for _, name := range []string{"account", "merchant"} {
		of := func(q *payment) string { return map[string]string{"account": q.account, "merchant": q.merchant}[name] }
		link := d[name].Link
		var mine []int
		for i := range before {
			if of(p) != "" && of(&before[i]) == of(p) {
				mine = append(mine, i)
			}
		}
		slices.Reverse(mine)
		slices.SortStableFunc(mine, func(a, b int) int { return int(before[b].at - before[a].at) })
		for _, i := range mine[:min(link.Last, len(mine))] {
			within := link.Within.milliseconds()
			if before[i].at > p.at || within > 0 && before[i].at < p.at-within || before[i].left {
				continue
			}
			want = append(want, fmt.Sprintf("%d:%s", i, link.Kind))
		}
	}
	return want
}

// payments makes payments of a day of few accounts, some late, some without an amount or a merchant.
func payments(seed uint64, n int) (list []payment) {
	rng := rand.New(rand.NewPCG(seed, 3))
	now := int64(1_000_000)
	for range n {
		now += rng.Int64N(300_000)
		p := payment{
			at: now, account: fmt.Sprint("a", rng.IntN(4)), merchant: fmt.Sprint("m", rng.IntN(9)),
			amount: float64(rng.IntN(9999)) / 100,
		}
		switch rng.IntN(12) {
		case 0:
			p.at -= rng.Int64N(min(now, 20_000_000)) // late
		case 1:
			p.amount = math.NaN()
		case 2:
			p.account = ""
		case 3:
			p.merchant = ""
		}
		if p.label = none; rng.IntN(3) > 0 {
			p.label, p.known = int32(rng.IntN(2)), p.at+rng.Int64N(9_000_000)
		}
		list = append(list, p)
	}
	return list
}

// TestColumns: columns and edges have the bits of what is written down plainly over all events before, also for events
// that come late, for labels as late as they are, and after events have left.
func TestColumns(t *testing.T) {
	d := declared(t, everything)
	for seed := range uint64(6) {
		s, err := New(d, []string{"ok", "fraud"})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(seed, 4))
		list := payments(seed, 600)
		clock, names, told := int64(0), d.Columns(), make([]bool, len(list))
		for i := range list {
			p := &list[i]
			clock = max(clock, p.at)
			for j := range list[:i] {
				if q := &list[j]; !told[j] && q.label >= 0 && q.known < clock {
					s.Label(int32(j), none, q.label)
					told[j] = true
				}
			}
			values, links := p.given(s)
			want := oracle(d, list[:i], p, clock)
			for j, name := range names {
				x, has := want[name]
				if !has {
					x = math.NaN()
				}
				if !same(values[j], x) {
					t.Fatalf("seed %d, payment %d: %s is %v, want %v", seed, i, name, values[j], x)
				}
			}
			var got []string
			for _, to := range links {
				got = append(got, fmt.Sprintf("%d:%s", to.Node, to.Kind))
			}
			if want := linked(d, list[:i], p); !slices.Equal(got, want) {
				t.Fatalf("seed %d, payment %d: edges to %v, want %v", seed, i, got, want)
			}
			s.Enter(int32(i))
			if rng.IntN(20) == 0 {
				v := rng.IntN(i + 1)
				list[v].left = true
				s.Leave(int32(v))
			}
		}
	}
}

// TestLeak: a share of labels that counted labels before they came would be another one, and would tell the label: a payment
// whose account has only frauds has that share once they have come, and not before.
func TestLeak(t *testing.T) {
	s, err := New(declared(t, `{"account": {"labels": "fraud"}}`), []string{"ok", "fraud"})
	if err != nil {
		t.Fatal(err)
	}
	list := []payment{{at: 1000, account: "a"}, {at: 2000, account: "a"}, {at: 3000, account: "a"}}
	var shares []float64
	for i := range list {
		if i == 2 {
			s.Label(0, none, 1)
		}
		values, _ := list[i].given(s)
		shares = append(shares, values[0])
		s.Enter(int32(i))
	}
	if !math.IsNaN(shares[1]) || shares[2] != 1 {
		t.Errorf("shares of frauds are %v, want a gap before the first label came, and 1 after it", shares)
	}
	s.Label(0, 1, 0) // corrected
	s.Label(1, none, 1)
	if values, _ := list[2].given(s); values[0] != .5 {
		t.Errorf("the share is %v after one label was corrected and another one came, want .5", values[0])
	}
	s.Label(0, 0, none) // withdrawn
	if values, _ := list[2].given(s); values[0] != 1 {
		t.Errorf("the share is %v after a label was withdrawn, want 1", values[0])
	}
}

// TestMax: of more keys than may be kept the one that came longest ago makes room, whatever their number, and is then a new one.
func TestMax(t *testing.T) {
	const most = 1000
	s, err := New(declared(t, fmt.Sprintf(`{"account": {"link": {"last": 1}, "velocity": true, "max": %d}}`, most)), nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var order []string // of keys, the youngest last
	dropped := 0
	for i := range 20_000 {
		name := fmt.Sprint(rng.IntN(3000))
		p := payment{at: int64(i), account: name}
		values, links := p.given(s)
		at := slices.Index(order, name)
		if known := values[1] > 0; known != (at >= 0) || known != (len(links) > 0) {
			t.Fatalf("event %d: key %s is known: %v, want %v", i, name, known, at >= 0)
		}
		s.Enter(int32(i))
		if at >= 0 {
			order = slices.Delete(order, at, at+1)
		} else if len(order) == most {
			order, dropped = order[1:], dropped+1
		}
		order = append(order, name)
	}
	if s.Len() != most || s.TakeDropped() != dropped {
		t.Errorf("%d keys are kept, want %d; and not %d were dropped", s.Len(), most, dropped)
	}
}

// TestNames: numbers and texts are one key if they are written for each other, and gaps are none.
func TestNames(t *testing.T) {
	s, err := New(declared(t, `{"account": {"velocity": true}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	n := func(give func()) float64 {
		s.Begin(1)
		give()
		values, _ := s.End()
		s.Enter(0)
		return values[1]
	}
	got := []float64{
		n(func() { s.Number("account", 7) }), n(func() { s.Text("account", "7") }), n(func() { s.Text("account", "7.0") }),
		n(func() { s.Text("account", "") }), n(func() { s.Number("account", math.NaN()) }), n(func() { s.Text("merchant", "7") }),
		n(func() { s.Number("account", math.Inf(1)) }),
	}
	gap := math.NaN()
	if want := []float64{0, 1, 2, gap, gap, gap, gap}; !slices.EqualFunc(got, want, same) {
		t.Errorf("numbers of events before are %v, want %v", got, want)
	}
}

// TestHuge: amounts whose sum is beyond all numbers, and times beyond all clocks, give gaps, and no infinity.
func TestHuge(t *testing.T) {
	s, err := New(declared(t, everything), []string{"ok", "fraud"})
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range []int64{math.MaxInt64, math.MinInt64, 0, -1, 1e13, math.MaxInt64} {
		p := payment{at: at, account: "a", merchant: "m", amount: math.MaxFloat64}
		values, _ := p.given(s)
		for j, x := range values {
			if math.IsInf(x, 0) {
				t.Errorf("event %d has %s %v", i, declared(t, everything).Columns()[j], x)
			}
		}
		s.Enter(int32(i))
	}
}

// TestParse: a declaration that cannot be is refused in one line that says what to give.
func TestParse(t *testing.T) {
	list := func(n int, item string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = strings.ReplaceAll(item, "%", strconv.Itoa(i+1))
		}
		return strings.Join(items, ",")
	}
	for text, want := range map[string]string{
		`{"a": {}}`:                    `nothing is made of it`,
		`{"a": {"link": {"last": 0}}}`: `give 1 to 16`,
		fmt.Sprintf(`{"a": {"link": {"last": %d}}}`, 1000*mostLast):                                                                `give 1 to 16`,
		`{"a": {"velocity": [` + list(1000*mostSpans, `"%h"`) + `]}}`:                                                              `at most 8 spans`,
		`{"a": {"velocity": true, "amounts": [` + list(1000*mostOthers, `"x%"`) + `]}}`:                                            `at most 8 spans`,
		`{"a": {"velocity": true, "distinct": [` + list(1000*mostOthers, `"x%"`) + `]}}`:                                           `at most 8 spans`,
		`{` + list(mostKeys, `"k%": {"velocity": [`+list(mostSpans, `"%h"`)+`], "amounts": [`+list(mostOthers, `"x%"`)+`]}`) + `}`: fmt.Sprintf("at most %d are possible", mostColumns),
		`{"a": {"link": {"last": 1, "directed": true}}}`:                                                                           `have a kind`,
		`{"a": {"link": {"last": 1, "within": "all"}}}`:                                                                            `such as 30d`,
		`{"a": {"velocity": ["1 day"]}}`:                                                                                           `such as 30d`,
		`{"a": {"velocity": ["0h"]}}`:                                                                                              `such as 30d`,
		`{"a": {"velocity": ["36526d"]}}`:                                                                                          `such as 30d`,
		`{"a": {"velocity": ["1h", "1h"]}}`:                                                                                        `twice`,
		`{"a": {"velocity": 3}}`:                                                                                                   `"velocity": a number where a list is needed`,
		`{"a": {"labels": "fraud", "amounts": ["x"]}}`:                                                                             `are of spans`,
		`{"a": {"velocity": true, "max": -1}}`:                                                                                     `leave it out`,
		`{"a": {"velocty": true}}`:                                                                                                 `there is no field`,
		`{"a": {"link": {"last": 1, "kind": "k"}}, "b": {"link": {"last": 1, "kind": "k", "directed": true}}}`:                     `twice`,
		"{" + strings.Repeat(`"a": {"velocity": true}, `, 3):                                                                       `EOF`,
		`{` + list(1000*mostKeys, `"k%": {"velocity": true}`) + `}`:                                                                `at most 16`,
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80s: %v, want a line with %q", text, err, want)
		}
	}
	if _, err := New(declared(t, `{"a": {"labels": "fraud"}}`), []string{"ok"}); err == nil || !strings.Contains(err.Error(), "fraud") {
		t.Errorf("a class that the model does not have: %v", err)
	}
}

// FuzzParse: a declaration that is accepted has a state that takes an event, and is read again from its own JSON as the same one.
func FuzzParse(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(`{"a": {"velocity": true, "max": 1}, "": {"labels": "x"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		written, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Parse(written); err != nil || !again.Equal(d) {
			t.Fatalf("%s is read as %v, %v", written, again, err)
		}
		var classes []string
		for _, k := range d {
			classes = append(classes, k.Labels)
		}
		s, err := New(d, classes)
		if err != nil || len(d) == 0 {
			return
		}
		for i := range int64(9) {
			s.Begin(i * 1_000_000)
			for _, name := range d.Inputs() {
				s.Number(name, float64(i))
			}
			s.End()
			s.Enter(int32(i))
			s.Label(int32(i), none, 0)
		}
	})
}
