// Package replay steps an engine through the windows of a ledger, and compares hashes where the
// ledger has the engine's terms. Workers that follow or stand by do this, and so do audits,
// trainings from the stream, and the forgetting of nodes, which is a fresh replay to the
// ledger's end without them. The package knows Kafka and no model; it writes nothing.
//
// A replay and an owner step windows on one path: the records of a window are claimed from
// the inputs, gathered into an event.Window, and stepped, see Replayer.stepClaimed.
package replay

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// Replayer steps an engine through the windows of a ledger, and compares hashes where the
// ledger has the terms of this engine. It is opened once ([Replayer.OpenFirst],
// [Replayer.Restore], [Replayer.OpenCheckpoint] or [Replayer.OpenBase]). Then it follows the ledger
// window by window ([Replayer.Step]), or goes on as its owner: [Replayer.Claim],
// [Replayer.Serve], [Replayer.NoteRecord].
type Replayer struct {
	// Engine has stepped exactly the windows before next. Forgetting nodes replaces it.
	Engine Engine
	// Ledger is read up to the record of window next-1, unless this is the owner, whose publisher
	// reads on.
	Ledger *ledger.Ledger
	// Inputs have consumed exactly the records of the windows before next and, while claimed, those
	// of window next.
	Inputs *intake.Inputs

	cfg     Config
	client  *kafka.Client
	stretch *stretch
	gap     *Gap
	moves   *ledger.Moves // nil if the records have the offsets that the ledger names
	next    int64         // number of the next window: it grows by one with each step of the engine
	last    State         // after window next-1, as its record says or will say
	// claimed is true while records of a window are claimed that the engine has not stepped: the
	// inputs are then ahead of the engine, and the state cannot be saved.
	claimed bool
	// compared says that the state after window next-1 has the hash that the ledger has for it, or
	// will have: no other state can be saved. It is false after every window that another model,
	// other settings or other records make different.
	compared bool
	// excluded are the nodes that this replay leaves out from its beginning, because later windows
	// of the ledger forget them. A replay that begins at a saved state leaves out none.
	excluded exclusions
	classes  classes
	window   event.Window // that was gathered last; reused
}

// State is what a ledger's record says of the state after its window.
type State struct {
	Epoch        int64
	Chain, model string         // of the one that served the window
	Shadow       *ledger.Shadow // nil for none
	Serves       string         // the model that serves from here on; "" before the first window
	Trial        *ledger.Trial  // that goes on, nil for none
	Settings     string         // their hash
	Bases        []ledger.Base  // that the ledger names
	Attempts     int            // to forget nodes, noted since the last window with commands
	stepped      time.Time      // the record's timestamp
	// behind is the last window that begins an epoch behind a gap, 0 for none. No replay from the ledger's
	// beginning gives the state then.
	behind int64
}

// stateAfter returns what the record of a window alone says of the state after it.
func stateAfter(r *ledger.Record) State {
	s := State{
		model: r.Model, Chain: r.Chain, Shadow: r.Shadow, Serves: r.Serves(),
		Settings: r.Settings, Epoch: r.Epoch, stepped: r.Stepped, Bases: r.Bases,
	}
	if r.Promoted == "" {
		s.Trial = r.Trial
	}
	return s
}

// Next returns the number of the next window.
func (p *Replayer) Next() int64 { return p.next }

// Last returns the state after the window before the next one.
func (p *Replayer) Last() State { return p.last }

// Stretch returns the stretch of the ledger that the replay is in.
func (p *Replayer) Stretch() *stretch { return p.stretch }

// Gap returns what the replay knows of records that are gone.
func (p *Replayer) Gap() *Gap { return p.gap }

// Window returns the window that was stepped last. It is valid until the inputs are released.
func (p *Replayer) Window() *event.Window { return &p.window }

// Compared reports whether the state after the last window has the hash that the ledger has for it
// or, for its owner, will have.
func (p *Replayer) Compared() bool { return p.compared }

// Savable reports whether the present state may be in a checkpoint or a base: that the ledger has,
// or will have, its hash. The ledger has another one while the replay leaves out nodes that it still
// has, and in windows of other terms.
func (p *Replayer) Savable() bool { return p.compared && !p.claimed }

// LoseTrial notes that the model of the trial cannot be loaded: an owner's next records say so.
func (p *Replayer) LoseTrial() { p.last.Trial = nil }

// OpenFirst opens the ledger and the inputs at their beginnings. The replay leaves out the nodes that
// were forgotten before a window; with 0 it forgets each where the ledger does.
func (p *Replayer) OpenFirst(ctx, fetching context.Context, before int64) (err error) {
	if p.excluded, err = readExclusions(ctx, p.client, &p.cfg, before); err != nil {
		return err
	}
	if p.Ledger, err = ledger.Open(ctx, p.client, p.cfg.Terms.Names.LedgerAt()); err != nil {
		return err
	}
	if p.moves, err = p.cfg.moves(ctx, p.client, 0); err != nil {
		return err
	}
	return p.openInputs(fetching, intake.Position{})
}

