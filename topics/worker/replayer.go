package worker

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// replayer steps an engine through the windows of a ledger, and compares hashes where the
// ledger has the terms of this engine. Between
// two calls of Step, the engine has stepped exactly the windows before next, the inputs
// have consumed exactly their records, and the ledger is read up to the last of them.
type replayer struct {
	cfg    ReplayConfig
	client *kafka.Client
	ledger *ledger.Ledger
	inputs *intake.Inputs
	engine Engine
	// excluded are the nodes that this replay leaves out from its beginning, because
	// later windows of the ledger forget them.
	excluded exclusions
	next     int64       // number of the next window
	last     ledgerState // after window next-1
	attempts int         // to forget nodes, since the last window with commands
	// unstepped is true while records of a window are claimed that the engine has
	// not stepped. The inputs are then ahead of the engine, and no checkpoint may be
	// taken.
	unstepped bool
	window    event.Window // the current window; reused
	settings  settings     // of the record read last
	// classes are those of the epoch, if their order is another than that of the engine's;
	// nil if an index means the same class in both, and one list may only be longer.
	classes []string
	// compared says that the state after window next-1 has the hash that the ledger has,
	// or will have.
	compared bool
	// behind is the last window of the state that begins an epoch behind a gap, 0 for none.
	// No replay from the ledger's beginning gives the state then.
	behind int64
	// acceptGap lets the replay pass where records are gone. From there on, its state is not
	// the one that the ledger has the hash of: lossy is true.
	acceptGap, lossy bool
	passed           []ledger.Range // the gap that was accepted before, if the replay has passed it
}

// ledgerState is the part of a window's ledger record that describes the state after it.
type ledgerState struct {
	model, chain string         // of the one that served the window
	shadow       *ledger.Shadow // nil for none
	serves       string         // the model that serves from here on; "" before the first window
	trial        *ledger.Trial  // that goes on, nil for none
	settings     string         // their hash
	epoch        int64
}

// stateAfter returns the state after the window of a record.
func stateAfter(r *ledger.Record) ledgerState {
	s := ledgerState{model: r.Model, chain: r.Chain, shadow: r.Shadow, serves: r.Serves(), settings: r.Settings, epoch: r.Epoch}
	if r.Promoted == "" {
		s.trial = r.Trial
	}
	return s
}

// openInputs starts to fetch behind the position, or from the beginning if it is zero.
func (p *replayer) openInputs(fetching context.Context, at intake.Position) (err error) {
	p.inputs, err = intake.Open(fetching, p.client, p.intake(), at)
	return p.explainGone(fetching, err)
}

// intake returns the configuration of the inputs.
func (p *replayer) intake() intake.Config {
	return intake.Config{
		Names: p.cfg.Terms.Names, Limits: p.cfg.Terms.Limits, Ahead: p.cfg.Terms.Ahead, AcceptGap: p.acceptGap,
		Untimely: func(topic string, late, early int) { p.cfg.Events(Untimely{topic, late, early}) },
		Unknown:  p.unknownField,
	}
}

// unknownField reports a field that is not of the wire format, and logs it the first time.
func (p *replayer) unknownField(f intake.UnknownField) {
	if f.First {
		p.cfg.Logger.Warn("a field is ignored: no event of the topic has it", "field", fmt.Sprintf("%.64q", f.Name), "topic", f.Topic, "partition", f.Example.Partition, "offset", f.Example.Offset)
	}
	p.cfg.Events(UnknownField{f.Topic, f.Name, f.Records})
}

