package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior"
)

// Settings are the part of a [Config] on which outcomes depend, that is, all fields except
// Workers, Reserve, Unwatched and Embeddings, and the engine's version. A ledger holds them as a JSON
// object, so that a replay needs no other source. A setting that has a flag of the command
// line has its name and value. A flag that holds several has a name here for each.

// setting is one field of a Config, by its name in a ledger.
type setting struct {
	name   string
	quoted bool // its value is a JSON string
	absent bool // it is left out where its value is ""
	get    func(*Config) string
	set    func(*Config, string) error
}

// settings lists every setting, in the order in which a ledger holds them.
var settings = []setting{
	{
		name: "engine",
		get:  func(*Config) string { return strconv.Itoa(Version) },
		set: func(_ *Config, text string) error {
			if text != strconv.Itoa(Version) {
				return fmt.Errorf("it is of engine %s, and this program has engine %d: use the program that wrote it", text, Version)
			}
			return nil
		},
	},
	{
		name: "head", quoted: true,
		// The head that the model serves by default may also be named: the engine is the same.
		get: func(c *Config) string {
			if c.Head == HeadPaper {
				return HeadPaper
			}
			return "default"
		},
		set: func(c *Config, text string) error {
			switch text {
			case HeadPaper:
				c.Head = HeadPaper
			case "default":
				c.Head = ""
			default:
				return fmt.Errorf("head %q is unknown", text)
			}
			return nil
		},
	},
	number("lambda", func(c *Config) *float64 { return &c.Update.Lambda }),
	number("eta", func(c *Config) *float64 { return &c.Update.Eta }),
	number("beta", func(c *Config) *float64 { return &c.Update.Beta }),
	number("clip", func(c *Config) *float64 { return &c.Update.Clip }),
	number("epsilon", func(c *Config) *float64 { return &c.Update.Epsilon }),
	number("batch", func(c *Config) *float64 { return &c.Update.Batch }),
	named("gradient", func(c *Config) *posterior.Gradient { return &c.Update.Gradient }, posterior.Scaled, posterior.AsWritten),
	{
		name: "fallback", // 0 for never, as the flag has it
		get: func(c *Config) string {
			if c.Fallback < 0 {
				return "0"
			}
			return formatNumber(c.Fallback)
		},
		set: func(c *Config, text string) (err error) {
			if c.Fallback, err = strconv.ParseFloat(text, 64); c.Fallback == 0 {
				c.Fallback = -1
			}
			return err
		},
	},
	number("coverage", func(c *Config) *float64 { return &c.Coverage.Target }),
	named("sets-groups", func(c *Config) *serve.Per { return &c.Coverage.Per }, serve.PerNone, serve.PerClass),
	number("abstain-confidence", func(c *Config) *float64 { return &c.Coverage.MinConfidence }),
	integer("abstain-set-size", func(c *Config) *int { return &c.Coverage.MaxSize }),
	integer("rescore-after", func(c *Config) *int { return &c.Rescore.After }),
	number("rescore-confidence", func(c *Config) *float64 { return &c.Rescore.Confidence }),
	{
		name: "rescore-limit",
		// The limit has an effect only if nodes are predicted again.
		get: func(c *Config) string {
			if !c.Rescore.On() {
				return "0"
			}
			return strconv.Itoa(c.Rescore.Limit)
		},
		set: func(c *Config, text string) (err error) {
			c.Rescore.Limit, err = strconv.Atoi(text)
			return err
		},
	},
	{
		name: "bfloat16",
		get:  func(c *Config) string { return strconv.FormatBool(c.BFloat16) },
		set: func(c *Config, text string) (err error) {
			c.BFloat16, err = strconv.ParseBool(text)
			return err
		},
	},
	integer("samples", func(c *Config) *int { return &c.Samples }),
	integer("bins", func(c *Config) *int { return &c.Bins }),
	integer("pending", func(c *Config) *int { return &c.MaxPending }),
	integer("waiting-labels", func(c *Config) *int { return &c.MaxWaitingLabels }),
	integer("waiting-edges", func(c *Config) *int { return &c.MaxWaitingEdges }),
	named("labels", func(c *Config) *serve.Standing { return &c.Labels }, serve.LastStands, serve.FirstStands),
	integer("learn-lag", func(c *Config) *int { return &c.LearnLag }),
	{
		name: "shards", // engines of 1.0.0 could have a part of a graph
		get:  func(*Config) string { return "1" },
		set: func(_ *Config, text string) error {
			if text != "1" {
				return fmt.Errorf("%.20q shards: gvbll 1.0.0 serves such a graph", text)
			}
			return nil
		},
	},
	optional("act", func(c *Config) string { return c.Act }, func(c *Config, text string) error { c.Act = text; return nil }),
	optional("ask", func(c *Config) string { return c.Ask.String() }, func(c *Config, text string) (err error) {
		c.Ask, err = serve.ParseAsking(text)
		return err
	}),
	optional("label-rates", func(c *Config) string { return string(c.LabelRates) }, func(c *Config, text string) error {
		c.LabelRates = LabelRates(text)
		return nil
	}),
	optional("map", func(c *Config) string { return c.Map }, func(c *Config, text string) error { c.Map = text; return nil }),
	{
		name: "partial-updates", absent: true,
		get: func(c *Config) string {
			if c.PartialUpdates {
				return "true"
			}
			return ""
		},
		set: func(c *Config, text string) (err error) {
			c.PartialUpdates, err = strconv.ParseBool(text)
			return err
		},
	},
	optional("keep", func(c *Config) string { return c.Keep.String() }, func(c *Config, text string) error { return c.Keep.UnmarshalText([]byte(text)) }),
}

