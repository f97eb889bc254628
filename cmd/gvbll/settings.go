package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/conformal"
)

// engineFlags are the engine's settings on which its predictions depend.
type engineFlags struct {
	Head    string      `help:"What predicts: pool, the model's pool of heads, or paper, the paper's head. The pool when left out, if the model has one." enum:",pool,paper" default:"" placeholder:"NAME"`
	Sets    setFlags    `embed:"" group:"sets"`
	Rescore rescoreFlag `help:"Predict nodes again until their label comes, and publish revisions. after=N: whenever N edges were added to a node (1 when left out). confidence=P: publish only what crosses this confidence, up or down. limit=N: at most N nodes a window (100 when left out). Such as after=3,confidence=0.8; off when left out." placeholder:"NAME=NUMBER,..." group:"revisions"`
	Paper   paperFlags  `embed:"" group:"paper"`
}

// settings returns the engine's configuration. [validSettings] checks it.
func (f engineFlags) settings() pipeline.Config {
	return pipeline.Config{
		Head: f.Head, Update: f.Paper.update(), Fallback: orNone(f.Paper.Fallback),
		Coverage: f.Sets.coverage(), Rescore: pipeline.Rescoring(f.Rescore),
	}
}

// validSettings fills in defaults and returns an error for settings out of range.
func validSettings(c pipeline.Config) (pipeline.Config, error) {
	c, err := c.WithDefaults()
	return c, settingError(err)
}

// check refuses flags that contradict each other or have no effect, whatever the
// model.
func (f engineFlags) check(g given) error {
	if f.Paper.Fallback < 0 {
		return usagef("--fallback %v: give a number of nats such as 20, or 0 for never", f.Paper.Fallback)
	}
	r := f.Rescore
	return g.check(
		noEffect{f.Sets.Coverage == 0, "no effect without sets: add --coverage, such as 0.9", []string{"sets", "abstain"}},
		noEffect{r.After == 0 && r.Confidence == 0, "nothing says when to predict again: add after=N or confidence=P", []string{"rescore"}},
		noEffect{f.Head == pipeline.HeadPool, "no effect on a pool, whose heads have their constants from the model: leave it out, or give --head paper", paperFlagNames},
	)
}

// checkModel refuses flags that have no effect on what the model serves with.
func (f engineFlags) checkModel(g given, m *model.Model) error {
	pooled := f.Head == "" && m.Pool != nil
	return g.check(noEffect{pooled, "no effect: model " + m.ID + " serves with its pool of heads: leave it out, or add --head paper", paperFlagNames})
}

// updateFlags are the constants of the paper's Proposition 1.
type updateFlags struct {
	Lambda float64    `help:"Forgetting λ: the share of the past that a batch of labels keeps, from 0 to 1." default:"0.99"`
	Update updateFlag `help:"The other constants of the update. eta: step size η. beta: strength β of the anchor to the training posterior. clip: bound δ on the change of a weight in one update. walk: variance q that every batch adds to each weight, as if weights walked at random. Those left out keep their defaults." default:"eta=1,beta=0,clip=0.1,walk=0" placeholder:"NAME=NUMBER,..."`
}

func (f updateFlags) update() posterior.Config {
	u := posterior.DefaultConfig()
	u.Lambda, u.Eta, u.Beta, u.Clip, u.Walk = f.Lambda, f.Update.Eta, f.Update.Beta, f.Update.Clip, f.Update.Walk
	return u
}

// updateFlag holds the constants of the update that are rarely changed, by name.
type updateFlag struct{ Eta, Beta, Clip, Walk float64 }

func (f *updateFlag) pairs() []pair {
	return []pair{{name: "eta", number: &f.Eta}, {name: "beta", number: &f.Beta}, {name: "clip", number: &f.Clip}, {name: "walk", number: &f.Walk}}
}

func (f updateFlag) String() string { return joinPairs(f.pairs()...) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *updateFlag) UnmarshalText(text []byte) error {
	d := posterior.DefaultConfig()
	*f = updateFlag{Eta: d.Eta, Beta: d.Beta, Clip: d.Clip, Walk: d.Walk}
	return parsePairs(string(text), f.pairs()...)
}

