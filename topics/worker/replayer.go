package worker

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// replayer steps an engine through the windows of a ledger and compares hashes. Between
// two calls of Step, the engine has stepped exactly the windows before next, the inputs
// have consumed exactly their records, and the ledger is read up to the last of them.
type replayer struct {
	cfg    *Config
	client *kafka.Client
	ledger *ledger.Ledger
	inputs *intake.Inputs
	engine Engine
	// excluded are the nodes that this replay leaves out from its beginning, because
	// later windows of the ledger forget them.
	excluded exclusions
	next     int64       // number of the next window
	last     ledgerState // after window next-1
	// unstepped is true while records of a window are claimed that the engine has
	// not stepped. The inputs are then ahead of the engine, and no checkpoint may be
	// taken.
	unstepped bool
	window    event.Window // the current window; reused
	// settings are the ledger's, once a record of it was read.
	settings settings
}

// ledgerState is the part of a window's ledger record that describes the state after it.
type ledgerState struct {
	model, chain string         // of the one that served the window
	shadow       *ledger.Shadow // nil for none
	serves       string         // the model that serves from here on; "" before the first window
	settings     string         // their hash; in format 1, the line, which is never a hash
}

// stateAfter returns the state after the window of a record.
func stateAfter(r *ledger.Record) ledgerState {
	return ledgerState{model: r.Model, chain: r.Chain, shadow: r.Shadow, serves: r.Serves(), settings: r.Settings}
}

// openInputs starts to fetch after the consumed ranges, or from the beginning if there
// are none.
func (p *replayer) openInputs(fetching context.Context, consumed []ledger.Range) (err error) {
	p.inputs, err = intake.Open(fetching, p.client, p.intake(), consumed)
	return err
}

// intake returns the configuration of the inputs.
func (p *replayer) intake() intake.Config {
	return intake.Config{Names: p.cfg.Names, Limits: p.cfg.Limits, Ahead: p.cfg.Ahead, Untimely: p.cfg.Hooks.Untimely}
}

// Step steps the window of the ledger's next record, and compares hashes: a
// difference is an error. The outcome's refusals point to records that are valid until
// the inputs are released.
func (p *replayer) Step(ctx context.Context, r *ledger.Record) (*event.Outcome, error) {
	if err := p.checkSettings(ctx, r); err != nil {
		return nil, err
	}
	p.unstepped = true
	if err := p.inputs.Replay(ctx, r.Ranges); err != nil {
		return nil, fmt.Errorf("ledger %s, window %d: %w", p.cfg.Names.Ledger, r.Window, err)
	}
	commands := p.forgetCommands()
	if len(commands) > 0 && r.Forgot != nil && !p.excluded.covers(r.Window) {
		if _, err := p.forget(ctx, commands, true); err != nil {
			return nil, err
		}
	}
	p.assignRoles(r)
	out := p.stepClaimed()
	if r.Forgot == nil {
		refuse(out, commands)
	}
	p.last = stateAfter(r)
	if p.excluded.rewrites(r.Window) {
		return out, nil
	}
	return out, p.agree(r, out)
}

// stepClaimed steps the engine over the claimed records, of served and of replayed
// windows.
func (p *replayer) stepClaimed() *event.Outcome {
	out := p.engine.Step(p.gather())
	p.unstepped = false
	return out
}

// gather returns the window of the claimed records, valid until they are released.
func (p *replayer) gather() *event.Window {
	p.window.Number = p.next
	p.next++
	p.inputs.Gather(&p.window)
	p.excluded.remove(&p.window)
	return &p.window
}

// agree compares the outcome of a replayed window with its record, for each model that
// is in both.
func (p *replayer) agree(r *ledger.Record, out *event.Outcome) error {
	for o := out; o != nil; o = o.Shadow {
		written, ok := r.ChainOf(cmp.Or(o.Model, p.cfg.Model))
		if got := hash(o.Chain); ok && got != written {
			return fmt.Errorf("ledger %s, window %d: replay gives %s where %s was written: the inputs, the model or the program differ from those that served it", p.cfg.Names.Ledger, r.Window, got, written)
		}
	}
	if out.Promoted != r.Promoted {
		return fmt.Errorf("ledger %s, window %d: replay promotes model %q where %q was written: the commands or the program differ from those that served it", p.cfg.Names.Ledger, r.Window, out.Promoted, r.Promoted)
	}
	return nil
}
