package flags

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/setting"
)

// Graph are the flags of the commands that step the engine of a graph and may write
// to its ledger: the terms of an epoch, and where state is kept.
type Graph struct {
	Model  string `help:"Model file, from 'gvbll train'." required:"" type:"path" placeholder:"FILE"`
	Shadow string `help:"@graph_shadow" type:"path" placeholder:"FILE"`

	Kafka    Inputs   `embed:""`
	Registry Registry `help:"@graph_registry" placeholder:"URL" group:"kafka"`
	State    State    `embed:"" group:"state"`
	Engine   Engine   `embed:""`

	Workers int      `help:"@graph_workers" default:"0" group:"machine"`
	Rows    rowsFlag `help:"@graph_rows" default:"float32" placeholder:"float32" group:"machine"`
}

var graphHelp = Texts{
	"graph_shadow": "Second model file, to run in the shadow: on the same stream, at the same cost (docs/recipes.md).",
	"graph_registry": "Schema registry of records in Avro or Protobuf (docs/data.md), with " +
		",user=NAME,password=FILE or ,token=FILE to log in.",
	"graph_workers": "Threads that share the arithmetic of a window, 0 for the machine's, at most 4, and 1 for a cell. " +
		"The results are the same.",
	"graph_rows": "The graph's vectors: float32, or bfloat16 in two thirds of the memory. reserve=N: memory for N " +
		"nodes at the start.",
}

// Check refuses values out of range, and flags without an effect whatever the model.
func (f Graph) Check(g Given) error {
	if f.Workers < 0 {
		return Usagef("--workers %d: give at least 1, or 0 for as many as the machine has", f.Workers)
	}
	if i, err := os.Stat(f.State.StateDir); err == nil && !i.IsDir() {
		return Usagef("--state-dir %s: it is a file: give a folder", f.State.StateDir)
	}
	if err := f.Engine.Check(g, ""); err != nil {
		return err
	}
	return g.Check(NoEffect(f.State.StateDir == "", "no effect without --state-dir: add it, or leave this out", "checkpoints", "base"))
}

// Open returns the engine's settings and models.
func (f Graph) Open(g Given) (pipeline.Config, []*model.Model, error) {
	cfg, err := f.Engine.Settings("")
	if err != nil {
		return cfg, nil, err
	}
	cfg.Local.Workers = cmp.Or(f.Workers, min(runtime.GOMAXPROCS(0), 4)) // a window's products are a fifth of its time
	cfg.BFloat16, cfg.Local.Reserve, cfg.Bounds.Pending = f.Rows.bfloat16, f.Rows.reserve, f.State.Pending.Max
	cfg.Keep.Median = true // service.AsWritten has what a ledger of before has
	cfg, err = ValidSettings(cfg)
	if err != nil {
		return cfg, nil, err
	}
	models, err := OpenModels(f.Model, f.Shadow)
	if err != nil {
		return cfg, nil, err
	}
	return cfg, models, checkModel(g, cfg.Head, models[0], cfg.Reading.Map)
}

// rowsFlag says how the graph's vectors are kept. Its text is their format and then, after a
// comma, what is not the default; either may be left out.
type rowsFlag struct {
	bfloat16 bool
	reserve  int // nodes to allocate memory for
}

func (f rowsFlag) String() string {
	text := "float32"
	if f.bfloat16 {
		text = "bfloat16"
	}
	if f.reserve > 0 {
		text += "," + setting.JoinPairs(setting.Pair{Name: "reserve", Value: &f.reserve})
	}
	return text
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *rowsFlag) UnmarshalText(text []byte) error {
	*f = rowsFlag{}
	format, rest, more := strings.Cut(string(text), ",")
	switch {
	case format == "float32":
	case format == "bfloat16":
		f.bfloat16 = true
	case strings.HasPrefix(format, "reserve=") && !more:
		rest, more = format, true
	default:
		return fmt.Errorf("%.60q: give float32 or bfloat16 first, and then reserve=N if you like", format)
	}
	if more {
		if err := setting.ParsePairs(rest, setting.Pair{Name: "reserve", Value: &f.reserve}); err != nil {
			return err
		}
	}
	if f.reserve < 0 || f.reserve > math.MaxInt32 {
		return fmt.Errorf("reserve=%d: give a number of nodes, or leave it out", f.reserve)
	}
	return nil
}

