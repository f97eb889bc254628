package replay

import (
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/ledger"
)

// Event is something that happened in a worker: one of the types of this file. Handlers of events
// are called from the worker's loop, one at a time, and must not block.
type Event any

// Waiting says what a start waits for that is not Kafka. It comes again while it waits.
type Waiting struct{ For string }

// Replaying describes what will be replayed at a worker's start. It comes once, before that.
type Replaying struct {
	Windows    int64 // in the ledger
	Checkpoint int64 // of these, the number from a checkpoint
}

// Recovered describes the replay at a worker's start. It comes once, when the ledger is first
// replayed to its end.
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

// Following says how far a standby is behind the ledger's end: it replays a window that the owner
// stepped at Behind, or has stepped all if that is zero.
type Following struct{ Behind time.Time }

// Stepped describes one window that was cut and stepped, or replayed.
type Stepped struct {
	Outcome  *event.Outcome // its refusals point to records that are valid while the event is handled
	Cause    string
	Replayed bool
	Trial    *ledger.Trial // after the window, nil for none
	Took     time.Duration // stepping, and encoding what comes of it
}

// Committed describes one committed transaction.
type Committed struct {
	Last    int64 // number of the last window in it
	Windows int
	Took    time.Duration // from the first request that ends the transaction to the last answer
	Tries   int
}

// Lag describes how far an input topic is ahead, see [intake.Inputs.Lag]. It comes after each
// transaction and each second, if it has changed.
type Lag struct {
	Topic             string
	Records, Withheld int64
}

// Saved describes a checkpoint, or the failure to write one.
type Saved struct {
	Window int64 // the first that is not in it
	Bytes  int64
	Took   time.Duration
	Err    error
}

// Based describes a base that the ledger names from now on, or that the newest one has all there is if
// Window is 0, or the failure to write one.
type Based struct {
	At            time.Time // when its state was taken
	Window        int64     // the first that is not in it
	Bytes, Stored int64     // of its files, and those of them that were not stored before
	Took          time.Duration
	Err           error
}

// Untimely counts events whose time a policy could not use: late ones came after their window was
// closed, early ones lie too far ahead of the clock.
type Untimely struct {
	Topic       string
	Late, Early int
}

// UnknownField counts records with a field that is not of the wire format, replayed ones too.
type UnknownField intake.UnknownField

// Forgotten describes the forgetting of nodes, in replayed windows too.
type Forgotten struct {
	Engine Engine // the one from here on
	ledger.Forgot
	Replayed bool // while following the ledger, not on a command that was served
	Took     time.Duration
}

// Loaded describes a model that was taken into the shadow.
type Loaded struct {
	Model  string
	Engine Engine // that has it now
}

// On returns a handler of the events of one type.
func On[E Event](f func(E)) func(Event) {
	return func(e Event) {
		if e, ok := e.(E); ok {
			f(e)
		}
	}
}

// Join returns a handler that calls all the given ones in order, except those that are nil.
func Join(handlers ...func(Event)) func(Event) {
	return func(e Event) {
		for _, f := range handlers {
			if f != nil {
				f(e)
			}
		}
	}
}

// ReportLag calls events with the lag of each topic, unless it is what it was: last has those of before.
func ReportLag(in *intake.Inputs, last map[string]Lag, events func(Event)) {
	in.Lag(func(topic string, records, withheld int64) {
		if now, before := (Lag{topic, records, withheld}), last[topic]; now != before {
			last[topic] = now
			events(now)
		}
	})
}
