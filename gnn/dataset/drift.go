package dataset

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel/elementary"
)

// DriftConfig configures [Drift]: a growing graph of papers that cite earlier
// ones, whose class shares, features and homophily drift. [DriftPreset] fills
// it, and a caller may set what validate checks. No field has a default: 0 means 0.
//
// The law, for a paper that arrives at time t in years, with y₀ the time when
// training ends, A(t) = 1 from the middle of the stream on and 0 before, and
// clip to ±3:
//
//	class c     ∝ exp(a_c + clip(Share·r_c·(t-y₀)) + ShareJump·j_c·A(t)), once c is born
//	subtopic s  ∝ exp(b_cs + clip(Share·r'_cs·(t-y₀)))
//	crossing    with probability Cross + Hom·max(t-y₀, 0) + HomJump·A(t), in [0, .9]
//	features    x = Wᵀ(m_c(t) + m_cs(t) + Noise·ε) + FeatureNoise·ε' + offset
//	centre      m(t) = cos φ · u + sin φ · v, φ = Rot·speed·(t-y₀) + Jump·sign·A(t)
//	words       x_j = 1 with probability 1/(1 + exp(4 - √Dim·(Wᵀ(m_c(t) + m_cs(t) + Noise·ε))_j)), else 0
//
// where a, b, r, r', j, ε, ε', W and the offset are normal, and each centre
// turns in a plane (u, v) of its own at a speed of its own. A crossing paper
// has nine tenths of the centres of another class, and cites mostly that class.
type DriftConfig struct {
	Name    string
	Seed    uint64
	Nodes   int
	Classes int
	Dim     int // dimension of the features
	Steps   int // number of steps of the stream
	// Sub is the number of subtopics of a class, Latent the dimension of the
	// latent space in which the centres lie.
	Sub, Latent int
	// Years is how long the graph grows, by the factor Growth each year.
	Years  int
	Growth float64
	// Train and Warmup are the fractions of the nodes, in order of arrival, at
	// which training and warm-up end.
	Train, Warmup float64
	// Spread and SubSpread are the standard deviations of a and b: 0 makes all
	// classes, and all subtopics of a class, equally frequent.
	Spread, SubSpread float64

	Citing citing
	// Noise is the standard deviation of a paper about its centre in the latent
	// space, where centres have length 1; FeatureNoise that of each feature.
	Noise, FeatureNoise float64
	// Words makes the features binary and sparse: words that a paper has or not, by
	// the law's last line. FeatureNoise and the offset have no part in it.
	Words bool

	Drift drifting
}

type citing struct {
	// A paper draws 1 + ⌊Cites·e^z⌋ citations, z normal with standard deviation
	// CitesSpread, at most MaxCites. Repeats are dropped.
	Cites, CitesSpread float64
	MaxCites           int
	// Recency is how strongly late entries are preferred among those that can
	// be cited: 1 is not at all. An entry is a paper or a citation of it, so
	// citations attract citations whatever the recency.
	Recency float64
	// Home is the fraction of its citations that a paper which does not cross
	// gives its own class.
	Home float64
	// Cross is the fraction of papers that cross: it makes the graph less
	// homophilous.
	Cross float64
}

type drifting struct {
	// Per year: Rot, the angle of the centres; Share, the log
	// shares of classes and subtopics; Hom, the fraction of crossing papers.
	// Late is the number of classes that are born only in the stream.
	Rot, Share, Hom float64
	Late            int
	// At once, in the middle of the stream: the angle, the log
	// shares, the fraction of crossing papers.
	Jump, ShareJump, HomJump float64
}

