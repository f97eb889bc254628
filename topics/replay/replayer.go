// Package replay steps an engine through the windows of a ledger, and compares hashes where the
// ledger has the engine's terms. Workers that follow or stand by do this, and so do audits,
// trainings from the stream, and the forgetting of nodes, which is a fresh replay to the
// ledger's end without them. The package knows Kafka and no model; it writes nothing.
//
// A replay and an owner step windows on one path: the records of a window are claimed from
// the inputs, gathered into an event.Window, and stepped, see [Replayer.StepClaimed].
package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// Replayer steps an engine through the windows of a ledger, and compares hashes where the
// ledger has the terms of this engine. Between
// two calls of Step, the engine has stepped exactly the windows before next, the inputs
// have consumed exactly their records, and the ledger is read up to the last of them.
type Replayer struct {
	Cfg    Config
	Client *kafka.Client
	Ledger *ledger.Ledger
	Inputs *intake.Inputs
	Engine Engine
	// Excluded are the nodes that this replay leaves out from its beginning, because
	// later windows of the ledger forget them.
	Excluded Exclusions
	Next     int64       // number of the next window
	Last     ledgerState // after window next-1
	Attempts int         // to forget nodes, since the last window with commands
	// Unstepped is true while records of a window are claimed that the engine has
	// not stepped. The inputs are then ahead of the engine, and no checkpoint may be
	// taken.
	Unstepped bool
	Window    event.Window // the current window; reused
	Settings  Settings     // of the record read last
	// Classes are those of the epoch, if their order is another than that of the engine's;
	// nil if an index means the same class in both, and one list may only be longer.
	Classes []string
	// Compared says that the state after window next-1 has the hash that the ledger has,
	// or will have.
	Compared bool
	// Behind is the last window of the state that begins an epoch behind a gap, 0 for none.
	// No replay from the ledger's beginning gives the state then.
	Behind int64
	// AcceptGap lets the replay pass where records are gone. From there on, its state is not
	// the one that the ledger has the hash of: lossy is true.
	AcceptGap, lossy bool
	Passed           ledger.Gap // that was accepted before, if the replay has passed it
}

// ledgerState is the part of a window's ledger record that describes the state after it.
type ledgerState struct {
	model, Chain string         // of the one that served the window
	Shadow       *ledger.Shadow // nil for none
	Serves       string         // the model that serves from here on; "" before the first window
	Trial        *ledger.Trial  // that goes on, nil for none
	Settings     string         // their hash
	Bases        []ledger.Base  // that the ledger names
	Epoch        int64
	stepped      time.Time // the record's timestamp
}

// stateAfter returns the state after the window of a record.
func stateAfter(r *ledger.Record) ledgerState {
	s := ledgerState{model: r.Model, Chain: r.Chain, Shadow: r.Shadow, Serves: r.Serves(), Settings: r.Settings, Epoch: r.Epoch, stepped: r.Stepped, Bases: r.Bases}
	if r.Promoted == "" {
		s.Trial = r.Trial
	}
	return s
}

// OpenInputs starts to fetch behind the position, or from the beginning if it is zero.
func (p *Replayer) OpenInputs(fetching context.Context, at intake.Position) (err error) {
	p.Inputs, err = intake.Open(fetching, p.Client, p.Intake(), at)
	return p.ExplainGone(fetching, err)
}

// OpenFirst opens the ledger and the inputs at their beginnings. The replay leaves out the nodes that were forgotten before a window.
func (p *Replayer) OpenFirst(ctx, fetching context.Context, before int64) (err error) {
	if p.Excluded, err = p.ReadExclusions(ctx, before); err != nil {
		return err
	}
	if p.Ledger, err = ledger.Open(ctx, p.Client, p.Cfg.Terms.Names.LedgerAt()); err != nil {
		return err
	}
	return p.OpenInputs(fetching, intake.Position{})
}

// Intake returns the configuration of the inputs.
func (p *Replayer) Intake() intake.Config {
	return intake.Config{
		Names: p.Cfg.Terms.Names, Limits: p.Cfg.Terms.Limits, Map: p.Cfg.Terms.Settings.Value("map"), Ahead: p.Cfg.Terms.Ahead, AcceptGap: p.AcceptGap,
		Untimely: func(topic string, late, early int) { p.Cfg.Events(Untimely{topic, late, early}) },
		Unknown:  func(f intake.UnknownField) { p.Cfg.Events(UnknownField(f)) },
	}
}

