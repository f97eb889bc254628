package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/base"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// Checkpoints configures the checkpoints of the engine's state, which save a start
// the replay of the ledger from its beginning. The zero value writes none.
type Checkpoints struct {
	// Dir has a folder for each ledger, locked by the worker that writes into it.
	Dir   string
	Every time.Duration // least time between two; zero means 5 minutes
	Keep  int           // how many of the newest are kept; zero means 3
	// Bases are states outside of the folder.
	Bases Bases
	// Restore returns the engine of a snapshot, and the snapshot's meta. The files of
	// the snapshot's Keep are in the folder.
	Restore func(r io.ReaderAt, size int64, folder string) (e Keeper, meta map[string]string, err error)
}

// Keeper is an engine whose state can be saved. Snapshot returns the present state, with
// meta in it. A snapshot is closed before the next one is requested.
type Keeper interface {
	Engine
	Snapshot(meta map[string]string) Snapshot
}

// Snapshot is the state of an engine. Its bytes are read between the steps of later
// windows.
type Snapshot interface {
	io.ReadCloser
	// Keep keeps the files that the state refers to, if there are any: it makes links
	// to them in the folder, which it creates. It is called before the next step.
	Keep(folder string) error
}

// Reached says which windows are in a checkpoint's state. It is stored in the
// checkpoint, as JSON, under positionKey.
type Reached struct {
	Epoch    int64          `json:"epoch,omitempty"`
	Window   int64          `json:"window"` // the next
	Chain    string         `json:"chain"`  // of the model that served
	Model    string         `json:"model"`
	Shadow   *ledger.Shadow `json:"shadow,omitempty"`
	Settings event.Settings `json:"configuration,omitempty"`
	Ledger   int64          `json:"ledger"` // offset of the last window's record or an earlier one's
	Attempts int            `json:"attempts,omitempty"`
	Behind   int64          `json:"behind,omitempty"` // the last window behind a gap that is in the state, 0 for none
	Serves   string         `json:"serves,omitempty"` // the model that serves from here on
	Trial    *ledger.Trial  `json:"trial,omitempty"`  // that goes on
	intake.Position
}

const PositionKey = "position"

// Position returns what the replayer has reached. The ledger has the window before next at
// the given offset or after it.
func (p *Replayer) Position(offset int64) Reached {
	return Reached{
		Epoch: p.last.Epoch, Window: p.next, Chain: p.last.Chain, Model: p.last.model, Shadow: p.last.Shadow,
		Settings: p.stretch.ToWrite().All,
		Ledger:   max(offset, 0), Attempts: p.last.Attempts, Behind: p.last.behind, Serves: p.last.Serves, Trial: p.last.Trial,
		Position: p.Inputs.Position(),
	}
}

// positionOf reads a position from a checkpoint's meta.
func positionOf(meta map[string]string) (at Reached, err error) {
	if err := json.Unmarshal([]byte(meta[PositionKey]), &at); err != nil {
		return at, fmt.Errorf("the checkpoint does not say which windows are in it: %w", err)
	}
	return at, nil
}

// Restore opens the replayer after the newest checkpoint or base that is intact and of this ledger,
// or at the ledger's beginning if there is none; it then leaves out the nodes that the ledger forgets.
// States that cannot be used are logged. It waits for a store that does not answer if there is nothing
// else to begin from. It is a [ledger.ShortError] if the ledger ends before a
// checkpoint of it, unless a gap is to be accepted.
func (p *Replayer) Restore(ctx, fetching context.Context) error {
	found, err := statesOf(p).newest(ctx)
	switch {
	case err != nil:
		return err
	case found == nil:
		return p.OpenFirst(ctx, fetching, math.MaxInt64)
	}
	return p.begin(fetching, found)
}

// begin opens the replayer after the last window of a state.
func (p *Replayer) begin(fetching context.Context, f *found) (err error) {
	if p.moves, err = p.cfg.moves(fetching, p.client, f.at.Epoch); err != nil {
		return err
	}
	p.Engine, p.Ledger, p.next, p.last, p.compared = f.engine, f.ledger, f.at.Window, stateAfter(f.record), !p.gap.lossy
	p.last.Attempts, p.last.behind = f.at.Attempts, f.at.Behind
	return p.openInputs(fetching, f.at.Position.Moved(p.moves, f.at.Window))
}

// states finds the state that a start goes on from, in a checkpoint or a base. The stretch of its last
// window, and whether that is behind a gap, are noted for the replay.
type states struct {
	client  *kafka.Client
	cfg     *Config
	stretch *stretch
	gap     *Gap
}

func statesOf(p *Replayer) *states { return &states{p.client, &p.cfg, p.stretch, p.gap} }

