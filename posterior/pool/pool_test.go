package pool

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/internal/words"
)

// everything configures heads of every kind, for sparse or dense features.
func everything(dense bool) Config {
	t := Traits{Density: .01, Rows: 1000, Classes: small.Classes, Features: 1000}
	if dense {
		t = Traits{Density: 1, Classes: small.Classes}
	}
	s := Default(t).WithKinds()
	s.Batch = 10
	named(&s, "fitted").Shadow = false
	if !dense {
		named(&s, "wide-own").Wide.Lambda, named(&s, "wide").Wide.Replay = .95, 2
	}
	return s
}

// named returns the head of that name.
func named(s *Config, name string) *HeadConfig {
	i := slices.IndexFunc(s.Heads, func(h HeadConfig) bool { return h.Name == name })
	if i < 0 {
		panic(fmt.Sprintf("no head %q", name))
	}
	return &s.Heads[i]
}

// TestHeadsAreComplete: each head reads no field of Rows but those that it says it needs, and its state has as many numbers as
// it says.
func TestHeadsAreComplete(t *testing.T) {
	for _, dense := range []bool{false, true} {
		cfg := everything(dense)
		p := newPool(t, cfg)
		for i, h := range cfg.Heads {
			var s words.Stream
			p.heads[i].state(&s)
			if words, _ := h.stateWords(small); len(s.B) != int(8*words) {
				t.Errorf("the state of %q has %d bytes, and stateWords says %v", h.Name, len(s.B), 8*words)
			}
			func() {
				defer func() {
					if failed := recover(); failed != nil {
						t.Errorf("%q fails with what it says it needs, %b: %v", h.Name, h.needs(), failed)
					}
				}()
				b := randomBatch(rand.New(rand.NewPCG(8, 9)), 6, small, dense)
				b.leave(h.needs())
				b.Replay.leave(h.needs())
				p.heads[i].train(&b)
				p.heads[i].predict(&b.Rows, make([]float64, b.N*small.Classes))
				b.LogProbs = make([]float32, b.N*p.LogProbsPerRow())
				p.heads[i].learn(&b, 1)
			}()
		}
	}
}

// leave takes all fields away that are not needed.
func (r *Rows) leave(n Need) {
	all := *r
	*r = Rows{N: all.N}
	for need, leave := range map[Need]func(){
		NeedX:        func() { r.X = all.X },
		NeedS:        func() { r.S = all.S },
		needDegree:   func() { r.Degree = all.Degree },
		NeedLabelled: func() { r.Labelled = all.Labelled },
		NeedSecond:   func() { r.Second = all.Second },
		NeedKinds:    func() { r.Kinds = all.Kinds },
		NeedEmbedded: func() { r.Embedded = all.Embedded },
	} {
		if n&need != 0 {
			leave()
		}
	}
}

// small is a shape with which tests are quick.
var small = Shape{Classes: 5, Features: 40, Embedding: 6, Means: 3}

