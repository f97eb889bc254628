package flags

import (
	"encoding"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/pool"
)

// TestPairs: flags of several values read what they print, keep the defaults of what is left out, and refuse values out of range, of
// another kind, twice, and of names that they do not have.
func TestPairs(t *testing.T) {
	type flag interface {
		encoding.TextUnmarshaler
		fmt.Stringer
	}
	for name, c := range map[string]struct {
		make func() flag
		read map[string]string // as it is printed
		bad  map[string]string // the error has
	}{
		"checkpoints": {
			func() flag { return new(checkpointsFlag) },
			map[string]string{"keep=1": "every=5m,keep=1", "every=90s": "every=1m30s,keep=3", "keep=2,every=1h": "every=1h,keep=2"},
			map[string]string{
				"every=0s": "every=0s: give a duration", "every=-5m": "give a duration", "every=5": "every", "keep=0": "keep=0: give at least 1",
				"keep=-1": "at least 1", "keep=1.5": "keep", "keep=99999999999999999999": "keep", "keep=1,keep=2": "once", "often=1": "often", "every": "every",
			},
		},
		"base-every": {
			func() flag { return new(BaseEvery) },
			map[string]string{"1h": "1h,keep=3", "90m,keep=100": "1h30m,keep=100", "1ms,keep=1": "1ms,keep=1"},
			map[string]string{
				"": "such as 1h first", "keep=3": "such as 1h first", "0s": "such as 1h", "-1h": "such as 1h", "1h,keep=0": "from 1 to 100",
				"1h,keep=101": "from 1 to 100", "1h,keep=99999999999": "from 1 to 100", "1h,keep=x": "keep", "1h,": "keep",
			},
		},
		"pending": {
			func() flag { return new(Pending) },
			map[string]string{"max=1": "max=1,memory=1GiB", "memory=1MiB": "max=262144,memory=1MiB", "memory=2048KiB,max=1073741824": "max=1073741824,memory=2MiB"},
			map[string]string{
				"max=0": "from 1 to 1073741824", "max=1073741825": "from 1 to 1073741824", "max=-1": "from 1", "memory=1023KiB": "at least 1MiB",
				"memory=0B": "at least 1MiB", "memory=1GB": "size", "memory=9999999999TiB": "size", "memory=1": "size", "min=1": "min",
			},
		},
	} {
		for text, want := range c.read {
			f, again := c.make(), c.make()
			must(t, f.UnmarshalText([]byte(text)))
			must(t, again.UnmarshalText([]byte(f.String())))
			if f.String() != want || again.String() != want {
				t.Errorf("%s %s is printed as %s, and that as %s, want %s", name, text, f, again, want)
			}
		}
		for text, want := range c.bad {
			if err := c.make().UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s %q: error %v, want one line with %q", name, text, err, want)
			}
		}
	}
}

// givenFlags are flags that were given on the command line.
func givenFlags(names ...string) Given {
	g := Given{flags: map[string]givenFlag{}, log: slog.New(slog.DiscardHandler)}
	for _, n := range names {
		g.flags[n] = givenFlag{text: "--" + n + " X"}
	}
	return g
}

// TestGraphChecks: flags of a graph that are out of range, or without an effect beside the others.
func TestGraphChecks(t *testing.T) {
	graph := func(change func(*Graph)) Graph {
		f := Graph{Workers: 1, Engine: NewEngine("head")}
		change(&f)
		return f
	}
	for _, c := range []struct {
		what  string
		f     Graph
		given Given
		want  string
	}{
		{"as it comes", graph(func(*Graph) {}), givenFlags("workers"), ""},
		{"as many as there are", graph(func(f *Graph) { f.Workers = 0 }), givenFlags("workers"), ""},
		{"fewer", graph(func(f *Graph) { f.Workers = -7 }), givenFlags(), "--workers -7: give at least 1"},
		{"checkpoints nowhere", graph(func(*Graph) {}), givenFlags("checkpoints"), "--checkpoints X: no effect without --state-dir"},
		{"bases nowhere", graph(func(*Graph) {}), givenFlags("base"), "--base X: no effect without --state-dir"},
		{"with a folder", graph(func(f *Graph) { f.State.StateDir = "state" }), givenFlags("base", "checkpoints"), ""},
	} {
		if err := c.f.Check(c.given); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.what, err, c.want)
		}
	}
}

// TestFlagsOfTheModel: what has no effect on the model that serves is refused: features by name where it has no schema, and constants of
// the paper's head where its pool serves.
func TestFlagsOfTheModel(t *testing.T) {
	plain, named, pooled := &model.Model{ID: "m"}, &model.Model{ID: "m"}, &model.Model{ID: "m"}
	named.Schema, pooled.Pool = new(attributes.Schema), new(pool.Config)
	for _, c := range []struct {
		what, head, flag string
		m                *model.Model
		want             string
	}{
		{"a constant of the paper's head", "", "lambda", plain, ""},
		{"of a pool", "", "lambda", pooled, "--lambda X: no effect: model m serves with its pool of heads"},
		{"the fallback of a pool", "", "fallback", pooled, "add --head paper"},
		{"of a pool that does not serve", "paper", "lambda", pooled, ""},
		{"partial updates without names", "", "partial-updates", plain, "model m has no features by name"},
		{"with names", "", "partial-updates", named, ""},
	} {
		if err := checkModel(givenFlags(c.flag), c.head, c.m, ""); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.what, err, c.want)
		}
	}
	if err := NewEngine("lambda").Check(givenFlags("lambda"), "pool"); err == nil || !strings.Contains(err.Error(), "--lambda X: no effect on a pool") {
		t.Errorf("a pool with --lambda: error %v, want that it has no effect", err)
	}
	if err := NewEngine("lambda").Check(givenFlags("lambda"), "paper"); err != nil {
		t.Errorf("the paper's head with --lambda: %v", err)
	}
}