// openInputs starts to fetch behind the position, or from the beginning if it is zero.
func (p *Replayer) openInputs(fetching context.Context, at intake.Position) (err error) {
	p.Inputs, err = intake.Open(fetching, p.client, p.cfg.inputs(p.gap.accepted), at)
	return p.explainGone(fetching, err)
}

// Step steps the window of the ledger's next record. If the record has this engine's
// terms it compares hashes: a difference is an error. The outcome's refusals point to
// records that are valid until the inputs are released.
//
// In a window of other terms commands have the effect that the record says: the models
// have the roles they had, and nodes are forgotten if they were forgotten then.
func (p *Replayer) Step(ctx context.Context, r *ledger.Record) (*event.Outcome, error) {
	if err := p.stretch.Read(ctx, &r.Terms); err != nil {
		return nil, err
	}
	p.classes.note(r.Classes)
	if err := p.checkGap(ctx, r); err != nil {
		return nil, err
	}
	if err := p.replay(ctx, r); err != nil {
		return nil, p.explainGone(ctx, fmt.Errorf("ledger %s, window %d: %w", p.cfg.Terms.Names.Ledger, r.Window, err))
	}
	p.gap.lossy = p.gap.lossy || p.Inputs.Incomplete()
	commands := ForgetCommands(p.Inputs)
	if len(commands) > 0 && r.Forgot != nil && !p.excluded.covers(r.Window) {
		if _, err := p.Forget(ctx, commands, true); err != nil {
			return nil, err
		}
	}
	trials := TrialCommands(p.Inputs)
	assignRoles(p.Engine, r)
	out, err := p.stepClaimed()
	if err != nil {
		return nil, err
	}
	if r.Forgot == nil {
		Refuse(out, commands, r.Declined)
	}
	RefuseTrials(out, trials, r.Trial)
	// The outcome of a window may differ from that in the ledger by right.
	differs, before := !p.stretch.settings.Own || p.gap.lossy || p.excluded.rewrites(r.Window), p.last.Trial
	if err := p.cfg.Terms.agreeTrial(before, r, out, differs || len(trials) > 0); err != nil {
		return nil, err
	}
	p.NoteRecord(r)
	p.compared = false
	if differs {
		return out, nil
	}
	compared, err := p.cfg.Terms.agree(r, out)
	p.compared = compared && !p.gap.accepted // what is gone may be of this window's future
	return out, err
}

// Claim claims the records of a cut, as those of the next window, and returns their ranges behind
// those given. Serve steps them; they are to be released then.
func (p *Replayer) Claim(c intake.Cut, ranges []ledger.Range) []ledger.Range {
	p.claimed = true
	return p.Inputs.Claim(c, ranges)
}

// Ranges returns the records of a window by the offsets that they have now: the record's, unless the inputs are copies.
func (p *Replayer) Ranges(r *ledger.Record) []ledger.Range { return p.moves.Ranges(r.Window, r.Ranges) }

// replay claims the records of the next window, which is the record's, and keeps the schemas by which they are read.
func (p *Replayer) replay(ctx context.Context, r *ledger.Record) error {
	p.claimed = true
	p.Inputs.Schemas.Keep(r.Schemas)
	return p.Inputs.Replay(ctx, p.Ranges(r))
}

// Serve steps the claimed records of an owner, whose record will have the hash of the state after it.
func (p *Replayer) Serve() (*event.Outcome, error) {
	out, err := p.stepClaimed()
	p.compared = err == nil
	return out, err
}

// stepClaimed steps the engine over the claimed records, of served and of replayed windows.
func (p *Replayer) stepClaimed() (*event.Outcome, error) {
	if err := p.Inputs.Err(); err != nil {
		return nil, err
	}
	w := p.gather()
	p.next++
	out := p.Engine.Step(w)
	if err := p.Engine.Err(); err != nil {
		return nil, err
	}
	p.claimed = false
	return out, nil
}

// gather returns the window of the claimed records, valid until they are released.
func (p *Replayer) gather() *event.Window {
	w := &p.window
	w.Number = p.next
	p.Inputs.Gather(w)
	p.excluded.remove(w)
	p.classes.name(w)
	return w
}

// agree compares the outcome of a replayed window with its record, for each model that
// is in both, and reports whether there is one.
func (t *Terms) agree(r *ledger.Record, out *event.Outcome) (compared bool, err error) {
	for o := out; o != nil; o = o.Shadow {
		written, ok := r.ChainOf(cmp.Or(o.Model, t.Model))
		compared = compared || ok
		if got := o.Chain.Hex(); ok && got != written {
			return compared, fmt.Errorf("ledger %s, window %d: replay gives %s where %s was written: the inputs, the model or "+
				"the program differ from those that served it", t.Names.Ledger, r.Window, got, written)
		}
	}
	if out.Promoted != r.Promoted {
		return compared, fmt.Errorf("ledger %s, window %d: replay promotes model %q where %q was written: the commands or the "+
			"program differ from those that served it", t.Names.Ledger, r.Window, out.Promoted, r.Promoted)
	}
	return compared, nil
}
