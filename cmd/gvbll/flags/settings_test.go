package flags

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/structure"
	"github.com/gvbll/gvbll/posterior"
)

// engineOf returns the configuration of a command line of the engine's flags.
func engineOf(t *testing.T, args ...string) (pipeline.Config, error) {
	t.Helper()
	var c struct {
		Engine Engine `embed:""`
	}
	c.Engine = NewEngine()
	k, err := kong.New(&c, kong.NamedMapper("setting", settingMapper{}))
	must(t, err)
	if _, err = k.Parse(args); err != nil {
		return pipeline.Config{}, err
	}
	cfg, err := c.Engine.Settings("")
	must(t, err)
	cfg.Local.Run = nil
	return ValidSettings(cfg)
}

// TestFlagsOfSettings: without flags every setting has the default of the engine, a flag changes its own
// setting alone, and a text that the setting refuses is an error that names the flag.
func TestFlagsOfSettings(t *testing.T) {
	want, err := pipeline.Config{}.WithDefaults()
	must(t, err)
	got, err := engineOf(t)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("without flags, -engine +flags\n%s", diff)
	}
	want.Update.Clip, want.Update.Gradient, want.Fallback = 0.5, posterior.AsWritten, -1
	want.Coverage = pipeline.Coverage{Target: 0.9, Per: parts.PerClass, MinConfidence: 0.3, MaxSize: 4}
	want.Rescore, want.Keep = pipeline.Rescoring{After: 3, Confidence: 0.8, Limit: 7}, structure.Keep{Nodes: 7_776_000_000}
	want.Ask, want.Act, want.Reading.Partial, want.Labels = parts.Asking{Budget: 5, Per: parts.Day, Random: 0.1}, "class=a,cost=2:1", true, serve.FirstStands
	got, err = engineOf(t, "--clip=0.5", "--gradient=as-written", "--fallback=0", "--coverage=0.9,groups=class", "--abstain=confidence=0.3,set-size=4",
		"--rescore=after=3,confidence=0.8", "--rescore-limit=7", "--keep=nodes=90d", "--ask=5/d", "--act=class=a,cost=2:1", "--partial-updates", "--labels=first")
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with flags, -want +got\n%s", diff)
	}
	for flag, remedy := range map[string]string{
		"--fallback=-3": "give a number of nats", "--coverage=x": "give a probability first", "--coverage=0.9,groups=none1": "none class",
		"--abstain=confidence=2": "give a probability", "--rescore=after=-1": "give a number of edges", "--rescore=confidence=0": "give after=N",
		"--rescore-limit=-1": "give a positive number", "--ask=5": "such as 100/d", "--act=class=a": "capacity=50/h", "--keep=nodes=1": "such as nodes=90d",
		"--label-rates=a=0": "rates above 0", "--labels=middle": "last", "--head=static": "pool", "--lambda=7": "lambda 7", "--learn-lag=1001": "at most 1000",
	} {
		name, _, _ := strings.Cut(flag, "=")
		if _, err := engineOf(t, flag); err == nil || !strings.Contains(err.Error(), remedy) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want an error that names the flag, with %q", flag, err, remedy)
		}
	}
}

// TestRowsFlag: --rows has the format of the graph's vectors, the nodes to allocate memory
// for, or both; what it prints is read as the same.
func TestRowsFlag(t *testing.T) {
	for text, want := range map[string]rowsFlag{
		"float32": {}, "bfloat16": {bfloat16: true}, "reserve=7": {reserve: 7}, "bfloat16,reserve=1000000": {bfloat16: true, reserve: 1_000_000},
	} {
		var got, again rowsFlag
		must(t, got.UnmarshalText([]byte(text)))
		must(t, again.UnmarshalText([]byte(got.String())))
		if got != want || again != want {
			t.Errorf("%s: got %+v, printed as %s and read as %+v, want %+v", text, got, got, again, want)
		}
	}
	for text, want := range map[string]string{
		"": "float32 or bfloat16", "float16": "float32 or bfloat16", "reserve=-1": "give a number of nodes", "bfloat16,": "reserve=NUMBER",
		"bfloat16,reserve=1,reserve=2": "once", "float32,reserve=3000000000": "give a number of nodes", "reserve=1,reserve=2": "float32 or bfloat16",
	} {
		var f rowsFlag
		if err := f.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}
