package flags

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/structure"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/topics/wire"
)

// Engine are the engine's settings on which its predictions depend.
type Engine struct {
	Head         string      `help:"What predicts: pool, the model's pool of heads, or paper, the paper's head. The pool when left out, if the model has one." enum:",pool,paper" default:"" placeholder:"NAME"`
	Sets         Sets        `embed:"" group:"sets"`
	Rescore      rescoreFlag `help:"Predict nodes again until their label comes, and publish revisions. after=N: whenever N edges were added to a node (1 when left out). confidence=P: publish only what crosses this confidence, up or down. Such as after=3,confidence=0.8; off when left out." placeholder:"NAME=NUMBER,..." group:"revisions"`
	RescoreLimit int         `help:"Predict at most this many nodes again in a window." default:"100" group:"revisions"`
	Ask          askFlag     `help:"Ask for the labels of so many nodes in a second, minute, hour or day of event time, in the topic to-label (docs/labels.md). random=SHARE: this share at random, and the others by the information that a label would bring. Such as 100/d,random=0.1; off when left out." placeholder:"NUMBER/UNIT,..." group:"update"`
	Labels       string      `help:"Which label of a node stands when it gets different ones: last, a later one corrects the one before or withdraws it (docs/wire-format.md); or first, later ones are refused." enum:"last,first" default:"last" placeholder:"last" group:"update"`
	LabelRates   ratesFlag   `help:"Share of each class's nodes whose label comes, such as ok=0.1; a class that is left out has 1, and only ratios matter. counted estimates them. The pool then predicts all nodes, and not those whose label comes (docs/method.md)." placeholder:"CLASS=RATE,..." group:"update"`
	// PartialUpdates is in the ledger, not in the model's schema, because it says what events mean.
	PartialUpdates bool           `help:"An event with features by name changes those that it names, and leaves the others of its node as they are; else these become gaps. It takes some 10 bytes for each value of a node." group:"kafka"`
	Map            mapFlag        `help:"File that says how records of somebody else's JSON become nodes, edges and labels (docs/data.md). 'gvbll map' shows what it makes of a topic." placeholder:"FILE" group:"kafka"`
	Keep           structure.Keep `help:"For how long nodes and edges stay that no event names, by event time, such as nodes=90d,edges=30d, in d, h, m, s or ms (docs/forgetting.md). For ever when left out." placeholder:"nodes=TIME,edges=TIME" group:"state"`
	Paper          Paper          `embed:"" group:"paper"`
	Lag
}

// actFlag says on which predictions to act.
type actFlag string

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *actFlag) UnmarshalText(text []byte) error {
	*f = actFlag(text)
	_, err := serve.ParseActing(string(text))
	return err
}

// askFlag says of how many nodes labels are asked for.
type askFlag struct{ serve.Asking }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *askFlag) UnmarshalText(text []byte) (err error) {
	f.Asking, err = serve.ParseAsking(string(text))
	return err
}

// ratesFlag is the rates of labels.
type ratesFlag pipeline.LabelRates

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *ratesFlag) UnmarshalText(text []byte) error {
	rates, err := pipeline.ParseLabelRates(string(text))
	*f = ratesFlag(rates)
	return err
}

// mapFlag is the text of a map, from a file.
type mapFlag struct{ text string }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *mapFlag) UnmarshalText(path []byte) error {
	m, err := OpenMap(string(path))
	if err == nil {
		f.text = m.Text
	}
	return err
}

