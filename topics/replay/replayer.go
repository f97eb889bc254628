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
	"slices"
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

	cfg    Config
	client *kafka.Client
	next   int64 // number of the next window: it grows by one with each step of the engine
	last   State // after window next-1, as its record says or will say
	// claimed is true while records of a window are claimed that the engine has not stepped: the
	// inputs are then ahead of the engine, and the state cannot be saved.
	claimed bool
	// compared says that the state after window next-1 has the hash that the ledger has for it, or
	// will have: no other state can be saved. It is false after every window that another model,
	// other settings or other records make different.
	compared bool
	// lossy is true once records or windows were passed that are gone. The state is then not the one
	// that the ledger has the hash of, until an epoch begins with it. Only a replay that accepts a
	// gap gets so far.
	acceptGap, lossy bool
	passed           ledger.Gap // that was accepted before, if the replay has passed it
	// behind is the last window that begins an epoch behind a gap, of those before next; 0 for none.
	// No replay from the ledger's beginning gives the state then.
	behind   int64
	attempts int      // to forget nodes, noted since the last window with commands
	settings Settings // of the record read last
	// excluded are the nodes that this replay leaves out from its beginning, because later windows
	// of the ledger forget them. A replay that begins at a saved state leaves out none.
	excluded exclusions
	// classes are those of the epoch, if their order is another than that of the engine's; nil if
	// an index means the same class in both, and one list may only be longer.
	classes []string
	window  event.Window // that was gathered last; reused
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
	stepped      time.Time      // the record's timestamp
}

// stateAfter returns the state after the window of a record.
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

// Attempts returns how many attempts to forget nodes were noted since the last window with commands.
func (p *Replayer) Attempts() int { return p.attempts }

// Settings returns the settings of the record that was read last.
func (p *Replayer) Settings() Settings { return p.settings }

// Passed returns the gap that was accepted before, if this replay has passed it.
func (p *Replayer) Passed() ledger.Gap { return p.passed }

// Window returns the window that was stepped last. It is valid until the inputs are released.
func (p *Replayer) Window() *event.Window { return &p.window }

// Compared reports whether the state after the last window has the hash that the ledger has for it
// or, for its owner, will have.
func (p *Replayer) Compared() bool { return p.compared }

// Savable reports whether the present state may be in a checkpoint or a base: that the ledger has,
// or will have, its hash. The ledger has another one while the replay leaves out nodes that it still
// has, and in windows of other terms.
func (p *Replayer) Savable() bool { return p.compared && !p.claimed }

// Accept lets the replay pass where records are gone. It is called before the replayer is opened.
func (p *Replayer) Accept() { p.acceptGap = true }

// Accepts reports whether the replay passes where records are gone.
func (p *Replayer) Accepts() bool { return p.acceptGap }

// LoseTrial notes that the model of the trial cannot be loaded: an owner's next records say so.
func (p *Replayer) LoseTrial() { p.last.Trial = nil }

// OpenFirst opens the ledger and the inputs at their beginnings. The replay leaves out the nodes that
// were forgotten before a window; with 0 it forgets each where the ledger does.
func (p *Replayer) OpenFirst(ctx, fetching context.Context, before int64) error {
	if err := p.openLedger(ctx, before); err != nil {
		return err
	}
	return p.openInputs(fetching, intake.Position{})
}

func (p *Replayer) openLedger(ctx context.Context, before int64) (err error) {
	if p.excluded, err = p.readExclusions(ctx, before); err != nil {
		return err
	}
	p.Ledger, err = ledger.Open(ctx, p.client, p.cfg.Terms.Names.LedgerAt())
	return err
}

// openInputs starts to fetch behind the position, or from the beginning if it is zero.
func (p *Replayer) openInputs(fetching context.Context, at intake.Position) (err error) {
	p.Inputs, err = intake.Open(fetching, p.client, p.intake(), at)
	return p.explainGone(fetching, err)
}

