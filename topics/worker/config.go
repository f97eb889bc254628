package worker

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
)

// Config configures a worker. What has no default must be set.
type Config struct {
	Terms replay.Terms
	// Newest is the ledger's last record, if it was read a moment ago. A worker without reads it.
	Newest     *ledger.Record
	Models     replay.Models
	Publishing publish.Config
	// Rebase lets the worker begin an epoch of its own terms (engine, settings, models)
	// where the ledger has others. Otherwise such a ledger is refused.
	Rebase bool
	// BeginAgain says that an empty ledger is meant though there are traces of an earlier
	// one: predictions, group offsets, checkpoints. Otherwise it is refused.
	BeginAgain bool
	// Policy decides where windows are cut.
	Policy intake.Policy
	// Session is the time without a heartbeat after which the owner is replaced. Zero
	// means 10 s. Brokers require 6 s or more, unless configured otherwise.
	Session time.Duration
	// About is what this worker says of itself to whoever asks for the members of the
	// election, see [kafka.Client.Members].
	About string
	// Checkpoints are written while following and while serving.
	Checkpoints replay.Checkpoints
	// AtRisk, if not nil, is called at the start and every hour, from another goroutine, with
	// the settings by which topics will lose records.
	AtRisk func([]topics.Risk)
	// Needed, if not nil, is called then with what the oldest base needs, and the time of the newest.
	Needed func(needs []replay.Need, newest time.Time)
	// Events, if not nil, is called when something happens.
	Events func(replay.Event)
	// Logger defaults to slog's default.
	Logger *slog.Logger

	acceptGap bool           // see [AcceptGap]
	moved     []ledger.Moved // see [Restored]
}

// Replay returns what a replay needs of the configuration, which it shares.
func (c *Config) Replay() replay.Config {
	return replay.Config{
		Terms: &c.Terms, Models: &c.Models, Checkpoints: &c.Checkpoints, Events: c.Events,
		Logger: c.Logger, Moved: c.moved,
	}
}

func (c *Config) setDefaults() {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.AtRisk == nil {
		c.AtRisk = func([]topics.Risk) {}
	}
	if c.Needed == nil {
		c.Needed = func([]replay.Need, time.Time) {}
	}
	if c.Events == nil {
		c.Events = func(replay.Event) {}
	}
	c.Publishing.SetDefaults()
}