// newPool returns an untrained pool of the small shape.
func newPool(t *testing.T, s Config) *Pool {
	t.Helper()
	p, err := New(s, small, randomPrior(rand.New(rand.NewPCG(5, 6)), small))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// live steps a pool through the batches from from to below to of a stream; batch 0 is for
// training.
func live(p *Pool, dense bool, from, to int) {
	for step := from; step < to; step++ {
		rng := rand.New(rand.NewPCG(7, uint64(step)))
		b := randomBatch(rng, 1+step*4%17, small, dense)
		if step == 0 {
			p.Train(b)
			continue
		}
		b.LogProbs = make([]float32, b.N*p.LogProbsPerRow())
		p.Predict(b.Rows, b.LogProbs)
		p.Learn(b)
	}
}

// TestStateRoundTrip: a pool with a restored state learns the same, and has the same
// changes and version, as the one that was saved.
func TestStateRoundTrip(t *testing.T) {
	for _, dense := range []bool{false, true} {
		p, q := newPool(t, everything(dense)), newPool(t, everything(dense))
		live(p, dense, 0, 6)
		b := p.AppendState([]byte("kept"))
		if err := q.SetState(b[4:]); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(q.AppendState(nil), b[4:]) || string(b[:4]) != "kept" {
			t.Fatal("the restored pool is saved as other bytes, or AppendState does not append")
		}
		live(p, dense, 6, 12)
		live(q, dense, 6, 12)
		if !bytes.Equal(p.AppendState(nil), q.AppendState(nil)) {
			t.Error("the saved and the restored pool differ after the same batches")
		}
		if !bytes.Equal(p.AppendChange(nil), q.AppendChange(nil)) {
			t.Error("the saved and the restored pool have other changes")
		}
		if p.Version() != 11 || q.Version() != 11 {
			t.Errorf("versions %d and %d, want 11", p.Version(), q.Version())
		}
	}
}

// TestSetStateRefuses: damaged states do not panic, and if one is an error the pool keeps
// the state that it had.
func TestSetStateRefuses(t *testing.T) {
	for _, dense := range []bool{false, true} {
		p := newPool(t, everything(dense))
		live(p, dense, 0, 3)
		good := p.AppendState(nil)
		other := newPool(t, everything(dense))
		live(other, dense, 0, 5)
		before := other.AppendState(nil)
		for name, b := range map[string][]byte{
			"longer":       append(slices.Clone(good), 0),
			"empty":        nil,
			"other format": append([]byte{9}, good[1:]...),
		} {
			if other.SetState(b) == nil {
				t.Errorf("%s: SetState succeeded, want an error", name)
			}
		}
		nan := binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.NaN()))
		huge := bytes.Repeat([]byte{0xff}, 8)
		for at := 0; at+8 <= len(good); at += 8 * max(7, len(good)/3000) {
			if other.SetState(good[:at]) == nil {
				t.Fatalf("SetState accepts %d of %d bytes", at, len(good))
			}
			for _, word := range [][]byte{nan, huge} {
				b := slices.Clone(good)
				copy(b[at:], word)
				// A damaged state may be accepted: a counter may be any number.
				if other.SetState(b) != nil && !bytes.Equal(other.AppendState(nil), before) {
					t.Fatalf("the state with damage at %d is refused, but restored in part", at)
				}
				if err := other.SetState(before); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestChangeIsOfABatch: AppendChange leaves out the columns that a batch did not change,
// since it is hashed for every window.
func TestChangeIsOfABatch(t *testing.T) {
	p := newPool(t, everything(false))
	live(p, false, 0, 6)
	rows := Batch{Rows: randomBatch(rand.New(rand.NewPCG(1, 1)), 1, small, false).Rows, Labels: []int32{2}}
	rows.X = Features{Start: []int{0, 1}, Index: []int32{3}, Value: []float32{1}}
	rows.S = Features{Start: []int{0, 0}}
	rows.LogProbs = make([]float32, p.LogProbsPerRow())
	p.Predict(rows.Rows, rows.LogProbs)
	before := p.AppendChange(nil)
	p.Learn(rows)
	after := p.AppendChange(nil)
	if bytes.Equal(before, after) {
		t.Error("the change is the same before and after a batch")
	}
	if state := p.AppendState(nil); len(after) > len(state)/2 {
		t.Errorf("the change by one row has %d bytes, want at most half of the state's %d", len(after), len(state))
	}
}

// TestSameBits: every kernel that this processor has gives the same state.
func TestSameBits(t *testing.T) {
	var want []byte
	kerneltest.AtLevels(t, func(t *testing.T) {
		var all []byte
		for _, dense := range []bool{false, true} {
			p := newPool(t, everything(dense))
			live(p, dense, 0, 8)
			all = p.AppendState(all)
		}
		if want == nil {
			want = all
		} else if !bytes.Equal(all, want) {
			t.Error("the state has other bits than plain Go gives")
		}
	})
}

// TestProbabilitiesSumToOne: Predict writes log probabilities of every head that sum to 1,
// also for rows without features or neighbours.
func TestProbabilitiesSumToOne(t *testing.T) {
	for _, dense := range []bool{false, true} {
		p := newPool(t, everything(dense))
		live(p, dense, 0, 5)
		r := randomBatch(rand.New(rand.NewPCG(1, 2)), 9, small, dense).Rows
		clear(r.Labelled)
		clear(r.Second)
		clear(r.Degree)
		logProbs := make([]float32, r.N*p.LogProbsPerRow())
		p.Predict(r, logProbs)
		for i := range r.N * len(p.Names()) {
			sum := 0.0
			for _, x := range p.of(logProbs, i%r.N, i/r.N) {
				sum += math.Exp(float64(x))
			}
			if math.Abs(sum-1) > 1e-5 {
				t.Fatalf("probabilities sum to %v, want 1", sum)
			}
		}
	}
}

// TestShadowDoesNotServe: a shadow head learns and is scored, and does not change the
// pool's predictions.
func TestShadowDoesNotServe(t *testing.T) {
	with := everything(false)
	without := with
	without.Heads = slices.DeleteFunc(slices.Clone(with.Heads), func(h HeadConfig) bool { return h.Shadow })
	p, q := newPool(t, with), newPool(t, without)
	live(p, false, 0, 6)
	live(q, false, 0, 6)
	if p.scores[0] != q.scores[0] || p.Regret() != q.Regret() {
		t.Errorf("scores %v and regret %v with a shadow, want %v and %v as without", p.scores[0], p.Regret(), q.scores[0], q.Regret())
	}
	w, bias := p.Weights()
	v, other := q.Weights()
	if w[0] != 0 || !slices.Equal(w[1:], v) || !slices.Equal(bias, other) {
		t.Errorf("weights %v with a shadow, want 0 and then %v as without", w, v)
	}
	if s := p.scores[1]; p.Names()[1] != "static" || s.rows == 0 || s.logLoss <= 0 {
		t.Errorf("head %s has scores %v, want static, with rows and a loss", p.Names()[1], s)
	}
}

// TestScoresAreOfServedPredictions: scores and regret are computed from the log
// probabilities that were served, not from what heads predict now.
func TestScoresAreOfServedPredictions(t *testing.T) {
	s := Default(Traits{Features: 1000})
	s.Heads, s.Mixture = []HeadConfig{{Name: "a", Vote: &voteConfig{}}, {Name: "b", Vote: &voteConfig{}}}, nil
	p, err := New(s, Shape{Classes: 2, Features: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := func(x float64) float32 { return float32(math.Log(x)) }
	p.Learn(Batch{
		Rows: Rows{N: 2, Labelled: make([]float32, 4)}, Labels: []int32{0, 1},
		LogProbs: []float32{
			log(.7), log(.3), log(.9), log(.1), log(.5), log(.5),
			log(.6), log(.4), log(.8), log(.2), log(.5), log(.5),
		},
	})
	want := []score{
		{2, 1, -math.Log(.7) - math.Log(.4)},
		{2, 1, -math.Log(.9) - math.Log(.2)},
		{2, 1, -math.Log(.5) - math.Log(.5)},
	}
	for k, s := range p.scores {
		if s.rows != want[k].rows || s.correct != want[k].correct || math.Abs(s.logLoss-want[k].logLoss) > 1e-6 {
			t.Errorf("scores[%d] = %v, want %v", k, s, want[k])
		}
	}
	if got, want := p.Regret(), want[0].logLoss-want[2].logLoss; math.Abs(got-want) > 1e-6 {
		t.Errorf("regret %v, want %v", got, want)
	}
}

// TestEmptyBatchChangesNothing: predicting, training on and learning no rows leaves the
// state as it is.
func TestEmptyBatchChangesNothing(t *testing.T) {
	for _, dense := range []bool{false, true} {
		p := newPool(t, everything(dense))
		live(p, dense, 0, 3)
		before := p.AppendState(nil)
		empty := Batch{}
		if !dense {
			empty.X, empty.S = Features{Start: []int{0}}, Features{Start: []int{0}}
		}
		p.Predict(empty.Rows, nil)
		p.Train(empty)
		if r := p.Learn(empty); len(r) != len(p.Names())-1 {
			t.Errorf("report %+v of an empty batch, want no steps and %d heads", r, len(p.Names())-1)
		}
		if !bytes.Equal(before, p.AppendState(nil)) {
			t.Error("an empty batch changed the state")
		}
	}
}

// TestLearnsOpposites: on a heterophilous graph the compatibility matrix shows that
// neighbours have different classes, and predictions use it.
func TestLearnsOpposites(t *testing.T) {
	s := Default(Traits{Features: 1000})
	s.Heads = []HeadConfig{{Name: "labels", Label: &labelConfig{byCounts}}}
	p, err := New(s, Shape{Classes: 2, Features: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if h := newPool(t, everything(false)).Compatibility(); len(h) != small.Classes*small.Classes {
		t.Errorf("compatibility has %d numbers, want %d", len(h), small.Classes*small.Classes)
	}
	for i := range 100 {
		y := i % 2
		b := Batch{Rows: Rows{N: 1, Labelled: []float32{float32(3 * y), float32(3 - 3*y)}}, Labels: []int32{int32(y)}}
		b.LogProbs = make([]float32, p.LogProbsPerRow())
		p.Predict(b.Rows, b.LogProbs)
		p.Learn(b)
	}
	if score := p.scores[0]; score.correct < 98 {
		t.Errorf("%d of 100 predictions are correct, want at least 98", score.correct)
	}
	if h := p.Compatibility(); !(h[1] > .9 && h[2] > .9) {
		t.Errorf("compatibility %v, want more than .9 between the two classes", h)
	}
}

// TestDefaultFollowsTheData: the default heads depend on density, sign and dimension of the
// training features only.
func TestDefaultFollowsTheData(t *testing.T) {
	dense := Features{Dense: []float32{1, 2, 3, -4, 5, 6}}
	if got := Inspect(dense, 2, 3, 2); got != (Traits{1, true, false, 2, 2, 3}) {
		t.Errorf("traits of dense features %v, want all nonzero, negative ones, and 2 rows of 2 classes", got)
	}
	counts := Features{Start: []int{0, 1, 2}, Index: []int32{0, 7}, Value: []float32{1, 2}}
	if got := Inspect(counts, 2, 8, 2); got != (Traits{.125, false, false, 2, 2, 8}) {
		t.Errorf("traits of counts %v, want a density of .125, no negative ones, and 2 rows of 2 classes", got)
	}
	alikeTraits := Traits{1, false, true, 500, 5, 2}
	alike := Features{Dense: []float32{1, 2, 1, 2}}
	if got := Inspect(alike, 2, 2, 2); !got.Alike || Default(got).Served != 0 || Default(Traits{}).Served != 0.5 {
		t.Errorf("traits of equal rows %v: what was served counts %v for them and %v for others, want 0 and 0.5", got, Default(got).Served, Default(Traits{}).Served)
	}
	names := func(t Traits) (s string) {
		for _, h := range Default(t).Heads {
			if h.Shadow {
				s += "-"
			}
			s += h.Name + " "
		}
		return s
	}
	for traits, want := range map[Traits]string{
		{.01, false, false, 50, 5, 99}:  "-static online wide-own wide now bayes labels labels-scaled ",
		{.01, false, false, 84, 5, 99}:  "-static online wide-own wide now votes bayes labels labels-scaled -fitted ",
		{.01, false, false, 84, 50, 99}: "-static online wide-own wide now votes bayes labels labels-scaled ",
		{.01, true, false, 50, 5, 99}:   "-static online wide-own wide now labels labels-scaled ",
		{.01, false, false, 84, 5, 32}:  "static online now votes labels labels-scaled -fitted ",
		{1, true, false, 50, 5, 99}:     "static online now votes labels labels-scaled -fitted ",
		{1, true, false, 5000, 5, 99}:   "static online now votes labels labels-scaled -fitted ",
		{1, true, false, 5000, 2, 9}:    "static online now votes labels labels-scaled fitted ",
	} {
		if got := names(traits); got != want {
			t.Errorf("%v: heads %s, want %s", traits, got, want)
		}
	}
	if few, many := Default(Traits{Classes: 2}).Weights.Rows, Default(Traits{Classes: 99}).Weights.Rows; few != 2048 || many != weighedRows {
		t.Errorf("products learn from %d rows of a batch of two classes and %d of 99, want 2048 and %d", few, many, weighedRows)
	}
	for features, want := range map[int]int{fewWeights / 5: len(allBlocks), fewWeights/5 + 1: len(allBlocks) - 2} {
		if got := Default(Traits{1, true, false, 5000, 5, features}).Heads[2].Wide.Blocks; len(got) != want {
			t.Errorf("%d dense features: blocks %q, want %d", features, got, want)
		}
	}
	if need := Default(Traits{1, true, false, 5000, 5, 999}).Needs(); need != needDegree|NeedLabelled|NeedSecond|NeedEmbedded {
		t.Errorf("with many rows of dense features the heads need %b, want no features, which the embedding holds", need)
	}
	if got := Default(alikeTraits).Needs(); got&(NeedX|NeedS) != 0 {
		t.Errorf("where features say nothing the heads need %b", got)
	}
}

// TestConfigIsJSON: a configuration is the same after encoding and decoding as JSON, in
// which models store it.
func TestConfigIsJSON(t *testing.T) {
	for _, dense := range []bool{false, true} {
		s := everything(dense)
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back Config
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		if err := d.Decode(&back); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(back)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("got %s (%v)\nwant %s", again, err, b)
		}
	}
}

// TestValidateRefuses: an invalid configuration is an error, for Validate and for New.
func TestValidateRefuses(t *testing.T) {
	for name, spoil := range map[string]func(s *Config){
		"no heads":           func(s *Config) { s.Heads = nil },
		"shadows alone":      func(s *Config) { s.Heads = s.Heads[:1] },
		"same name":          func(s *Config) { s.Heads[1].Name = s.Heads[0].Name },
		"no name":            func(s *Config) { s.Heads[1].Name = "" },
		"the pool's name":    func(s *Config) { s.Heads[1].Name = poolName },
		"two kinds":          func(s *Config) { s.Heads[1].Vote = &voteConfig{} },
		"no kind":            func(s *Config) { named(s, "online").Online = nil },
		"online":             func(s *Config) { named(s, "online").Online.Lambda = 2 },
		"scale":              func(s *Config) { named(s, "wide-own").Wide.Scale = "" },
		"variance":           func(s *Config) { named(s, "wide-own").Wide.Variance = math.Inf(1) },
		"lambda":             func(s *Config) { named(s, "wide-own").Wide.Lambda = 0 },
		"passes":             func(s *Config) { named(s, "wide-own").Wide.Passes = 0 },
		"replay":             func(s *Config) { named(s, "wide-own").Wide.Replay = 1000 * maxReplay },
		"interactions":       func(s *Config) { named(s, "now").Wide.Interactions = -1 },
		"many interactions":  func(s *Config) { named(s, "now").Wide.Interactions = 1000 * maxInteractions },
		"many strengths":     func(s *Config) { named(s, "fitted").Fitted.Strengths = slices.Repeat([]float64{1}, 1000*maxStrengths) },
		"many rows":          func(s *Config) { named(s, "fitted").Fitted.Rows = 1000 * maxRows },
		"many few":           func(s *Config) { named(s, "fitted").Fitted.Few = 1000 * maxRows },
		"of nothing":         func(s *Config) { named(s, "wide-own").Wide.Interactions = 9 },
		"no block":           func(s *Config) { named(s, "wide-own").Wide.Blocks = nil },
		"a block twice":      func(s *Config) { named(s, "wide-own").Wide.Blocks = []Block{OwnFeatures, OwnFeatures} },
		"an unknown block":   func(s *Config) { named(s, "wide-own").Wide.Blocks = []Block{"other"} },
		"smoothing":          func(s *Config) { named(s, "bayes").Bayes.Smoothing = 0 },
		"evidence":           func(s *Config) { named(s, "labels").Label.Evidence = "third" },
		"a product's name":   func(s *Config) { s.Heads[1].Name = productName },
		"mixture heads":      func(s *Config) { s.Mixture.Heads = 1 },
		"mixture rate":       func(s *Config) { s.Mixture.Rate = 1.5 },
		"mixture lambda":     func(s *Config) { s.Mixture.Lambda = 0 },
		"weights total":      func(s *Config) { s.Weights.Total = 0 },
		"weights sd":         func(s *Config) { s.Weights.WeightSD = -1 },
		"bias sd":            func(s *Config) { s.Weights.BiasSD = math.NaN() },
		"floor":              func(s *Config) { s.Weights.Floor = 8 },
		"forgetting weights": func(s *Config) { s.Weights.Lambda = 1.1 },
		"steps":              func(s *Config) { s.Weights.Steps = 0 },
		"batch":              func(s *Config) { s.Batch = 0 },
	} {
		s := everything(false)
		spoil(&s)
		if s.Validate() == nil {
			t.Errorf("%s: Validate succeeded, want an error", name)
		}
		if _, err := New(s, small, nil); err == nil {
			t.Errorf("%s: New succeeded, want an error", name)
		}
	}
	prior := randomPrior(rand.New(rand.NewPCG(1, 2)), Shape{Embedding: 6, Classes: 4})
	for name, make := range map[string]func() (*Pool, error){
		"no prior":      func() (*Pool, error) { return New(everything(false), small, nil) },
		"prior's shape": func() (*Pool, error) { return New(everything(false), small, prior) },
		"prior":         func() (*Pool, error) { return New(everything(false), small, &posterior.Gaussian{}) },
		"one class":     func() (*Pool, error) { return New(withoutEmbedding(0, 1), Shape{Classes: 1, Features: 2}, nil) },
		"features overflow": func() (*Pool, error) {
			return New(withoutEmbedding(0, 1), Shape{Classes: 9, Features: math.MaxInt}, nil)
		},
	} {
		if _, err := make(); err == nil {
			t.Errorf("%s: New succeeded, want an error", name)
		}
	}
}

// TestMisusePanics: a batch whose parts do not fit each other panics before anything is
// learned from it.
func TestMisusePanics(t *testing.T) {
	for name, spoil := range map[string]func(b *Batch){
		"labels":            func(b *Batch) { b.Labels = b.Labels[1:] },
		"label":             func(b *Batch) { b.Labels[0] = int32(small.Classes) },
		"negative label":    func(b *Batch) { b.Labels[0] = -1 },
		"log probabilities": func(b *Batch) { b.LogProbs = b.LogProbs[1:] },
		"starts":            func(b *Batch) { b.X.Start = b.X.Start[1:] },
		"start too large":   func(b *Batch) { b.X.Start[b.N]++ },
		"starts fall":       func(b *Batch) { b.X.Start[1] = b.X.Start[2] + 1 },
		"values":            func(b *Batch) { b.S.Value = b.S.Value[1:] },
		"dense":             func(b *Batch) { b.X = Features{Dense: []float32{1}} },
		"degrees":           func(b *Batch) { b.Degree = nil },
		"counts":            func(b *Batch) { b.Labelled = nil },
		"second":            func(b *Batch) { b.Second = nil },
		"embeddings":        func(b *Batch) { b.Embedded.Z = nil },
		"temperatures":      func(b *Batch) { b.Embedded.Tau = nil },
		"pair":              func(b *Batch) { b.Pairs = [][2]int32{{0, int32(b.N)}} },
		"replayed labels":   func(b *Batch) { b.ReplayLabels = nil },
		"replayed rows":     func(b *Batch) { b.Replay.N++ },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, everything(false))
			b := randomBatch(rand.New(rand.NewPCG(1, 2)), 7, small, false)
			b.LogProbs = make([]float32, b.N*p.LogProbsPerRow())
			p.Predict(b.Rows, b.LogProbs)
			spoil(&b)
			before := p.AppendState(nil)
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
				if !bytes.Equal(before, p.AppendState(nil)) {
					t.Error("the state changed before the panic")
				}
			}()
			p.Learn(b)
		})
	}
}

// TestIsFirstMax: on a tie only the lowest index is the largest.
func TestIsFirstMax(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	for range 1000 {
		logp := make([]float32, 1+rng.IntN(9))
		for c := range logp {
			logp[c] = -float32(rng.IntN(4)) // so that there are equal ones
		}
		for y := range logp {
			if got, want := isFirstMax(logp, y), slices.Index(logp, slices.Max(logp)) == y; got != want {
				t.Fatalf("isFirstMax(%v, %d) = %v, want %v", logp, y, got, want)
			}
		}
	}
}

// TestStateBytes: StateBytes is exactly the length of a state, with which memory is bounded
// before a pool is built.
func TestStateBytes(t *testing.T) {
	for _, dense := range []bool{false, true} {
		p := newPool(t, everything(dense))
		least, _ := p.Config().StateBytes(small)
		if got := float64(len(p.AppendState(nil))); got != least {
			t.Errorf("dense %t: a state without rows of %v bytes, want %v", dense, got, least)
		}
		live(p, dense, 0, 3)
		got := float64(len(p.AppendState(nil)))
		if least, most := p.Config().StateBytes(small); got < least || got > most || least == 0 {
			t.Errorf("dense %t: a state of %v bytes, StateBytes returns %v to %v", dense, got, least, most)
		}
	}
}
