package main

import (
	"fmt"
	"log/slog"
	"os"
	"reflect"

	"github.com/alecthomas/kong"
)

// given are the flags of a command that were given, by name: on the command line,
// in the environment or in the file of flags.
type given map[string]givenFlag

type givenFlag struct {
	text  string // the flag with its value
	where string // the source, in parentheses; "" for the command line
}

// flagsGiven returns the given flags of a parsed command line.
func flagsGiven(k *kong.Context) given {
	g := given{}
	for _, f := range k.Flags() {
		for _, name := range f.Envs {
			if os.Getenv(name) != "" {
				g[f.Name] = givenFlag{asGiven(f), " ($" + name + ")"}
			}
		}
	}
	for _, p := range k.Path {
		switch {
		case p.Flag == nil:
		case p.Resolved:
			g[p.Flag.Name] = givenFlag{asGiven(p.Flag), " (in the file of flags)"}
		default:
			g[p.Flag.Name] = givenFlag{asGiven(p.Flag), ""}
		}
	}
	return g
}

// asGiven returns a flag in the form of a command line.
func asGiven(f *kong.Flag) string {
	if f.IsBool() {
		return "--" + f.Name
	}
	return fmt.Sprintf("--%s %v", f.Name, reflect.Indirect(f.Target))
}

// refuse reports given flags that have no effect: those of the command line by an error,
// those of the environment or the file, which other commands may share, by a warning.
// why gives the reason and the remedy.
func (g given) refuse(why string, flags ...string) error {
	for _, name := range flags {
		f, ok := g[name]
		switch {
		case !ok:
		case f.where == "":
			return usagef("%s: %s", f.text, why)
		default:
			slog.Warn(f.text + f.where + ": " + why)
		}
	}
	return nil
}

// noEffect is a rule: when it holds, the flags have no effect, for the reason why, which
// ends with the remedy.
type noEffect struct {
	when  bool
	why   string
	flags []string
}

// check applies rules in order.
func (g given) check(rules ...noEffect) error {
	for _, r := range rules {
		if r.when {
			if err := g.refuse(r.why, r.flags...); err != nil {
				return err
			}
		}
	}
	return nil
}