// paperFlags are the settings of the paper's head. A pool has none of them.
type paperFlags struct {
	updateFlags
	Fallback float64 `help:"Serve the model as trained while its log likelihood leads that of the updated one by this many nats; 0 for never." default:"20"`
}

var paperFlagNames = []string{"lambda", "update", "fallback"}

// setFlags choose the sets of classes that predictions carry, and when to abstain.
type setFlags struct {
	Coverage float64     `help:"Add a set of classes to every prediction that holds the right class with this probability, such as 0.9; 0 for no sets." default:"0"`
	Sets     setsFlag    `help:"How sets are made, as SCORE/METHOD/GROUPS. SCORE: lac (smallest sets), aps or raps (larger for harder nodes). METHOD: thresholds follow the labels by aci or pid, or stay fixed after 500. GROUPS with a threshold of their own: class, slice (by degree) or none." default:"lac/aci/none" placeholder:"lac/aci/none"`
	Abstain  abstainFlag `help:"Mark predictions to abstain from: confidence=P, those below this confidence; set-size=N, those with a larger set or an empty one; outside=X, those whose embedding lies further from those of the first nodes than X times the 99th percentile of their own distances. Such as confidence=0.3,outside=2; none when left out." placeholder:"NAME=NUMBER,..."`
}

func (f setFlags) coverage() pipeline.Coverage {
	c := pipeline.Coverage{Target: f.Coverage}
	if f.Coverage != 0 {
		c.Score, c.Method, c.Per = f.Sets.score, f.Sets.method, f.Sets.per
		c.MinConfidence, c.MaxSize, c.MaxOutside = f.Abstain.Confidence, f.Abstain.SetSize, f.Abstain.Outside
	}
	return c
}

// setsFlag chooses how sets of classes are made. Its text is SCORE/METHOD/GROUPS.
type setsFlag struct {
	score  conformal.Kind
	method conformal.Method
	per    pipeline.Per
}

func (f setsFlag) String() string { return fmt.Sprintf("%v/%v/%v", f.score, f.method, f.per) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *setsFlag) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), "/")
	if len(parts) != 3 {
		return fmt.Errorf("%q: give SCORE/METHOD/GROUPS, such as lac/aci/none", text)
	}
	var err error
	if f.score, err = valueNamed("score", parts[0], conformal.LAC, conformal.APS, conformal.RAPS); err != nil {
		return err
	}
	if f.method, err = valueNamed("method", parts[1], conformal.ACI, conformal.PID, conformal.Fixed); err != nil {
		return err
	}
	f.per, err = valueNamed("groups", parts[2], pipeline.PerNone, pipeline.PerClass, pipeline.PerSlice)
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
	Outside    float64
}

func (f *abstainFlag) pairs() []pair {
	return []pair{{name: "confidence", number: &f.Confidence}, {name: "set-size", count: &f.SetSize}, {name: "outside", number: &f.Outside}}
}

func (f abstainFlag) String() string { return joinPairs(f.pairs()...) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *abstainFlag) UnmarshalText(text []byte) error {
	if err := parsePairs(string(text), f.pairs()...); err != nil {
		return err
	}
	switch {
	case !(f.Confidence >= 0 && f.Confidence <= 1):
		return fmt.Errorf("confidence=%v: give a probability", f.Confidence)
	case f.SetSize < 0:
		return fmt.Errorf("set-size=%d: give 1 or more", f.SetSize)
	case !(f.Outside >= 0):
		return fmt.Errorf("outside=%v: give a positive number, such as 2", f.Outside)
	}
	return nil
}

// rescoreFlag chooses when nodes are predicted again.
type rescoreFlag pipeline.Rescoring

func (f *rescoreFlag) pairs() []pair {
	return []pair{{name: "after", count: &f.After}, {name: "confidence", number: &f.Confidence}, {name: "limit", count: &f.Limit}}
}

func (f rescoreFlag) String() string { return joinPairs(f.pairs()...) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *rescoreFlag) UnmarshalText(text []byte) error {
	f.Limit = 100
	if err := parsePairs(string(text), f.pairs()...); err != nil {
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