// Step steps the window of the ledger's next record. If the record has this engine's
// terms it compares hashes: a difference is an error. The outcome's refusals point to
// records that are valid until the inputs are released.
//
// In a window of other terms commands have the effect that the record says: the models
// have the roles they had, and nodes are forgotten if they were forgotten then.
func (p *replayer) Step(ctx context.Context, r *ledger.Record) (*event.Outcome, error) {
	if err := p.readSettings(ctx, r); err != nil {
		return nil, err
	}
	p.noteClasses(r)
	p.unstepped = true
	if err := p.checkGap(r); err != nil {
		return nil, err
	}
	if err := p.inputs.Replay(ctx, r.Ranges); err != nil {
		return nil, p.explainGone(ctx, fmt.Errorf("ledger %s, window %d: %w", p.cfg.Terms.Names.Ledger, r.Window, err))
	}
	p.lossy = p.lossy || p.inputs.Incomplete()
	commands := p.forgetCommands()
	if len(commands) > 0 && r.Forgot != nil && !p.excluded.covers(r.Window) {
		if _, err := p.forget(ctx, commands, true); err != nil {
			return nil, err
		}
	}
	trials := p.trialCommands()
	p.assignRoles(r)
	out, err := p.stepClaimed(nil)
	if err != nil {
		return nil, err
	}
	if r.Forgot == nil {
		refuse(out, commands, r.Declined)
	}
	refuseTrials(out, trials, r.Trial)
	if err := p.agreeTrial(p.last.trial, r, out, len(trials) > 0); err != nil {
		return nil, err
	}
	p.last = stateAfter(r)
	p.noteAttempts(r)
	p.compared = false
	if !p.settings.own || p.lossy || p.excluded.rewrites(r.Window) {
		return out, nil
	}
	err = p.agree(r, out)
	p.compared = p.compared && !p.acceptGap // what is gone may be of this window's future
	return out, err
}

// stepClaimed steps the engine over the claimed records, of served and of replayed
// windows. If the window was gathered before, it is given.
func (p *replayer) stepClaimed(w *event.Window) (*event.Outcome, error) {
	if w == nil {
		w = p.gather()
	}
	p.next++
	out := p.engine.Step(w)
	if err := p.engine.Err(); err != nil {
		return nil, err
	}
	p.unstepped = false
	return out, nil
}

// gather returns the window of the claimed records, valid until they are released.
func (p *replayer) gather() *event.Window {
	p.gatherTo(&p.window, p.next)
	return &p.window
}

// gatherTo makes a window of the claimed records.
func (p *replayer) gatherTo(w *event.Window, number int64) {
	w.Number = number
	p.inputs.Gather(w)
	p.excluded.remove(w)
	p.nameClasses(w)
}

// noteClasses notes the classes of the epoch that a record begins.
func (p *replayer) noteClasses(r *ledger.Record) {
	if r.Classes == nil {
		return
	}
	p.classes = nil
	if common := min(len(r.Classes), len(p.cfg.Terms.Classes)); !slices.Equal(r.Classes[:common], p.cfg.Terms.Classes[:common]) {
		p.classes = r.Classes
	}
}

// nameClasses replaces the indices of classes in the window's labels by names, where
// an index means another class to the engine. An index that the epoch's classes do not have
// is of no class of the engine either.
func (p *replayer) nameClasses(w *event.Window) {
	if p.classes == nil {
		return
	}
	for i := range w.Labels {
		switch l := &w.Labels[i]; {
		case l.Class != "":
		case l.Index >= 0 && int(l.Index) < len(p.classes):
			l.Class = p.classes[l.Index]
		default:
			l.Index = -1
		}
	}
}

// agree compares the outcome of a replayed window with its record, for each model that
// is in both.
func (p *replayer) agree(r *ledger.Record, out *event.Outcome) error {
	for o := out; o != nil; o = o.Shadow {
		written, ok := r.ChainOf(cmp.Or(o.Model, p.cfg.Terms.Model))
		p.compared = p.compared || ok
		if got := o.Chain.Hex(); ok && got != written {
			return fmt.Errorf("ledger %s, window %d: replay gives %s where %s was written: the inputs, the model or the program differ from those that served it", p.cfg.Terms.Names.Ledger, r.Window, got, written)
		}
	}
	if out.Promoted != r.Promoted {
		return fmt.Errorf("ledger %s, window %d: replay promotes model %q where %q was written: the commands or the program differ from those that served it", p.cfg.Terms.Names.Ledger, r.Window, out.Promoted, r.Promoted)
	}
	return nil
}
