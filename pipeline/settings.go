package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/setting"
	"github.com/gvbll/gvbll/posterior"
)

// Declare returns the settings of c, bound to its fields, in the order in which a ledger holds them. A
// part that has settings of its own declares them; a new one stands at the end, and is Optional, so that
// ledgers without it stay as they are.
func (c *Config) Declare() *setting.List {
	l := new(setting.List)
	l.Add(setting.Setting{Name: "engine", Value: setting.Plain(
		func() string { return strconv.Itoa(Version) },
		func(text string) error {
			if text != strconv.Itoa(Version) {
				return fmt.Errorf("it is of engine %s, and this program has engine %d: use the program that wrote it", text, Version)
			}
			return nil
		},
	)})
	c.declareHead(l)
	c.declareUpdate(l)
	c.declareFallback(l)
	c.Coverage.Declare(l)
	c.Rescore.Declare(l)
	l.Add(setting.Setting{Name: "bfloat16", Value: setting.Switch(&c.BFloat16)})
	l.Count(setting.Setting{Name: "samples"}, &c.Samples, 16, 0)
	l.Count(setting.Setting{Name: "bins"}, &c.Bins, 10, 0)
	l.Add(setting.Setting{Name: "pending", Value: setting.Integer(&c.Bounds.Pending)})
	l.CheckCount("max-pending", &c.Bounds.Pending, 1<<18, MostPending)
	l.Add(setting.Setting{Name: "waiting-labels", Value: setting.Integer(&c.Bounds.Labels)})
	l.CheckCount("max-waiting-labels", &c.Bounds.Labels, 1<<16, 0)
	l.Add(setting.Setting{Name: "waiting-edges", Value: setting.Integer(&c.Bounds.Edges)})
	l.CheckCount("max-waiting-edges", &c.Bounds.Edges, 1<<18, 0)
	c.Labels.Declare(l)
	l.Count(setting.Setting{
		Name: "learn-lag", Group: "update", Default: "0",
		Help: "Learn labels this many windows late, on a thread of their own (docs/performance.md); 0 before the " +
			"next window.",
	}, &c.LearnLag, 0, MostLearnLag)
	l.Add(setting.Setting{Name: "shards", Value: setting.Plain(
		func() string { return "1" },
		func(text string) error {
			if text != "1" { // engines of 1.0.0 could have a part of a graph
				return fmt.Errorf("%.20q shards: gvbll 1.0.0 serves such a graph", text)
			}
			return nil
		},
	)})
	parts.DeclareActing(l, &c.Act)
	c.Ask.Declare(l)
	c.LabelRates.declare(l, c)
	l.Add(setting.Setting{
		Name: "map", Group: "kafka", Kept: setting.Optional, Placeholder: "FILE", File: true,
		Help:  "File that says how others' JSON becomes nodes, edges and labels (docs/data.md); 'gvbll map' tries it.",
		Value: setting.Text(&c.Reading.Map, func(string) error { return nil }),
	})
	l.Add(setting.Setting{
		Name: "partial-updates", Group: "kafka", Kept: setting.Optional,
		Help:  "An event with features by name leaves the others of its node as they are; else these become gaps.",
		Value: setting.Switch(&c.Reading.Partial),
	})
	c.Keep.Declare(l)
	l.Add(setting.Setting{Name: "reading", Kept: setting.Optional, Value: setting.Plain(
		func() string {
			if c.Reading.First {
				return ""
			}
			return strconv.Itoa(reading)
		},
		func(text string) error {
			if c.Reading.First = false; text != strconv.Itoa(reading) {
				return fmt.Errorf("events are read by rules %.20q, and this program has those of %d: use the program "+
					"that wrote it", text, reading)
			}
			return nil
		},
	)})
	parts.DeclareBy(l, &c.By)
	parts.DeclareReasoning(l, &c.Reasons, &c.Act)
	l.CheckCount("workers", &c.Local.Workers, 1, 0)
	l.CheckCount("reserve", &c.Local.Reserve, 0, 0)
	l.Check(func() error {
		if c.Local.PendingMemory != 0 && (c.Local.PendingMemory < 0 || c.Local.Blocks == nil) {
			return fmt.Errorf("pending-memory %d without blocks: give both, or neither", c.Local.PendingMemory)
		}
		return nil
	})
	return l
}