// State set where the worker keeps state in files, and how much.
type State struct {
	StateDir    string          `help:"@state_dir" type:"path" placeholder:"DIR"`
	Checkpoints checkpointsFlag `help:"@state_checkpoints" default:"every=5m,keep=3" placeholder:"every=5m,keep=3"`
	Base        string          `help:"@state_base" placeholder:"URL"`
	Pending     Pending         `help:"@state_pending" default:"max=262144,memory=1GiB" placeholder:"max=262144,memory=1GiB"`
}

var stateHelp = Texts{
	"state_dir":         "Folder for checkpoints, and for what does not fit into --pending memory. Without it the ledger is replayed.",
	"state_checkpoints": "Time between checkpoints, and how many to keep.",
	"state_base": "Where bases are, states that the ledger names (docs/reliability.md): a folder that every worker " +
		"has, or s3://BUCKET/PREFIX.",
	"state_pending": "Predictions that wait for their label: at most max, then the oldest makes room; beyond " +
		"memory, with --state-dir, they are in files.",
}

// checkpointsFlag says how often a checkpoint is written, and how many are kept.
type checkpointsFlag struct {
	Every time.Duration
	Keep  int
}

func (f *checkpointsFlag) pairs() []setting.Pair {
	return []setting.Pair{{Name: "every", Value: Duration(&f.Every)}, {Name: "keep", Value: &f.Keep}}
}

func (f checkpointsFlag) String() string { return setting.JoinPairs(f.pairs()...) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *checkpointsFlag) UnmarshalText(text []byte) error {
	f.Every, f.Keep = 5*time.Minute, 3
	if err := setting.ParsePairs(string(text), f.pairs()...); err != nil {
		return err
	}
	switch {
	case f.Every <= 0:
		return fmt.Errorf("every=%v: give a duration such as 5m", f.Every)
	case f.Keep < 1:
		return fmt.Errorf("keep=%d: give at least 1", f.Keep)
	}
	return nil
}

// BaseEvery says how often a base is written, and how many are kept.
type BaseEvery struct {
	Every time.Duration
	Keep  int
}

func (f BaseEvery) String() string {
	return ShortDuration(f.Every) + "," + setting.JoinPairs(setting.Pair{Name: "keep", Value: &f.Keep})
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *BaseEvery) UnmarshalText(text []byte) (err error) {
	every, rest, more := strings.Cut(string(text), ",")
	f.Keep = 3
	if f.Every, err = time.ParseDuration(every); err != nil || f.Every <= 0 {
		return fmt.Errorf("%.60q: give a duration such as 1h first, and then keep=N if you like", every)
	}
	if more {
		err = setting.ParsePairs(rest, setting.Pair{Name: "keep", Value: &f.Keep})
	}
	if err == nil && (f.Keep < 1 || f.Keep > mostBases) {
		err = fmt.Errorf("keep=%d: give a number from 1 to %d", f.Keep, mostBases)
	}
	return err
}

// mostBases is how many the ledger names: every record has their names.
const mostBases = 100

// OpenModels reads the model file and, unless its name is empty, the shadow's.
func OpenModels(file, shadow string) ([]*model.Model, error) {
	m, err := model.Open(file)
	if err != nil || shadow == "" {
		return []*model.Model{m}, err
	}
	other, err := model.Open(shadow)
	return []*model.Model{m, other}, err
}

// Pending bounds the predictions that wait for their label, and their memory.
type Pending struct {
	Max    int
	Memory Size
}

const (
	PendingMemory      = 1 << 30 // the default
	leastPendingMemory = 1 << 20
)

func (f *Pending) pairs() []setting.Pair {
	return []setting.Pair{{Name: "max", Value: &f.Max}, {Name: "memory", Value: Bytes(&f.Memory)}}
}

func (f Pending) String() string { return setting.JoinPairs(f.pairs()...) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Pending) UnmarshalText(text []byte) error {
	f.Max, f.Memory = 1<<18, PendingMemory
	if err := setting.ParsePairs(string(text), f.pairs()...); err != nil {
		return err
	}
	if f.Max < 1 || f.Max > pipeline.MostPending {
		return fmt.Errorf("max=%d: give a number from 1 to %d", f.Max, pipeline.MostPending)
	}
	if f.Memory < leastPendingMemory {
		return fmt.Errorf("memory=%v: give at least %v", f.Memory, Size(leastPendingMemory))
	}
	return nil
}