// OpenMap reads the file of a map. Its text begins with its hash, by which two are told apart.
func OpenMap(path string) (*wire.Map, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := wire.ParseMap(fmt.Sprintf("# %.8x\n%s", sha256.Sum256(b), b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Lag says when labels are learned.
type Lag struct {
	LearnLag int `help:"Learn the labels of a window this many windows late, on a thread of their own, beside the windows that follow; 1 is enough for that (docs/performance.md). 0 learns them before the next window." default:"0" group:"update"`
}

// Settings returns the engine's configuration. [ValidSettings] checks it.
func (f Engine) Settings() pipeline.Config {
	labels, _ := valueNamed("labels", f.Labels, serve.LastStands, serve.FirstStands) // checked by its enum; "" is the last
	return pipeline.Config{
		Head: f.Head, Labels: labels, Update: f.Paper.Config(), Fallback: OrNone(f.Paper.Fallback),
		Coverage: f.Sets.coverage(), Rescore: pipeline.Rescoring{After: f.Rescore.After, Confidence: f.Rescore.Confidence, Limit: f.RescoreLimit},
		LearnLag: f.LearnLag, Run: beside, Map: f.Map.text, Act: string(f.Sets.Act), Ask: f.Ask.Asking, PartialUpdates: f.PartialUpdates, Keep: f.Keep,
		LabelRates: pipeline.LabelRates(f.LabelRates),
	}
}

// ValidSettings fills in defaults and returns an error for settings out of range.
func ValidSettings(c pipeline.Config) (pipeline.Config, error) {
	c, err := c.WithDefaults()
	return c, SettingError(err)
}

// Check refuses flags that contradict each other or have no effect, whatever the
// model.
func (f Engine) Check(g Given) error {
	if f.Paper.Fallback < 0 {
		return Usagef("--fallback %v: give a number of nats such as 20, or 0 for never", f.Paper.Fallback)
	}
	if f.Rescore != (rescoreFlag{}) && f.RescoreLimit < 1 {
		return Usagef("--rescore-limit %d: give at least 1", f.RescoreLimit)
	}
	return g.Check(
		NoEffect(f.Sets.Coverage.target == 0, "no effect without sets: add --coverage, such as 0.9", "abstain"),
		NoEffect(f.Head == pipeline.HeadPaper, "no effect on the paper's head: leave it out, or serve with a pool", "label-rates"),
		NoEffect(f.Rescore == rescoreFlag{}, "no effect without --rescore: add it, such as after=3", "rescore-limit"),
		NoEffect(f.Head == pipeline.HeadPool, "no effect on a pool, whose heads have their constants from the model: leave it out, or give --head paper", paperFlagNames...),
	)
}

// checkModel refuses flags that have no effect on what the model serves with.
func (f Engine) checkModel(g Given, m *model.Model) error {
	pooled := f.Head == "" && m.Pool != nil
	return g.Check(
		NoEffect(m.Schema == nil, "no effect: model "+m.ID+" has no features by name: leave it out", "partial-updates"),
		NoEffect(pooled, "no effect: model "+m.ID+" serves with its pool of heads: leave it out, or add --head paper", paperFlagNames...),
	)
}

// Proposition1 are the constants of the paper's Proposition 1.
type Proposition1 struct {
	Lambda float64   `help:"Forgetting λ: the share of the past that is kept after 50 labels, from 0 to 1. docs/cli.md has the other constants." default:"0.99"`
	Others constants `embed:"" group:"update"`
}

// constants are those of the update that are rarely changed.
type constants struct {
	Eta      float64 `help:"Step size η of the paper's update." default:"1"`
	Beta     float64 `help:"Strength β of the anchor to the training posterior." default:"0"`
	Clip     float64 `help:"Bound δ on the change of a weight in one update." default:"0.1"`
	Batch    float64 `help:"How many labels, instead of 50, forget λ and pull by β: a smaller batch does so in part, a larger one no more often. 0 for every batch of labels whatever its size." default:"50"`
	Gradient string  `help:"Gradient of the update: scaled, that of the likelihood, or as-written, that of the paper's equations (docs/method.md)." enum:"scaled,as-written" default:"scaled" placeholder:"scaled"`
}

// Config returns the constants as an update has them.
func (f Proposition1) Config() posterior.Config {
	u := posterior.DefaultConfig()
	u.Lambda, u.Eta, u.Beta = f.Lambda, f.Others.Eta, f.Others.Beta
	u.Clip, u.Batch, u.Gradient = f.Others.Clip, f.Others.Batch, posterior.Scaled
	if f.Others.Gradient == posterior.AsWritten.String() {
		u.Gradient = posterior.AsWritten
	}
	return u
}

// Paper are the settings of the paper's head. A pool has none of them.
type Paper struct {
	Proposition1
	Fallback float64 `help:"Serve the model as trained while its log likelihood leads that of the updated one by this many nats; 0 for never." default:"20"`
}

var paperFlagNames = []string{"lambda", "eta", "beta", "clip", "batch", "gradient", "fallback"}

// Sets choose the sets of classes that predictions carry, when to abstain, and on what to act.
type Sets struct {
	Coverage coverageFlag `help:"Add a set of classes to every prediction that holds the right class with this probability, such as 0.9; 0 for no sets. With groups=class after a comma, each class has a threshold of its own." default:"0" placeholder:"0"`
	Abstain  abstainFlag  `help:"Mark predictions to abstain from: confidence=P, those below this confidence; set-size=N, those with a larger set or an empty one. Such as confidence=0.3,set-size=4; none when left out." placeholder:"NAME=NUMBER,..."`
	Act      actFlag      `help:"Say in every prediction whether to act on it (docs/transactions.md). capacity=N/h: on the N most probable nodes of a class an hour of event time (or s, m, d). cost=MISSED:ACTED: where missing one costs more than acting in vain. Such as class=fraud,capacity=50/h or class=fraud,cost=100:1; nothing when left out." placeholder:"class=NAME,..."`
}

func (f Sets) coverage() pipeline.Coverage {
	c := pipeline.Coverage{Target: f.Coverage.target}
	if c.Target != 0 {
		c.Per, c.MinConfidence, c.MaxSize = f.Coverage.per, f.Abstain.Confidence, f.Abstain.SetSize
	}
	return c
}

// coverageFlag is the coverage of sets of classes, and which nodes share a threshold. Its text
// is the target and then, after a comma, groups=class unless all share one.
type coverageFlag struct {
	target float64
	per    serve.Per
}

func (f coverageFlag) String() string {
	if f.per == serve.PerNone {
		return fmt.Sprint(f.target)
	}
	return fmt.Sprintf("%v,groups=%v", f.target, f.per)
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *coverageFlag) UnmarshalText(text []byte) (err error) {
	*f = coverageFlag{}
	target, rest, more := strings.Cut(string(text), ",")
	if f.target, err = strconv.ParseFloat(target, 64); err != nil {
		return fmt.Errorf("%.100q: give a probability first, such as 0.9", target)
	}
	if !more {
		return nil
	}
	name, is := strings.CutPrefix(rest, "groups=")
	if !is {
		return fmt.Errorf("%.100q: give groups=class, or nothing, after the probability", rest)
	}
	f.per, err = valueNamed("groups", name, serve.PerNone, serve.PerClass)
	return err
}

// valueNamed returns the value whose text is the name.
func valueNamed[T fmt.Stringer](what, name string, values ...T) (T, error) {
	i := slices.IndexFunc(values, func(v T) bool { return v.String() == name })
	if i < 0 {
		return values[0], fmt.Errorf("%s %q: give one of %v", what, name, values)
	}
	return values[i], nil
}

// abstainFlag holds the limits beyond which predictions are marked; zero is no limit.
type abstainFlag struct {
	Confidence float64
	SetSize    int
}

func (f *abstainFlag) pairs() []Pair {
	return []Pair{{"confidence", &f.Confidence}, {"set-size", &f.SetSize}}
}

func (f abstainFlag) String() string { return JoinPairs(f.pairs()...) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *abstainFlag) UnmarshalText(text []byte) error {
	if err := ParsePairs(string(text), f.pairs()...); err != nil {
		return err
	}
	switch {
	case !(f.Confidence >= 0 && f.Confidence <= 1):
		return fmt.Errorf("confidence=%v: give a probability", f.Confidence)
	case f.SetSize < 0:
		return fmt.Errorf("set-size=%d: give 1 or more", f.SetSize)
	}
	return nil
}

// rescoreFlag chooses when nodes are predicted again; the zero value does not.
type rescoreFlag struct {
	After      int
	Confidence float64
}

func (f *rescoreFlag) pairs() []Pair {
	return []Pair{{"after", &f.After}, {"confidence", &f.Confidence}}
}

func (f rescoreFlag) String() string { return JoinPairs(f.pairs()...) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *rescoreFlag) UnmarshalText(text []byte) error {
	*f = rescoreFlag{}
	if err := ParsePairs(string(text), f.pairs()...); err != nil {
		return err
	}
	switch {
	case f.After < 0:
		return fmt.Errorf("after=%d: give a number of edges, such as 3", f.After)
	case !(f.Confidence >= 0 && f.Confidence < 1):
		return fmt.Errorf("confidence=%v: give a probability below 1", f.Confidence)
	case *f == rescoreFlag{}:
		return fmt.Errorf("%q: nothing says when to predict again: give after=N or confidence=P", text)
	}
	return nil
}

// OrNone converts a flag's 0, which turns the thing off, to -1, which does so in
// configurations: there 0 stands for the default.
func OrNone(x float64) float64 {
	if x == 0 {
		return -1
	}
	return x
}

// beside runs a job on a goroutine: it is the [pipeline.Config] Run of this program.
func beside(job func()) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		job()
	}()
	return func() { <-done }
}

// ParseSettings returns a configuration of this program's engine, without those settings
// that have no effect on the models.
func ParseSettings(there event.Settings, models []*model.Model) (pipeline.Config, error) {
	cfg, err := pipeline.ParseSettings(there)
	cfg.Unwatched, cfg.Run = true, beside
	return cfg.Effective(models...), err
}