// found is a state that the ledger has the hash of.
type found struct {
	engine Keeper
	at     Reached
	ledger *ledger.Ledger // read up to the state's last window
	record *ledger.Record // of that window
}

// newest returns the newest state that can be used, nil if there is none and the beginnings are there.
func (s *states) newest(ctx context.Context) (*found, error) {
	list, err := s.candidates(ctx)
	if err != nil {
		return nil, err
	}
	var unusable []error // bases
	var away *base.AwayError
	for _, c := range list {
		found, err := s.load(ctx, c)
		if err == nil {
			return found, nil
		}
		var short *ledger.ShortError
		if ctx.Err() != nil || errors.As(err, &short) {
			return nil, cmp.Or(ctx.Err(), err)
		}
		if c.base != nil {
			unusable = append(unusable, fmt.Errorf("%v: %w", c.base.Name, err))
			_ = errors.As(err, &away)
			s.cfg.Logger.Warn("a base is skipped", "name", c.base.Name, "err", err)
			continue
		}
		s.cfg.Logger.Warn("a checkpoint is skipped", "file", c.file, "err", err)
	}
	if unusable != nil {
		later, err := s.candidates(ctx)
		if err == nil && len(later) > 0 && later[0].base != nil && later[0].window > list[0].window {
			return s.newest(ctx) // while it tried them, newer ones took their place
		}
		switch there, err := beginningsThere(ctx, s.client, &s.cfg.Terms.Names); {
		case err == nil && !there && away != nil:
			s.cfg.Logger.Warn("this start waits for the store of bases: records of before them are gone", "err", away)
			s.cfg.Events(Waiting{"waiting for the store of bases: " + away.Error()})
			if err := kafka.Sleep(ctx, storePause); err != nil {
				return nil, err
			}
			return s.newest(ctx)
		case err != nil || !there:
			return nil, cmp.Or(err, s.noBase(unusable))
		}
	}
	return nil, nil
}

// storePause is how long a start waits before it asks a store again that does not answer.
const storePause = 5 * time.Second

// Find returns the checkpoints that may be of a ledger, newest first.
func (c *Checkpoints) Find(ledger string) ([]checkpoint.Entry, error) {
	if c.Dir == "" {
		return nil, nil
	}
	return checkpoint.Find(c.Dir, ledger)
}

// Read reads a checkpoint, and returns its size too.
func (c *Checkpoints) Read(path string) (e Keeper, at Reached, size int64, err error) {
	f, size, err := checkpoint.OpenFile(path)
	if err != nil {
		return nil, at, 0, err
	}
	defer f.Close()
	e, meta, err := c.Restore(f, size, checkpoint.Blocks(path))
	if err != nil {
		return nil, at, 0, err
	}
	if at, err = positionOf(meta); err != nil {
		Release(e)
		return nil, at, 0, err
	}
	return e, at, size, nil
}

// OpenCheckpoint opens the replayer after the last window of a checkpoint.
func (p *Replayer) OpenCheckpoint(ctx, fetching context.Context, path string) error {
	found, err := statesOf(p).loadCheckpoint(ctx, path)
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", path, err)
	}
	return p.begin(fetching, found)
}

// loadCheckpoint returns the state of a checkpoint.
func (s *states) loadCheckpoint(ctx context.Context, path string) (*found, error) {
	began := time.Now()
	e, at, size, err := s.cfg.Checkpoints.Read(path)
	if err != nil {
		return nil, err
	}
	found, err := s.find(ctx, e, &at, path)
	if err != nil {
		return nil, err
	}
	s.cfg.Logger.Info("read a checkpoint", "file", path, "window", at.Window, "megabytes", size>>20, "took",
		time.Since(began).Round(time.Millisecond))
	return found, nil
}

// find finds the last window of an engine's state in the ledger. The state is of the checkpoint at path, or of
// a base if that is empty.
func (s *states) find(ctx context.Context, e Keeper, at *Reached, path string) (*found, error) {
	l, r, err := s.locate(ctx, at)
	if errors.Is(err, errBeyond) && path != "" {
		l, r, err = s.passEnd(ctx, path, at, err)
	}
	if err != nil {
		Release(e)
		return nil, err
	}
	return &found{e, *at, l, r}, nil
}

// errBeyond says that a ledger ends before the last window of a checkpoint.
var errBeyond = errors.New("the ledger ends before it")

