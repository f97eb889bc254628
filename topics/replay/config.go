package replay

import (
	"cmp"
	"context"
	"log/slog"
	"math"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/registry"
	"github.com/gvbll/gvbll/topics/wire"
)

// Engine is the state machine that a worker drives: its state is a function of the
// windows stepped. The lists of a window are reused after Step, so an engine copies
// what it keeps of them; it may keep strings. An outcome is valid until the next Step
// begins; its predictions are valid for one Step more.
type Engine interface {
	Step(*event.Window) *event.Outcome
	// Err returns an error once a part of the state was lost, such as a file. The
	// outcome of the last Step is not to be used then, and the engine neither.
	Err() error
}

// Config configures a replay.
type Config struct {
	Terms       *Terms // a trial changes its models
	Models      *Models
	Checkpoints *Checkpoints
	Events      func(Event)
	Logger      *slog.Logger
	// Moved are spans of the inputs that have other offsets than the ledger says, before the epoch that will say so.
	Moved []ledger.Moved
}

// moves returns where the records of windows are now that a state of an epoch does not have.
func (c *Config) moves(ctx context.Context, client *kafka.Client, epoch int64) (*ledger.Moves, error) {
	at := c.Terms.Names.LedgerAt()
	newest, err := ledger.Newest(ctx, client, at)
	if err != nil || newest == nil || newest.Epoch == epoch && c.Moved == nil {
		return nil, err
	}
	m, err := ledger.ReadMoves(ctx, client, at)
	if err == nil && c.Moved != nil {
		m.Add(math.MaxInt64, c.Moved)
	}
	return m, err
}

func (c *Config) setDefaults() {
	c.Models = cmp.Or(c.Models, &Models{})
	c.Checkpoints = cmp.Or(c.Checkpoints, &Checkpoints{})
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Events == nil {
		c.Events = func(Event) {}
	}
}

// New returns a replayer at window 0.
func New(c *kafka.Client, cfg Config, e Engine) *Replayer {
	cfg.setDefaults()
	return &Replayer{
		cfg: cfg, client: c, Engine: e, stretch: NewStretch(c, cfg.Terms), gap: &Gap{}, classes: classes{engine: cfg.Terms.Classes},
	}
}

// inputs returns the configuration of the inputs.
func (c *Config) inputs(acceptGap bool) intake.Config {
	terms, events := c.Terms, c.Events
	return intake.Config{
		Names: terms.Names, Limits: terms.Limits, Map: terms.Settings.Value("map"),
		First: terms.Settings.FirstReading(), AcceptGap: acceptGap, Registry: terms.Registry, Logger: c.Logger,
		Untimely: func(topic string, late, early int) { events(Untimely{topic, late, early}) },
		Unknown:  func(f intake.UnknownField) { events(UnknownField(f)) },
	}
}

// Terms are what the windows of a ledger are, and on what terms an engine steps them.
type Terms struct {
	Names topics.Names
	// Model and Shadow are the ids of the engine's models. Shadow is the second model
	// of a [RoleAssigner], else empty. The ledger says which of the two serves; while
	// it is empty, Model does.
	Model  string
	Shadow string
	// Classes, and the number of Features of a node, are written into the first record of an
	// epoch, for consumers.
	Classes  []string
	Features int
	// Settings are the settings that the engine's outcomes depend on. A ledger with
	// other settings is refused, unless Effective makes the two equal or an epoch may begin.
	Settings event.Settings
	// Effective, if not nil, returns the ledger's settings with those that have no
	// effect on these models changed to the values in Settings.
	Effective func(event.Settings) event.Settings
	// Program is this program's version, for the first record of an epoch.
	Program string
	// Remedy is what to do about a ledger of other terms where no epoch can begin, "" to name --rebase.
	Remedy string
	// Registry has the schemas of framed records that the ledger does not have, nil for none.
	Registry registry.Source
	// Limits bound the size of an event; zero fields have defaults.
	Limits wire.Limits
}

// Models makes engines, and says what people ask of their models. Every field may be nil.
type Models struct {
	// Fresh makes an engine at window 0, to replay windows without forgotten nodes. Without it,
	// commands to forget are refused.
	Fresh func() (Engine, error)
	// Open returns what makes engines at window 0 of the model with an id alone, which a
	// command asks to try, and may be called by any goroutine. Without it, such commands are
	// refused. The worker's engine is a Taker then.
	Open func(model string) (fresh func() (Engine, error), err error)
	// ClassesOf returns the classes of one of the engine's models, for consumers.
	ClassesOf func(model string) []string
	// Room returns an error unless the memory has room for a second engine. Commands to forget
	// are declined otherwise.
	Room func() error
	// Scores returns the scores of a window that had labels, which its ledger record holds for
	// people to look at.
	Scores func(*event.Outcome) *ledger.Scores
	// Attributes does the same for the features that came by name.
	Attributes func(*event.Outcome) []ledger.Attribute
}
