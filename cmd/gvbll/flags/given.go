package flags

import (
	"cmp"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gvbll/gvbll/charts/page"
)

// Given are the flags of a command that were given, by name: on the command line,
// in the environment or in the file of flags.
type Given struct {
	flags map[string]givenFlag
	log   *slog.Logger
}

type givenFlag struct {
	text  string // the flag with its value
	where string // the source, in parentheses; "" for the command line
}

// givenOf returns the given flags of a parsed command line.
func givenOf(k *kong.Context, p Process) Given {
	g := Given{make(map[string]givenFlag), p.Log}
	for _, at := range k.Path {
		f := at.Flag
		if f == nil {
			continue
		}
		value, set := p.lookup(variable(f.Name))
		switch {
		case !at.Resolved:
			g.flags[f.Name] = givenFlag{asGiven(f), ""}
		case !set:
			g.flags[f.Name] = givenFlag{asGiven(f), " (in the file of flags)"}
		case value != "":
			g.flags[f.Name] = givenFlag{asGiven(f), " ($" + variable(f.Name) + ")"}
		}
	}
	return g
}

// OnLine reports whether a flag is given on the command line.
func (g Given) OnLine(flag string) bool {
	f, ok := g.flags[flag]
	return ok && f.where == ""
}

// asGiven returns a flag in the form of a command line.
func asGiven(f *kong.Flag) string {
	if f.IsBool() {
		return "--" + f.Name
	}
	return "--" + f.Name + " " + flagValue(f)
}

// InForce returns all flags of the command with their values, for people to look at. No
// flag's value is a secret.
func InForce(k *kong.Context, g Given) (list []page.Flag) {
	for _, f := range k.Flags() {
		if f.Name == "help" {
			continue
		}
		flag := page.Flag{Name: f.Name, Value: flagValue(f)}
		if set, ok := g.flags[f.Name]; ok {
			flag.From = cmp.Or(strings.TrimPrefix(strings.Trim(set.where, " ()"), "in "), "the command line")
		}
		list = append(list, flag)
	}
	slices.SortFunc(list, func(a, b page.Flag) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// flagValue returns the value of a flag, in the form that it has on a command line; "" for
// none.
func flagValue(f *kong.Flag) string {
	v := f.Target
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	if list, ok := v.Interface().([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(v)
}

// refuse reports given flags that have no effect: those of the command line by an error,
// those of the environment or the file, which other commands may share, by a warning.
// why gives the reason and the remedy.
func (g Given) refuse(why string, flags ...string) error {
	for _, name := range flags {
		f, ok := g.flags[name]
		switch {
		case !ok:
		case f.where == "":
			return Usagef("%s: %s", f.text, why)
		default:
			g.log.Warn(f.text + f.where + ": " + why)
		}
	}
	return nil
}

// rule says when flags have no effect.
type rule struct {
	when  bool
	why   string
	flags []string
}

// NoEffect returns a rule: when it holds, the flags have no effect, for the reason why, which
// ends with the remedy.
func NoEffect(when bool, why string, flags ...string) rule { return rule{when, why, flags} }

// Check applies rules in order.
func (g Given) Check(rules ...rule) error {
	for _, r := range rules {
		if r.when {
			if err := g.refuse(r.why, r.flags...); err != nil {
				return err
			}
		}
	}
	return nil
}