// DriftPreset returns the configuration of 20,000 nodes with the drift of that
// name: none, moderate, strong or abrupt. With 169,343 nodes it resembles
// ogbn-arxiv: 128 features, 40 classes, edge homophily .66 (arxiv .655), mean
// degree 13.3 (13.8); with Cites 4.66 besides, it has arxiv's 1.17 million
// edges. With "words-" before the name, features are 600 binary words, of which
// a paper has about 36, as in bags of words of titles and abstracts.
func DriftPreset(name string) (DriftConfig, error) {
	c := DriftConfig{
		Name: "drift-" + name, Seed: 1, Nodes: 20_000, Classes: 40, Dim: 128, Steps: 100, Sub: 5, Latent: 24,
		Years: 30, Growth: 1.2, Train: .537, Warmup: .713, Spread: .9, SubSpread: .7,
		Citing: citing{
			Cites: 4.4816890703380645, CitesSpread: .85, MaxCites: 100, // the median is e^1.5
			Recency: 2.5, Home: .94, Cross: .38,
		},
		Noise: .25, FeatureNoise: .1,
	}
	drift, words := strings.CutPrefix(name, "words-")
	if words {
		c.Name, c.Words, c.Dim, c.FeatureNoise = name, true, 600, 0
	}
	switch drift {
	case "none":
	case "moderate":
		c.Drift.Rot, c.Drift.Share, c.Drift.Hom, c.Drift.Late = .12, .12, .02, 1
	case "strong":
		c.Drift.Rot, c.Drift.Share, c.Drift.Hom, c.Drift.Late = .35, .3, .05, 3
	case "abrupt":
		c.Drift.Jump, c.Drift.ShareJump, c.Drift.HomJump = .9, 1, .15
	default:
		return c, fmt.Errorf("drift %q: give none, moderate, strong or abrupt, or words- and one of these", name)
	}
	return c, nil
}

// Drift generates the graph and its stream: papers are numbered in order of
// arrival, and cite earlier ones. Everything is drawn from one generator seeded
// by the configuration, with the functions of package elementary: equal
// configurations give equal bits on every amd64 machine. (On other processors one
// normal draw in 1,700, for which rand.NormFloat64 takes math.Log, may differ in its
// last bit, of which rounding to float32 leaves nothing in most graphs.)
func Drift(c DriftConfig) (*Dataset, Stream, error) {
	if err := c.validate(); err != nil {
		return nil, Stream{}, err
	}
	g := newDrift(c)
	d := &Dataset{Name: c.Name, Dim: c.Dim, Sparse: c.Words}
	for k := range c.Classes {
		d.Classes = append(d.Classes, "class-"+strconv.Itoa(k))
	}
	subs := make([]int, c.Nodes)
	for i := range c.Nodes {
		p := g.paper(i)
		subs[i] = p.sub
		d.Features = append(d.Features, g.features(p))
		d.Labels = append(d.Labels, int32(p.class))
		d.Time = append(d.Time, math.Trunc(p.t))
		cited := g.cite(p)
		g.enter(int32(i), p.class, p.sub)
		for _, u := range cited {
			d.Edges = append(d.Edges, [2]int32{int32(i), u})
			g.enter(u, int(d.Labels[u]), subs[u])
		}
	}
	train, warm := int(c.Train*float64(c.Nodes)), int(c.Warmup*float64(c.Nodes))
	d.Given = inOrder(c.Nodes, train, warm-train, c.Steps, fmt.Sprintf("in order of arrival, %+v", c))
	s, err := d.Cut(Cut{})
	return d, s, err
}

// validate returns an error for what flags may set out of range, by the name of the flag.
func (c *DriftConfig) validate() error {
	for _, f := range []struct {
		name         string
		v, low, high int
		remedy       string
	}{
		{"nodes", c.Nodes, 100, maxNodes, "such as 20000"},
		{"classes", c.Classes, 2, 1000, "such as 40"},
		{"dim", c.Dim, 1, 1 << 16, "such as 128"},
		{"steps", c.Steps, 1, c.Nodes / 10, "a tenth of the nodes at most"},
		{"late", c.Drift.Late, 0, c.Classes - 1, "such as 0"},
	} {
		if f.v < f.low || f.v > f.high {
			return fmt.Errorf("%s %d: give %d to %d, %s", f.name, f.v, f.low, f.high, f.remedy)
		}
	}
	if least := 10 / float64(c.Nodes); c.Train < least || c.Train > c.Warmup {
		return fmt.Errorf("train-share %v: give %v to %v", c.Train, least, c.Warmup)
	}
	if c.Nodes*c.Dim > maxNumbers {
		return fmt.Errorf("%d nodes × dim %d are more than %d numbers: give less of either", c.Nodes, c.Dim, maxNumbers)
	}
	return nil
}