func (c *Config) declareHead(l *setting.List) {
	l.Add(setting.Setting{
		Name: "head", Kept: setting.Never, Placeholder: "NAME", Only: []string{"", HeadPool, HeadPaper},
		Help:  "What predicts: pool, the model's pool of heads, or paper, the paper's head.",
		Value: setting.Text(&c.Head, func(string) error { return nil }),
	})
	// A ledger's name for the head that the model serves by default: whether it was given or not, the engine is the same.
	l.Add(setting.Setting{Name: "head", Value: setting.Func(
		func() string {
			if c.Head == HeadPaper {
				return HeadPaper
			}
			return "default"
		},
		func(text string) error {
			if text != HeadPaper && text != "default" {
				return fmt.Errorf("head %q is unknown", text)
			}
			c.Head = ""
			if text == HeadPaper {
				c.Head = HeadPaper
			}
			return nil
		},
	)})
	l.Check(func() error {
		if !slices.Contains([]string{"", HeadPaper, HeadPool}, c.Head) {
			return fmt.Errorf("head %q: give %q or %q", c.Head, HeadPool, HeadPaper)
		}
		return nil
	})
}

// ofPaper says that a setting of the paper's head has no effect on a pool.
func (c *Config) ofPaper() string {
	if c.Head == HeadPool {
		return "no effect on a pool, whose heads have their constants from the model: leave it out, or give --head paper"
	}
	return ""
}

// declareUpdate declares the constants of the paper's Proposition 1.
func (c *Config) declareUpdate(l *setting.List) {
	u := &c.Update
	for _, s := range []setting.Setting{
		{
			Name: "lambda", Group: "paper", Value: setting.Number(&u.Lambda), Default: "0.99",
			Help: "Forgetting λ: the share of the past that is kept after 50 labels, from 0 to 1. docs/cli.md has the other constants.",
		},
		{
			Name: "eta", Group: "update", Value: setting.Number(&u.Eta), Default: "1",
			Help: "Step size η of the paper's update.",
		},
		{
			Name: "beta", Group: "update", Value: setting.Number(&u.Beta), Default: "0",
			Help: "Strength β of the anchor to the training posterior.",
		},
		{
			Name: "clip", Group: "update", Value: setting.Number(&u.Clip), Default: "0.1",
			Help: "Bound δ on the change of a weight in one update.",
		},
		{Name: "epsilon", Value: setting.Number(&u.Epsilon)},
		{
			Name: "batch", Group: "update", Value: setting.Number(&u.Batch), Default: "50",
			Help: "How many labels forget λ and pull by β; 0 for every batch whatever its size.",
		},
		{
			Name: "gradient", Group: "update", Value: setting.Named(&u.Gradient, posterior.Scaled, posterior.AsWritten),
			Default: "scaled", Placeholder: "scaled", Only: []string{"scaled", "as-written"},
			Help: "Gradient of the update: scaled, that of the likelihood, or as-written, that of the paper's equations (docs/method.md).",
		},
	} {
		s.Idle = c.ofPaper
		l.Add(s)
	}
	l.Check(func() error {
		if c.Update == (posterior.Config{}) {
			c.Update = posterior.DefaultConfig()
		}
		return c.Update.Validate()
	})
}

// declareFallback declares the fallback, which is 0 for never in flags and ledgers.
func (c *Config) declareFallback(l *setting.List) {
	l.Add(setting.Setting{
		Name: "fallback", Group: "paper", Default: "20", Placeholder: "20", Idle: c.ofPaper,
		Help: "Serve the model as trained while it leads the updated one by this many nats; 0 for never.",
		Value: setting.Plain(
			func() string {
				if c.Fallback < 0 {
					return "0"
				}
				return setting.FormatNumber(c.Fallback)
			},
			func(text string) error {
				x, err := strconv.ParseFloat(text, 64)
				if err != nil || !(x >= 0) {
					return errors.New("give a number of nats such as 20, or 0 for never")
				}
				if c.Fallback = x; x == 0 {
					c.Fallback = -1
				}
				return nil
			},
		),
	})
	l.Check(func() error {
		c.Fallback = cmp.Or(c.Fallback, parts.DefaultFallback)
		if math.IsNaN(c.Fallback) {
			return errors.New("fallback NaN: give a number of nats such as 20, or a negative one for none")
		}
		return nil
	})
}

// Effective returns c with the settings that have no effect on any of the models at
// their defaults: a pool has its constants from the model file.
func (c Config) Effective(models ...*model.Model) Config {
	if slices.ContainsFunc(models, func(m *model.Model) bool { return !c.servesPool(m) }) {
		return c
	}
	c.Update, c.Fallback = posterior.DefaultConfig(), parts.DefaultFallback
	return c
}

// Settings returns the settings on which outcomes depend, and the engine's version, as a ledger holds
// them, so that a replay needs no other source. The defaults of c must be filled in, as [Engine.Config]
// returns it.
func (c Config) Settings() event.Settings { return event.Settings(c.Declare().Object()) }

// ParseSettings returns the Config that has these settings.
func ParseSettings(object event.Settings) (c Config, err error) {
	values, err := object.Values()
	if err == nil {
		c.Reading.First = true // where there is none
		err = c.Declare().SetAll(values)
	}
	if err != nil {
		return c, fmt.Errorf("settings: %w", err)
	}
	return c.WithDefaults()
}
