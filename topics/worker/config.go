package worker

import (
	"cmp"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
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

// Config configures a worker. Every field must be set unless it has a default.
type Config struct {
	Names topics.Names
	// Task is the part of the graph that is worked on: 0 for a whole graph, and p for shard p
	// of a sharded one. It is the partition of the ledger too.
	Task int
	// Model and Shadow are the ids of the engine's models. Shadow is the second model
	// of a [RoleAssigner], else empty. The ledger says which of the two serves; while
	// it is empty, Model does.
	Model  string
	Shadow string
	// Classes are written into the first record of an epoch, for consumers.
	Classes []string
	// Settings are the settings that the engine's outcomes depend on. A ledger with
	// other settings is refused, unless Effective makes the two equal or Rebase is set.
	Settings event.Settings
	// Effective, if not nil, returns the ledger's settings with those that have no
	// effect on these models changed to the values in Settings.
	Effective func(event.Settings) event.Settings
	// Rebase lets the worker begin an epoch of its own terms (engine, settings, models)
	// where the ledger has others. Otherwise such a ledger is refused.
	Rebase bool
	// Program is this program's version, for the first record of an epoch.
	Program string
	// Scores, if not nil, returns the scores of a window that had labels, which its
	// ledger record holds for people to look at.
	Scores func(*event.Outcome) *ledger.Scores
	// BeginAgain says that an empty ledger is meant though there are traces of an earlier
	// one: predictions, group offsets, checkpoints. Otherwise it is refused.
	BeginAgain bool
	// Policy decides where windows are cut.
	Policy intake.Policy
	// CommitInterval is how long a window may wait for others to share its
	// transaction. With zero it does not wait; windows that are stepped while a
	// transaction is being committed still share the next one. Readers of uncommitted
	// records see predictions at once in any case.
	CommitInterval time.Duration
	// TransactionTimeout is the time after which the broker aborts an open transaction.
	// Zero means a minute more than CommitInterval. Brokers allow 15 minutes by default.
	TransactionTimeout time.Duration
	// Compression of produced records: none, gzip, snappy, lz4 or zstd; empty means
	// none.
	Compression string
	// Output is how predictions and dead letters are encoded; empty means msgpack. A graph
	// may change it with any start.
	Output wire.Encoding
	// Session is the time without a heartbeat after which the owner is replaced. Zero
	// means 10 s. Brokers require 6 s or more, unless configured otherwise.
	Session time.Duration
	// About is what this worker says of itself to whoever asks for the members of the
	// election, see [kafka.Client.Members].
	About string
	// Fresh makes an engine at window 0, to replay windows without forgotten nodes. If
	// it is nil, commands to forget are refused.
	Fresh func() (Engine, error)
	// Open returns an engine at window 0 of the model with an id alone, which a command
	// asks to try. If it is nil, such commands are refused. The engine is a [Taker] then.
	Open func(model string) (Engine, error)
	// ClassesOf returns the classes of one of the engine's models, for consumers.
	ClassesOf func(model string) []string
	// Room, if not nil, returns an error unless the memory has room for a second engine.
	// Commands to forget are declined otherwise.
	Room func() error
	// Checkpoints are written while following and while serving.
	Checkpoints Checkpoints
	// Limits bound the size of an event; zero fields have defaults.
	Limits wire.Limits
	// Ahead is how far ahead of the clock an event's time may lie and still be used
	// by policies. Zero means one hour.
	Ahead time.Duration
	// AtRisk, if not nil, is called at the start and every hour, from another goroutine, with
	// the settings by which topics will lose records.
	AtRisk func([]topics.Risk)
	// Hooks are called when something happens. Nil ones are skipped.
	Hooks Hooks
	// Logger defaults to slog's default.
	Logger *slog.Logger
}

// ledgerAt returns the partition of the ledger that this worker writes.
func (c *Config) ledgerAt() kafka.TopicPartition { return c.Names.LedgerAt(c.Task) }

// transactionalID returns the id by which an owner fences the one before it.
func (c *Config) transactionalID() string {
	if c.Task == 0 {
		return c.Names.Ledger
	}
	return c.Names.Ledger + "/" + strconv.Itoa(c.Task)
}

func (c *Config) setDefaults() {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Output = cmp.Or(c.Output, wire.MsgPack)
	if c.AtRisk == nil {
		c.AtRisk = func([]topics.Risk) {}
	}
	if c.TransactionTimeout == 0 {
		c.TransactionTimeout = c.CommitInterval + time.Minute
	}
}

// Hooks are called from the worker's loop, one at a time; they must not block.
type Hooks struct {
	Replaying func(Replaying)                             // once, before the ledger is replayed
	Recovered func(Recovered)                             // once, when the ledger is first replayed to its end
	TookOver  func(TookOver)                              // this worker is the owner from here on
	Stepped   func(Stepped)                               // after each window, replayed ones too
	Committed func(Committed)                             // after each transaction
	Lag       func(topic string, records, withheld int64) // see [intake.Inputs.Lag]; after each transaction and each second
	Saved     func(Saved)                                 // after each checkpoint
	// Untimely counts events whose time a policy could not use: late ones came after
	// their window was closed, early ones lie too far ahead of the clock.
	Untimely func(topic string, late, early int)
	// UnknownField counts records with a field that is not of the wire format, replayed
	// ones too. Few names of a topic are told apart, see [intake.OtherFields].
	UnknownField func(topic, field string, records int)
	// Loaded is called when a model was taken into the shadow.
	Loaded func(Loaded)
	// Forgot is called when nodes were forgotten, in replayed windows too.
	Forgot func(Forgotten)
}

// Replaying describes what will be replayed at a worker's start.
type Replaying struct {
	Windows    int64 // in the ledger
	Checkpoint int64 // of these, the number from a checkpoint
}

// Recovered describes the replay at a worker's start.
type Recovered struct {
	Engine     Engine // the one that Run was given, or one that was read from a checkpoint
	Windows    int64  // in the ledger
	Checkpoint int64  // of these, the number from a checkpoint; the rest were replayed
	Took       time.Duration
}

// TookOver describes the beginning of this worker's ownership.
type TookOver struct {
	Windows int64
	Took    time.Duration // since it was elected: to fence the former owner, and to replay its last commits
}

// Saved describes a checkpoint, or the failure to write one.
type Saved struct {
	Window int64 // the first that is not in it
	Bytes  int64
	Took   time.Duration
	Err    error
}

// Stepped describes one window that was cut and stepped.
type Stepped struct {
	Outcome  *event.Outcome // its refusals point to records that are valid during the hook
	Cause    string
	Replayed bool
	Trial    *ledger.Trial // after the window, nil for none
	Took     time.Duration // stepping, and waiting until the window before is encoded
}

// Committed describes one committed transaction.
type Committed struct {
	Last    int64 // number of the last window in it
	Windows int
	Took    time.Duration // from the first request that ends the transaction to the last answer
	Tries   int

	offset int64 // of the last window's ledger record or an earlier one's
}

// Forgotten describes the forgetting of nodes.
type Forgotten struct {
	Engine Engine // the one from here on
	ledger.Forgot
	Replayed bool // while following the ledger, not on a command that was served
	Took     time.Duration
}

// Loaded describes a model that was loaded into the shadow.
type Loaded struct {
	Model  string
	Engine Engine // that has it now
}

// Join returns hooks that call those of all the given ones in order.
func Join(hooks ...Hooks) Hooks {
	return Hooks{
		Replaying: func(r Replaying) { each(hooks, func(h Hooks) func(Replaying) { return h.Replaying }, r) },
		Recovered: func(r Recovered) { each(hooks, func(h Hooks) func(Recovered) { return h.Recovered }, r) },
		TookOver:  func(t TookOver) { each(hooks, func(h Hooks) func(TookOver) { return h.TookOver }, t) },
		Stepped:   func(s Stepped) { each(hooks, func(h Hooks) func(Stepped) { return h.Stepped }, s) },
		Committed: func(c Committed) { each(hooks, func(h Hooks) func(Committed) { return h.Committed }, c) },
		Saved:     func(s Saved) { each(hooks, func(h Hooks) func(Saved) { return h.Saved }, s) },
		Loaded:    func(l Loaded) { each(hooks, func(h Hooks) func(Loaded) { return h.Loaded }, l) },
		Forgot:    func(f Forgotten) { each(hooks, func(h Hooks) func(Forgotten) { return h.Forgot }, f) },
		Lag: func(topic string, records, withheld int64) {
			for _, h := range hooks {
				if h.Lag != nil {
					h.Lag(topic, records, withheld)
				}
			}
		},
		UnknownField: func(topic, field string, records int) {
			for _, h := range hooks {
				if h.UnknownField != nil {
					h.UnknownField(topic, field, records)
				}
			}
		},
		Untimely: func(topic string, late, early int) {
			for _, h := range hooks {
				if h.Untimely != nil {
					h.Untimely(topic, late, early)
				}
			}
		},
	}
}

// each calls the hook that of selects from each of hooks, if it is not nil.
func each[T any](hooks []Hooks, of func(Hooks) func(T), what T) {
	for _, h := range hooks {
		if f := of(h); f != nil {
			f(what)
		}
	}
}

// serial returns hooks that call those of h one at a time, for callers in several goroutines.
func (h Hooks) serial() Hooks {
	mu := new(sync.Mutex)
	s := Hooks{
		Replaying: locked(mu, h.Replaying), Recovered: locked(mu, h.Recovered), TookOver: locked(mu, h.TookOver),
		Stepped: locked(mu, h.Stepped), Committed: locked(mu, h.Committed), Saved: locked(mu, h.Saved),
		Loaded: locked(mu, h.Loaded), Forgot: locked(mu, h.Forgot),
	}
	if h.Lag != nil {
		s.Lag = func(topic string, records, withheld int64) {
			mu.Lock()
			defer mu.Unlock()
			h.Lag(topic, records, withheld)
		}
	}
	if h.Untimely != nil {
		s.Untimely = func(topic string, late, early int) {
			mu.Lock()
			defer mu.Unlock()
			h.Untimely(topic, late, early)
		}
	}
	if h.UnknownField != nil {
		s.UnknownField = func(topic, field string, records int) {
			mu.Lock()
			defer mu.Unlock()
			h.UnknownField(topic, field, records)
		}
	}
	return s
}

// locked returns a hook that calls f while the lock is held, nil if f is.
func locked[T any](mu *sync.Mutex, f func(T)) func(T) {
	if f == nil {
		return nil
	}
	return func(what T) {
		mu.Lock()
		defer mu.Unlock()
		f(what)
	}
}
