package dataset

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/kernel/elementary"
)

// PaymentsConfig configures [Payments].
type PaymentsConfig struct {
	Payments int
	Seed     uint64
	OneIn    int     // a payment in so many is a fraud
	Drift    float64 // of frauds: 0 is none, 1 leaves little of what they were in training
	Abrupt   bool    // in the middle of the stream, and not all along it
}

// PaymentsDrift returns the drift of that name: none, moderate, strong or abrupt.
func PaymentsDrift(name string) (drift float64, abrupt bool, err error) {
	switch name {
	case "none":
		return 0, false, nil
	case "moderate":
		return .4, false, nil
	case "strong":
		return 1, false, nil
	case "abrupt":
		return 1, true, nil
	}
	return 0, false, fmt.Errorf("drift %q: give none, moderate, strong or abrupt", name)
}

// A year of payments. The first third trains; labels are then complete when the stream begins,
// since the last is known when those of the warm-up have all come.
const (
	paymentsBegin = 1767225600000 // 2026-01-01, in milliseconds since 1970
	day           = 24 * 60 * 60 * 1000
	paymentDays   = 365
	trainDays     = 120
	warmupDays    = 60
	ringDays      = 15 // that a ring of frauds is active; there are two at a time
	// A chargeback comes 20 to 60 days after its payment. What has none by then was honest.
	leastLate, mostLate = 20, 60
)

// Payments generates a year of payments as nodes. Each has edges to its card, its merchant and
// its device, which are context without features, and to the payment before it of each, with
// the weight 1/(1 + days between them): edges of three kinds. Nodes are in order of arrival;
// known has the time, in milliseconds since 1970, at which the label of each is known.
//
// Frauds are of rings. A ring has two devices, eight stolen cards and three shops, and pays
// larger amounts, mostly from the web and abroad. By the end of a strong drift, frauds pay
// as little as the honest, from the app, and at home: what remains is the company they keep.
func Payments(c PaymentsConfig) (d *Dataset, known []int64, err error) {
	switch {
	case c.Payments < 1000 || c.Payments > 10_000_000:
		return nil, nil, fmt.Errorf("nodes %d: give 1000 to 10000000 payments, such as 20000", c.Payments)
	case c.OneIn < 2 || c.OneIn > c.Payments/10:
		return nil, nil, fmt.Errorf("one-in %d: give 2 to a tenth of the payments, such as 300", c.OneIn)
	}
	p := &payments{c: c, rng: rand.New(rand.NewPCG(c.Seed, 0x7061796d)), number: make(map[string]int32), last: make(map[int32]int32)}
	p.d = &Dataset{
		Name: "payments", Classes: []string{"honest", "fraud"}, Kinds: gnn.EdgeKinds{{Name: "card"}, {Name: "device"}, {Name: "merchant"}},
		Table: []attributes.Column{
			{Name: "amount", Kind: attributes.Number},
			{Name: "channel", Kind: attributes.Category},
			{Name: "abroad", Kind: attributes.Boolean},
			{Name: "since", Kind: attributes.Number},
		},
		Given: &GivenSplit{How: fmt.Sprintf("by time, %+v", c)},
	}
	for i := range c.Payments {
		p.pay(float64((float64(i) + float64(p.rng.Float64())) / float64(c.Payments) * paymentDays))
	}
	p.d.Features = make([]gnn.Vector, len(p.d.Labels))
	return p.d, p.known, nil
}

type payments struct {
	c      PaymentsConfig
	rng    *rand.Rand
	d      *Dataset
	known  []int64
	number map[string]int32 // of cards, merchants and devices, by id
	last   map[int32]int32  // the last payment of each
	paid   int
}