// drift draws papers. Fields have the names of [DriftConfig]'s law.
type drift struct {
	c   DriftConfig
	rng *rand.Rand

	y0, ys, ya float64   // times: end of training, start of the stream, A(t) becomes 1
	birth      []float64 // by class

	a, r, j    []float64   // by class: log shares, their drift, their jump
	b, rSub    [][]float64 // by class and subtopic: log shares, their drift
	alternates [][]int     // by class: up to four others that its papers cross to
	centre     []plane     // by class
	subCentre  [][]plane   // by class and subtopic
	w          []float64   // the map W, Latent×Dim row-major
	offset     []float64   // Dim
	entries    entries
	weights    []float64 // storage
	latent     []float64 // storage
	seen       map[int32]bool
}

// entries are what can be cited: every paper, and every citation of it.
type entries struct {
	all     []int32
	ofClass [][]int32
	ofSub   [][][]int32 // by class and subtopic
}

// plane is an orthonormal pair u, v in whose plane a centre turns.
type plane struct {
	u, v        []float64
	speed, sign float64
}

// paper holds the properties of a node that are drawn before its features and
// citations.
type paper struct {
	t               float64
	class, sub      int
	crossing        bool
	other, otherSub int
}

// driftStream selects the generator's PCG stream: "drift" in ASCII.
const driftStream = 0x6472696674

func newDrift(c DriftConfig) *drift {
	g := &drift{c: c, rng: rand.New(rand.NewPCG(c.Seed, driftStream)), seen: make(map[int32]bool)}
	g.y0, g.ys, g.ya = g.time(c.Train), g.time(c.Warmup), g.time((1+c.Warmup)/2)
	g.birth = make([]float64, c.Classes)
	g.weights, g.latent = make([]float64, max(c.Classes, c.Sub)), make([]float64, c.Latent)
	g.a, g.r, g.j = g.normals(c.Classes, c.Spread), g.normals(c.Classes, 1), g.normals(c.Classes, 1)
	for k := range c.Drift.Late {
		g.a[k] = .8 // more frequent than most, so that they are seen
		// Births are spread over the first .6 of the stream.
		g.birth[k] = g.ys + float64((float64(k)+.5)/float64(c.Drift.Late)*.6*(float64(c.Years)-g.ys))
	}
	g.entries.ofClass, g.entries.ofSub = make([][]int32, c.Classes), make([][][]int32, c.Classes)
	for k := range c.Classes {
		g.b = append(g.b, g.normals(c.Sub, c.SubSpread))
		g.rSub = append(g.rSub, g.normals(c.Sub, 1))
		g.entries.ofSub[k] = make([][]int32, c.Sub)
		// Four other classes, or as many as there are.
		var others []int
		for _, o := range g.rng.Perm(c.Classes) {
			if o != k && len(others) < 4 {
				others = append(others, o)
			}
		}
		g.alternates = append(g.alternates, others)
		g.centre = append(g.centre, g.plane())
		var subs []plane
		for range c.Sub {
			subs = append(subs, g.plane())
		}
		g.subCentre = append(g.subCentre, subs)
	}
	g.w = g.normals(c.Latent*c.Dim, 1/math.Sqrt(float64(c.Dim)))
	g.offset = g.normals(c.Dim, .3)
	return g
}

func (g *drift) normals(n int, scale float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = scale * g.rng.NormFloat64()
	}
	return x
}

