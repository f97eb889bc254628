package flags

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior"
)

// Engine are the engine's settings on which its predictions depend.
type Engine struct {
	Head    string      `help:"What predicts: pool, the model's pool of heads, or paper, the paper's head. The pool when left out, if the model has one." enum:",pool,paper" default:"" placeholder:"NAME"`
	Sets    Sets        `embed:"" group:"sets"`
	Rescore rescoreFlag `help:"Predict nodes again until their label comes, and publish revisions. after=N: whenever N edges were added to a node (1 when left out). confidence=P: publish only what crosses this confidence, up or down. limit=N: at most N nodes a window (100 when left out). Such as after=3,confidence=0.8; off when left out." placeholder:"NAME=NUMBER,..." group:"revisions"`
	Paper   Paper       `embed:"" group:"paper"`
	Lag
}

// Lag says when labels are learned.
type Lag struct {
	LearnLag int `help:"Learn the labels of a window this many windows late: then they are learned on a thread of their own, beside the windows that follow. 1 is enough for that, and scores follow labels at once. What it gains and costs: docs/performance.md. 0 learns them before the next window." default:"0" group:"windows"`
}

// Settings returns the engine's configuration. [ValidSettings] checks it.
func (f Engine) Settings() pipeline.Config {
	return pipeline.Config{
		Head: f.Head, Update: f.Paper.Config(), Fallback: OrNone(f.Paper.Fallback),
		Coverage: f.Sets.coverage(), Rescore: pipeline.Rescoring(f.Rescore),
		LearnLag: f.LearnLag, Run: beside,
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
	r := f.Rescore
	return g.Check(
		NoEffect(f.Sets.Coverage.target == 0, "no effect without sets: add --coverage, such as 0.9", "abstain"),
		NoEffect(r.After == 0 && r.Confidence == 0, "nothing says when to predict again: add after=N or confidence=P", "rescore"),
		NoEffect(f.Head == pipeline.HeadPool, "no effect on a pool, whose heads have their constants from the model: leave it out, or give --head paper", paperFlagNames...),
	)
}

// checkModel refuses flags that have no effect on what the model serves with.
func (f Engine) checkModel(g Given, m *model.Model) error {
	pooled := f.Head == "" && m.Pool != nil
	return g.Check(NoEffect(pooled, "no effect: model "+m.ID+" serves with its pool of heads: leave it out, or add --head paper", paperFlagNames...))
}

// Proposition1 are the constants of the paper's Proposition 1.
type Proposition1 struct {
	Lambda float64    `help:"Forgetting λ: the share of the past that is kept after 50 labels, from 0 to 1." default:"0.99"`
	Update updateFlag `help:"The other constants of the update. eta: step size η. beta: strength β of the anchor to the training posterior. clip: bound δ on the change of a weight in one update. walk: variance q that every 50 labels add to each weight, as if weights walked at random. batch: how many labels, instead of 50, forget λ, pull by β and add q (a smaller batch does so in part, a larger one no more often); 0 for every batch of labels whatever its size. gradient: scaled, that of the likelihood, or as-written, that of the paper's equations (docs/method.md). Those left out keep their defaults." default:"eta=1,beta=0,clip=0.1,walk=0,batch=50" placeholder:"NAME=VALUE,..."`
}

func (f Proposition1) Config() posterior.Config {
	u := posterior.DefaultConfig()
	u.Lambda, u.Eta, u.Beta = f.Lambda, f.Update.Eta, f.Update.Beta
	u.Clip, u.Walk, u.Batch, u.Gradient = f.Update.Clip, f.Update.Walk, f.Update.Batch, f.Update.Gradient
	return u
}

// updateFlag holds the constants of the update that are rarely changed, by name.
type updateFlag struct {
	Eta, Beta, Clip, Walk, Batch float64
	Gradient                     posterior.Gradient
}

func (f *updateFlag) pairs() []Pair {
	return []Pair{
		{Name: "eta", number: &f.Eta},
		{Name: "beta", number: &f.Beta},
		{Name: "clip", number: &f.Clip},
		{Name: "walk", number: &f.Walk},
		{Name: "batch", number: &f.Batch},
		{Name: "gradient", gradient: &f.Gradient},
	}
}

func (f updateFlag) String() string { return JoinPairs(f.pairs()...) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *updateFlag) UnmarshalText(text []byte) error {
	d := posterior.DefaultConfig()
	*f = updateFlag{Eta: d.Eta, Beta: d.Beta, Clip: d.Clip, Walk: d.Walk, Batch: d.Batch}
	return ParsePairs(string(text), f.pairs()...)
}

// Paper are the settings of the paper's head. A pool has none of them.
type Paper struct {
	Proposition1
	Fallback float64 `help:"Serve the model as trained while its log likelihood leads that of the updated one by this many nats; 0 for never." default:"20"`
}

var paperFlagNames = []string{"lambda", "update", "fallback"}

// Sets choose the sets of classes that predictions carry, and when to abstain.
type Sets struct {
	Coverage coverageFlag `help:"Add a set of classes to every prediction that holds the right class with this probability, such as 0.9; 0 for no sets. With groups=class after a comma, each class has a threshold of its own." default:"0" placeholder:"0"`
	Abstain  abstainFlag  `help:"Mark predictions to abstain from: confidence=P, those below this confidence; set-size=N, those with a larger set or an empty one. Such as confidence=0.3,set-size=4; none when left out." placeholder:"NAME=NUMBER,..."`
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
	return []Pair{{Name: "confidence", number: &f.Confidence}, {Name: "set-size", count: &f.SetSize}}
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

// rescoreFlag chooses when nodes are predicted again.
type rescoreFlag pipeline.Rescoring

func (f *rescoreFlag) pairs() []Pair {
	return []Pair{{Name: "after", count: &f.After}, {Name: "confidence", number: &f.Confidence}, {Name: "limit", count: &f.Limit}}
}

func (f rescoreFlag) String() string { return JoinPairs(f.pairs()...) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *rescoreFlag) UnmarshalText(text []byte) error {
	f.Limit = 100
	if err := ParsePairs(string(text), f.pairs()...); err != nil {
		return err
	}
	switch {
	case f.After < 0:
		return fmt.Errorf("after=%d: give a number of edges, such as 3", f.After)
	case !(f.Confidence >= 0 && f.Confidence < 1):
		return fmt.Errorf("confidence=%v: give a probability below 1", f.Confidence)
	case f.Limit < 1:
		return fmt.Errorf("limit=%d: give at least 1", f.Limit)
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