// intake returns the configuration of the inputs.
func (p *Replayer) intake() intake.Config {
	terms := p.cfg.Terms
	return intake.Config{
		Names: terms.Names, Limits: terms.Limits, Map: terms.Settings.Value("map"),
		First: terms.Settings.FirstReading(), AcceptGap: p.acceptGap,
		Registry: terms.Registry, Logger: p.cfg.Logger,
		Untimely: func(topic string, late, early int) { p.cfg.Events(Untimely{topic, late, early}) },
		Unknown:  func(f intake.UnknownField) { p.cfg.Events(UnknownField(f)) },
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
	if err := p.replay(ctx, r); err != nil {
		return nil, p.explainGone(ctx, fmt.Errorf("ledger %s, window %d: %w", p.cfg.Terms.Names.Ledger, r.Window, err))
	}
	p.lossy = p.lossy || p.Inputs.Incomplete()
	commands := p.ForgetCommands()
	if len(commands) > 0 && r.Forgot != nil && !p.excluded.covers(r.Window) {
		if _, err := p.Forget(ctx, commands, true); err != nil {
			return nil, err
		}
	}
	trials := p.TrialCommands()
	p.assignRoles(r)
	out, err := p.stepClaimed()
	if err != nil {
		return nil, err
	}
	if r.Forgot == nil {
		Refuse(out, commands, r.Declined)
	}
	RefuseTrials(out, trials, r.Trial)
	if err := p.agreeTrial(p.last.Trial, r, out, len(trials) > 0); err != nil {
		return nil, err
	}
	p.NoteRecord(r)
	p.compared = false
	if p.differs(r.Window) {
		return out, nil
	}
	err = p.agree(r, out)
	p.compared = p.compared && !p.acceptGap // what is gone may be of this window's future
	return out, err
}

// differs reports whether the outcome of a window differs from that in the ledger by right.
func (p *Replayer) differs(window int64) bool {
	return !p.settings.Own || p.lossy || p.excluded.rewrites(window)
}

// Claim claims the records of a cut, as those of the next window, and returns their ranges behind
// those given. Serve steps them; they are to be released then.
func (p *Replayer) Claim(c intake.Cut, ranges []ledger.Range) []ledger.Range {
	p.claimed = true
	return p.Inputs.Claim(c, ranges)
}

// replay claims the records of the next window, which is the record's, and keeps the schemas by which they are read.
func (p *Replayer) replay(ctx context.Context, r *ledger.Record) error {
	p.claimed = true
	p.Inputs.Schemas.Keep(r.Schemas)
	return p.Inputs.Replay(ctx, r.Ranges)
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
	p.nameClasses(w)
	return w
}

// noteClasses notes the classes of an epoch, nil where none begins.
func (p *Replayer) noteClasses(classes []string) {
	if classes == nil {
		return
	}
	p.classes = nil
	if common := min(len(classes), len(p.cfg.Terms.Classes)); !slices.Equal(classes[:common], p.cfg.Terms.Classes[:common]) {
		p.classes = classes
	}
}

// nameClasses replaces the numbers of classes in the window's labels by names, where
// a number means another class to the engine. One that the epoch's classes do not have
// is of no class of the engine either.
func (p *Replayer) nameClasses(w *event.Window) {
	if p.classes == nil {
		return
	}
	for i := range w.Labels {
		l := &w.Labels[i]
		if l.Class != "" || l.Withdrawn {
			continue
		}
		in := l.In
		if p.cfg.Terms.Settings.FirstReading() {
			in = l.FirstIn
		}
		if class, ok := in(p.classes); ok {
			l.Class = p.classes[class]
		} else {
			l.Index = event.NoClass
		}
	}
}

// agree compares the outcome of a replayed window with its record, for each model that
// is in both.
func (p *Replayer) agree(r *ledger.Record, out *event.Outcome) error {
	for o := out; o != nil; o = o.Shadow {
		written, ok := r.ChainOf(cmp.Or(o.Model, p.cfg.Terms.Model))
		p.compared = p.compared || ok
		if got := o.Chain.Hex(); ok && got != written {
			return fmt.Errorf("ledger %s, window %d: replay gives %s where %s was written: the inputs, the model or "+
				"the program differ from those that served it", p.cfg.Terms.Names.Ledger, r.Window, got, written)
		}
	}
	if out.Promoted != r.Promoted {
		return fmt.Errorf("ledger %s, window %d: replay promotes model %q where %q was written: the commands or the "+
			"program differ from those that served it", p.cfg.Terms.Names.Ledger, r.Window, out.Promoted, r.Promoted)
	}
	return nil
}