func (g *drift) plane() plane {
	p := plane{u: g.normals(g.c.Latent, 1), v: g.normals(g.c.Latent, 1), speed: math.Abs(g.rng.NormFloat64()), sign: 1}
	if g.rng.IntN(2) == 0 {
		p.sign = -1
	}
	normalize(p.u)
	dot := 0.0
	for i := range p.u {
		dot += float64(p.u[i] * p.v[i])
	}
	for i := range p.v {
		p.v[i] -= float64(dot * p.u[i])
	}
	normalize(p.v)
	return p
}

func normalize(x []float64) {
	sum := 0.0
	for _, v := range x {
		sum += float64(v * v)
	}
	for i := range x {
		x[i] /= math.Sqrt(sum)
	}
}

// time returns the time in years at which the fraction f of the nodes has
// arrived: the number of nodes grows by the factor Growth each year.
func (g *drift) time(f float64) float64 {
	return elementary.Log(1+float64(f*(power(g.c.Growth, g.c.Years)-1))) / elementary.Log(g.c.Growth)
}

// power returns xⁿ, n ≥ 0, by repeated squaring.
func power(x float64, n int) float64 {
	y := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			y *= x
		}
		x *= x
	}
	return y
}

// changed is A(t).
func (g *drift) changed(t float64) float64 {
	if t >= g.ya {
		return 1
	}
	return 0
}

// paper draws a paper's class, subtopic, and whether and where it crosses to.
func (g *drift) paper(i int) paper {
	p := paper{t: g.time((float64(i) + .5) / float64(g.c.Nodes))}
	since := p.t - g.y0
	w := g.weights[:g.c.Classes]
	for k := range w {
		w[k] = math.Inf(-1)
		if p.t >= g.birth[k] {
			w[k] = g.a[k] + clip(g.c.Drift.Share*g.r[k]*since, 3) + float64(g.c.Drift.ShareJump*g.j[k]*g.changed(p.t))
		}
	}
	p.class = g.softmax(w)
	p.sub = g.subtopic(p.class, since)
	cross := g.c.Citing.Cross + float64(g.c.Drift.Hom*max(since, 0)) + float64(g.c.Drift.HomJump*g.changed(p.t))
	p.crossing = g.rng.Float64() < min(max(cross, 0), .9)
	if p.crossing {
		// The alternates are chosen with probabilities .4, .3, .2 and .1.
		u, k := g.rng.Float64(), 0
		for k+1 < len(g.alternates[p.class]) && u >= []float64{.4, .7, .9}[k] {
			k++
		}
		p.other = g.alternates[p.class][k]
		if p.t < g.birth[p.other] {
			p.other = p.class
		}
		w := g.weights[:g.c.Sub]
		copy(w, g.b[p.other])
		p.otherSub = g.softmax(w)
	}
	return p
}

func (g *drift) subtopic(class int, since float64) int {
	w := g.weights[:g.c.Sub]
	for s := range w {
		w[s] = g.b[class][s] + clip(g.c.Drift.Share*g.rSub[class][s]*since, 3)
	}
	return g.softmax(w)
}

func clip(x, limit float64) float64 { return min(max(x, -limit), limit) }

// softmax draws an index in proportion to e^w, and overwrites w.
func (g *drift) softmax(w []float64) int {
	top, sum := math.Inf(-1), 0.0
	for _, v := range w {
		top = max(top, v)
	}
	for k, v := range w {
		w[k] = elementary.Exp(v - top)
		sum += w[k]
	}
	u := g.rng.Float64() * sum
	for k, v := range w {
		if u -= v; u < 0 {
			return k
		}
	}
	for k := len(w) - 1; ; k-- { // u is the sum up to rounding
		if w[k] > 0 {
			return k
		}
	}
}

func (g *drift) features(p paper) gnn.Vector {
	x := g.projected(p)
	if g.c.Words {
		return g.words(x)
	}
	out := make([]float32, g.c.Dim)
	for j := range x {
		out[j] = float32(x[j] + float64(g.c.FeatureNoise*g.rng.NormFloat64()) + g.offset[j])
	}
	return gnn.Vector{Dense: out}
}