// formatNumber returns the shortest text that reads back as v.
func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// optional is a text that is left out where it is "".
func optional(name string, get func(*Config) string, set func(*Config, string) error) setting {
	return setting{name: name, quoted: true, absent: true, get: get, set: set}
}

func number(name string, field func(*Config) *float64) setting {
	return setting{
		name: name,
		get:  func(c *Config) string { return formatNumber(*field(c)) },
		set: func(c *Config, text string) (err error) {
			*field(c), err = strconv.ParseFloat(text, 64)
			return err
		},
	}
}

func integer(name string, field func(*Config) *int) setting {
	return setting{
		name: name,
		get:  func(c *Config) string { return strconv.Itoa(*field(c)) },
		set: func(c *Config, text string) (err error) {
			*field(c), err = strconv.Atoi(text)
			return err
		},
	}
}

// named is a setting whose values have names.
func named[T interface {
	comparable
	fmt.Stringer
}](name string, field func(*Config) *T, values ...T,
) setting {
	return setting{
		name: name, quoted: true,
		get: func(c *Config) string { return (*field(c)).String() },
		set: func(c *Config, text string) error {
			for _, v := range values {
				if v.String() == text {
					*field(c) = v
					return nil
				}
			}
			return fmt.Errorf("%q is unknown", text)
		},
	}
}

// Effective returns c with the settings that have no effect on any of the models at
// their defaults: a pool has its constants from the model file.
func (c Config) Effective(models ...*model.Model) Config {
	if slices.ContainsFunc(models, func(m *model.Model) bool { return !c.ServesPool(m) }) {
		return c
	}
	c.Update, c.Fallback = posterior.DefaultConfig(), serve.DefaultFallback
	return c
}

// Settings returns the settings of a Config with its defaults filled in, as
// [Engine.Config] returns it.
func (c Config) Settings() event.Settings {
	var b []byte
	for i := range settings {
		s := &settings[i]
		if s.absent && s.get(&c) == "" {
			continue
		}
		b = appendMember(b, s.name, s.get(&c), s.quoted)
	}
	return event.Settings(append(b, '}'))
}

// appendMember appends a member to an object that is still open. A value that is no
// JSON by itself, such as +Inf, is quoted.
func appendMember(b []byte, name, value string, quoted bool) []byte {
	if len(b) == 0 {
		b = append(b, '{')
	} else {
		b = append(b, ',')
	}
	b = append(appendQuoted(b, name), ':')
	if quoted || !json.Valid([]byte(value)) {
		return appendQuoted(b, value)
	}
	return append(b, value...)
}

func appendQuoted(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return append(b, quoted...)
}

// ParseSettings returns the Config that has these settings.
func ParseSettings(object event.Settings) (c Config, err error) {
	values, err := object.Values()
	if err != nil {
		return c, fmt.Errorf("settings: %w", err)
	}
	for i := range settings {
		s := &settings[i]
		value, ok := values[s.name]
		if !ok && s.absent {
			continue
		}
		if !ok {
			return c, fmt.Errorf("settings: %s is missing: use the program that wrote them", s.name)
		}
		if err := s.set(&c, value); err != nil {
			return c, fmt.Errorf("settings: %s: %w", s.name, err)
		}
		delete(values, s.name)
	}
	if unknown := slices.Sorted(maps.Keys(values)); len(unknown) > 0 {
		return c, fmt.Errorf("settings: %s is unknown: use the program that wrote them", unknown[0])
	}
	return c.WithDefaults()
}