// Step steps the window of the ledger's next record. If the record has this engine's
// terms it compares hashes: a difference is an error. The outcome's refusals point to
// records that are valid until the inputs are released.
//
// In a window of other terms commands have the effect that the record says: the models
// have the roles they had, and nodes are forgotten if they were forgotten then.
func (p *Replayer) Step(ctx context.Context, r *ledger.Record) (*event.Outcome, error) {
	if err := p.ReadSettings(ctx, &r.Terms); err != nil {
		return nil, err
	}
	p.noteClasses(r.Classes)
	if err := p.checkGap(ctx, r); err != nil {
		return nil, err
	}
	p.Unstepped = true
	if err := p.Inputs.Replay(ctx, r.Ranges); err != nil {
		return nil, p.ExplainGone(ctx, fmt.Errorf("ledger %s, window %d: %w", p.Cfg.Terms.Names.Ledger, r.Window, err))
	}
	p.lossy = p.lossy || p.Inputs.Incomplete()
	commands := p.ForgetCommands()
	if len(commands) > 0 && r.Forgot != nil && !p.Excluded.covers(r.Window) {
		if _, err := p.Forget(ctx, commands, true); err != nil {
			return nil, err
		}
	}
	trials := p.TrialCommands()
	p.assignRoles(r)
	out, err := p.StepClaimed()
	if err != nil {
		return nil, err
	}
	if r.Forgot == nil {
		Refuse(out, commands, r.Declined)
	}
	RefuseTrials(out, trials, r.Trial)
	if err := p.agreeTrial(p.Last.Trial, r, out, len(trials) > 0); err != nil {
		return nil, err
	}
	p.NoteRecord(r)
	p.Compared = false
	if p.differs(r.Window) {
		return out, nil
	}
	err = p.agree(r, out)
	p.Compared = p.Compared && !p.AcceptGap // what is gone may be of this window's future
	return out, err
}

// differs reports whether the outcome of a window differs from that in the ledger by right.
func (p *Replayer) differs(window int64) bool {
	return !p.Settings.Own || p.lossy || p.Excluded.rewrites(window)
}

// StepClaimed steps the engine over the claimed records, of served and of replayed
// windows.
func (p *Replayer) StepClaimed() (*event.Outcome, error) {
	w := p.gather()
	p.Next++
	out := p.Engine.Step(w)
	if err := p.Engine.Err(); err != nil {
		return nil, err
	}
	p.Unstepped = false
	return out, nil
}

// gather returns the window of the claimed records, valid until they are released.
func (p *Replayer) gather() *event.Window {
	w := &p.Window
	w.Number = p.Next
	p.Inputs.Gather(w)
	p.Excluded.remove(w)
	p.nameClasses(w)
	return w
}

// noteClasses notes the classes of an epoch, nil where none begins.
func (p *Replayer) noteClasses(classes []string) {
	if classes == nil {
		return
	}
	p.Classes = nil
	if common := min(len(classes), len(p.Cfg.Terms.Classes)); !slices.Equal(classes[:common], p.Cfg.Terms.Classes[:common]) {
		p.Classes = classes
	}
}

// nameClasses replaces the numbers of classes in the window's labels by names, where
// a number means another class to the engine. One that the epoch's classes do not have
// is of no class of the engine either.
func (p *Replayer) nameClasses(w *event.Window) {
	if p.Classes == nil {
		return
	}
	for i := range w.Labels {
		l := &w.Labels[i]
		if l.Class != "" || l.Withdrawn {
			continue
		}
		if class, ok := l.In(p.Classes); ok {
			l.Class = p.Classes[class]
		} else {
			l.Index = event.NoClass
		}
	}
}

// agree compares the outcome of a replayed window with its record, for each model that
// is in both.
func (p *Replayer) agree(r *ledger.Record, out *event.Outcome) error {
	for o := out; o != nil; o = o.Shadow {
		written, ok := r.ChainOf(cmp.Or(o.Model, p.Cfg.Terms.Model))
		p.Compared = p.Compared || ok
		if got := o.Chain.Hex(); ok && got != written {
			return fmt.Errorf("ledger %s, window %d: replay gives %s where %s was written: the inputs, the model or the program differ from those that served it", p.Cfg.Terms.Names.Ledger, r.Window, got, written)
		}
	}
	if out.Promoted != r.Promoted {
		return fmt.Errorf("ledger %s, window %d: replay promotes model %q where %q was written: the commands or the program differ from those that served it", p.Cfg.Terms.Names.Ledger, r.Window, out.Promoted, r.Promoted)
	}
	return nil
}