// passEnd returns, if a gap is to be accepted, the end of the ledger and a record with the state of
// a checkpoint that is of this ledger and beyond its end. Otherwise such a checkpoint is a
// [ledger.ShortError]. Of another ledger with the same name, err stands.
func (s *states) passEnd(ctx context.Context, path string, at *Reached, err error) (*ledger.Ledger, *ledger.Record, error) {
	names := s.cfg.Terms.Names
	ids, wrong := s.client.TopicIDs(ctx, names.Ledger)
	switch own := checkpoint.Folder(s.cfg.Checkpoints.Dir, names.Own(), ids[names.Ledger]); {
	case wrong != nil:
		return nil, nil, wrong
	case ids[names.Ledger] == "" || filepath.Dir(path) != own:
		return nil, nil, err
	}
	// Brokers say that a window is committed before it can be read.
	const tries, pause = 10, 100 * time.Millisecond
	for range tries {
		if err := kafka.Sleep(ctx, pause); err != nil {
			return nil, nil, err
		}
		if l, r, err := s.locate(ctx, at); !errors.Is(err, errBeyond) {
			return l, r, err
		}
	}
	if err := s.endsTogether(ctx, path, at); err != nil {
		return nil, nil, err
	}
	if !s.gap.accepted {
		return nil, nil, ledger.Short(ctx, s.client, s.cfg.Terms.Names.LedgerAt(), at.Window-1,
			fmt.Sprintf("a checkpoint of its first %d windows, %s", at.Window, path))
	}
	s.stretch.begin(at.Settings)
	if !s.stretch.settings.Own {
		return nil, nil, fmt.Errorf("it has other settings: %w", err)
	}
	s.gap.lossy = true
	newest, err := ledger.Newest(ctx, s.client, s.cfg.Terms.Names.LedgerAt())
	if err != nil {
		return nil, nil, err
	}
	l, err := ledger.OpenEnd(ctx, s.client, s.cfg.Terms.Names.LedgerAt())
	r := &ledger.Record{
		Epoch: at.Epoch, Model: at.Model, Chain: at.Chain, Shadow: at.Shadow, Trial: at.Trial,
		Terms: ledger.Terms{Settings: s.stretch.settings.Hash},
	}
	if at.Serves != at.Model {
		r.Promoted = at.Serves
	}
	if r.Stepped = time.UnixMilli(0).Add(clocks); newest != nil {
		r.Stepped = newest.Stepped
	}
	return l, r, err
}

// locate finds the record of the checkpoint's last window in the ledger and compares
// its hashes. If that window was never committed, there is no such record, or its hash
// differs. In a copy of the ledger the record has an earlier offset than in the original.
func (s *states) locate(ctx context.Context, at *Reached) (*ledger.Ledger, *ledger.Record, error) {
	name := s.cfg.Terms.Names.Ledger
	l, err := ledger.OpenAt(ctx, s.client, s.cfg.Terms.Names.LedgerAt(), at.Ledger)
	if err != nil {
		return nil, nil, err
	}
	for again := at.Ledger > 0; ; {
		r, err := l.Next(ctx)
		switch {
		case err != nil:
			return nil, nil, err
		case again && (r == nil || r.Window >= at.Window):
			again = false
			if l, err = ledger.OpenAt(ctx, s.client, s.cfg.Terms.Names.LedgerAt(), 0); err != nil {
				return nil, nil, err
			}
			continue
		case r == nil:
			return nil, nil, fmt.Errorf("ledger %s, window %d: %w", name, at.Window-1, errBeyond)
		case r.Window >= at.Window:
			return nil, nil, fmt.Errorf("the ledger %s does not hold window %d where it should", name, at.Window-1)
		case r.Window < at.Window-1:
			continue
		case r.Epoch != at.Epoch:
			return nil, nil, fmt.Errorf("the ledger %s has window %d in epoch %d, and the checkpoint in epoch %d", name,
				r.Window, r.Epoch, at.Epoch)
		case r.Model != at.Model || r.Chain != at.Chain:
			return nil, nil, fmt.Errorf("the ledger %s has %s for window %d, and the checkpoint has %s", name, r.Chain, r.Window, at.Chain)
		case r.Taken != "" && r.Taken != at.Sum():
			return nil, nil, fmt.Errorf("the ledger %s has other records of the inputs in windows before %d than the "+
				"checkpoint", name, at.Window)
		case at.Shadow != nil && r.Shadow != nil && *at.Shadow != *r.Shadow:
			return nil, nil, fmt.Errorf("the ledger %s has %s of model %s in the shadow for window %d, and the "+
				"checkpoint has %s", name, r.Shadow.Chain, r.Shadow.Model, r.Window, at.Shadow.Chain)
		}
		if s.stretch.settings.All == "" { // no record has been found that has them
			s.stretch.begin(at.Settings)
		}
		if err := s.stretch.Read(ctx, &r.Terms); err != nil {
			return nil, nil, err
		}
		if !s.stretch.settings.Own {
			return nil, nil, fmt.Errorf("the ledger %s has other settings in window %d", name, r.Window)
		}
		return l, r, nil
	}
}