// words draws x of words, from the centre and its noise in the space of the features.
func (g *drift) words(x []float64) (v gnn.Vector) {
	scale := math.Sqrt(float64(g.c.Dim)) // so that each is of the order of 1
	for j := range x {
		if g.rng.Float64() < 1/(1+elementary.Exp(4-float64(scale*x[j]))) {
			v.Index, v.Value = append(v.Index, uint32(j)), append(v.Value, 1)
		}
	}
	return v
}

// projected draws Wᵀ(m_c + m_cs + Noise·ε), of the centres of both classes where the
// paper crosses.
func (g *drift) projected(p paper) []float64 {
	clear(g.latent)
	own := 1.0
	if p.crossing {
		own = .1
		g.addCentre(p.other, p.otherSub, p.t, .9)
	}
	g.addCentre(p.class, p.sub, p.t, own)
	x := make([]float64, g.c.Dim)
	for q, l := range g.latent {
		l += float64(g.c.Noise * g.rng.NormFloat64())
		for j := range x {
			x[j] += float64(l * g.w[q*g.c.Dim+j])
		}
	}
	return x
}

// addCentre adds share times the centres of a class and a subtopic at time t to
// latent.
func (g *drift) addCentre(class, sub int, t, share float64) {
	for _, p := range [...]*plane{&g.centre[class], &g.subCentre[class][sub]} {
		angle := float64(g.c.Drift.Rot*p.speed*(t-g.y0)) + float64(g.c.Drift.Jump*p.sign*g.changed(t))
		sin, cos := elementary.SinCos(angle)
		for i := range g.latent {
			g.latent[i] += float64(share * (float64(cos*p.u[i]) + float64(sin*p.v[i])))
		}
	}
}

// cite draws the papers that p cites: preferential attachment with recency, as
// lists have an entry for each citation and late entries are preferred.
func (g *drift) cite(p paper) []int32 {
	// Compared before it is converted: an int holds no infinity.
	draws := 1 + int(min(float64(g.c.Citing.MaxCites-1), g.c.Citing.Cites*elementary.Exp(g.c.Citing.CitesSpread*g.rng.NormFloat64())))
	var cited []int32
	clear(g.seen)
	for range draws {
		list := g.list(p)
		if len(list) == 0 {
			list = g.entries.ofClass[p.class]
		}
		if len(list) == 0 {
			list = g.entries.all
		}
		if len(list) == 0 {
			break
		}
		// The power may round to 1.
		u := list[min(int(g.recent()*float64(len(list))), len(list)-1)]
		if !g.seen[u] {
			g.seen[u] = true
			cited = append(cited, u)
		}
	}
	return cited
}

// recent draws a relative place in a list, in [0, 1]: u^(1/Recency) of a uniform u.
func (g *drift) recent() float64 {
	u := g.rng.Float64()
	if u == 0 {
		return 0
	}
	return elementary.Exp(elementary.Log(u) / g.c.Citing.Recency)
}

func (g *drift) list(p paper) []int32 {
	own, subShare := g.c.Citing.Home, .7 // subShare of the citations of its own class are of its subtopic
	u := g.rng.Float64()
	if p.crossing {
		// .2 to its own class, .6 to the other, .2 to everyone.
		own, subShare = .2, .5
		if u >= .2 && u < .8 {
			return g.entries.ofClass[p.other]
		}
	}
	if u >= own {
		return g.entries.all
	}
	if g.rng.Float64() < subShare {
		return g.entries.ofSub[p.class][p.sub]
	}
	return g.entries.ofClass[p.class]
}

// enter adds an entry of a paper of the given class and subtopic to its three
// lists.
func (g *drift) enter(v int32, class, sub int) {
	g.entries.all = append(g.entries.all, v)
	g.entries.ofClass[class] = append(g.entries.ofClass[class], v)
	g.entries.ofSub[class][sub] = append(g.entries.ofSub[class][sub], v)
}