// pay adds a payment at a time in days.
func (p *payments) pay(at float64) {
	card, merchant := p.skewed(p.c.Payments/12, 1.5), p.skewed(max(p.c.Payments/100, 20), 2)
	device, fraud := card, p.rng.IntN(p.c.OneIn) == 0
	if p.rng.Float64() < .05 {
		device = p.rng.IntN(p.c.Payments) // another one
	}
	// By merchant, the logarithm of the honest amount.
	amount, spread := 3+float64(1.2*p.of("amount", merchant)), .7
	web, app, abroad := .3, .15, .06
	if fraud {
		ring := int(at/ringDays)*2 + p.rng.IntN(2)
		card = int(p.of("stolen", ring*8+p.rng.IntN(8)) * float64(p.c.Payments/12))
		device = p.c.Payments + ring*2 + p.rng.IntN(2)
		if p.rng.Float64() < .7 {
			merchant = int(p.of("shop", ring*3+p.rng.IntN(3)) * float64(max(p.c.Payments/100, 20)))
		}
		drift := p.drift(at)
		amount, spread = 5.2-float64(1.6*drift), .6
		web, app, abroad = .8-float64(.6*drift), .1+float64(.6*drift), .5-float64(.44*drift)
	}
	value := elementary.Exp(amount + float64(spread*p.rng.NormFloat64()))
	channel := "shop"
	if u := p.rng.Float64(); u < web {
		channel = "web"
	} else if u < web+app {
		channel = "app"
	}
	time := int64(paymentsBegin) + int64(at*day)
	ends := [3]int32{p.entity("card", card, time), p.entity("device", device, time), p.entity("merchant", merchant, time)}
	since := ""
	if before, again := p.last[ends[0]]; again {
		since = strconv.FormatFloat((float64(time)-p.d.Time[before])/day, 'f', 3, 64)
	}
	late, label := float64(mostLate), int32(0)
	if fraud {
		late, label = leastLate+float64(p.rng.Float64()*(mostLate-leastLate)), 1
	}
	p.paid++
	v := p.add(fmt.Sprint("payment-", p.paid), label, time, time+int64(late*day), strconv.FormatFloat(value, 'f', 2, 64),
		channel, strconv.FormatBool(p.rng.Float64() < abroad), since)
	part := InTest
	switch {
	case at < trainDays:
		part = InTrain
	case at < trainDays+warmupDays:
		part = inValid
	}
	p.d.Given.Parts[v] = part
	for kind, u := range ends {
		p.link(v, u, kind, 1)
		if before, again := p.last[u]; again {
			p.link(v, before, kind, float32(1/(1+(float64(time)-p.d.Time[before])/day)))
		}
		p.last[u] = v
	}
}

// skewed draws one of n, the first ones more often the larger the power is.
func (p *payments) skewed(n int, power float64) int {
	return min(int(elementary.Exp(float64(power*elementary.Log(1-float64(p.rng.Float64()))))*float64(n)), n-1)
}

// of returns what is drawn once and for all for the i-th of something: uniform below 1.
func (p *payments) of(what string, i int) float64 {
	seed := p.c.Seed
	for _, b := range []byte(what) {
		seed = seed*31 + uint64(b)
	}
	return rand.New(rand.NewPCG(seed, uint64(i))).Float64()
}

// drift is how far frauds have drifted: 0 in training, from then on up to c.Drift.
func (p *payments) drift(at float64) float64 {
	const begin = trainDays + warmupDays
	share := math.Max(0, (at-trainDays)/(paymentDays-trainDays))
	if p.c.Abrupt {
		share = 0
		if at > (begin+paymentDays)/2 {
			share = 1
		}
	}
	return float64(p.c.Drift * share)
}

// entity returns the node of a card, device or merchant, which comes when it is first used.
func (p *payments) entity(kind string, i int, time int64) int32 {
	id := fmt.Sprint(kind, "-", i)
	v, known := p.number[id]
	if !known {
		v = p.add(id, Unlabelled, time, 0, "", "", "", "")
		p.d.Context[v] = true
		p.number[id] = v
	}
	return v
}

func (p *payments) add(id string, label int32, time, known int64, texts ...string) (v int32) {
	d := p.d
	v = int32(len(d.Labels))
	d.IDs.Texts, d.Labels, d.Time, d.Context = append(d.IDs.Texts, id), append(d.Labels, label),
		append(d.Time, float64(time)), append(d.Context, false)
	d.Given.Parts, p.known = append(d.Given.Parts, InNone), append(p.known, known)
	for i, text := range texts {
		d.Table[i].Texts = append(d.Table[i].Texts, text)
	}
	return v
}

func (p *payments) link(v, u int32, kind int, weight float32) {
	p.d.Edges, p.d.Marks = append(p.d.Edges, [2]int32{v, u}), append(p.d.Marks, Mark{Kind: uint8(kind), Weight: weight})
}
