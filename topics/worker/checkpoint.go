package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/ledger"
)

// Checkpoints says where the engine's state is written down, so that a start
// need not replay the ledger from its beginning. The zero value writes none.
type Checkpoints struct {
	Dir   string
	Every time.Duration // this far apart at least; zero means 5 minutes
	Keep  int           // the newest so many; zero means 3
	// Restore makes an engine of a snapshot and returns what the snapshot was
	// given as meta.
	Restore func(r io.ReaderAt, size int64) (e Keeper, meta map[string]string, err error)
}

// Keeper is an engine whose state can be written down. Snapshot returns the
// bytes of the state as it is now, with meta among them; they are read between
// steps that go on. It is closed before the next is asked for.
type Keeper interface {
	Engine
	Snapshot(meta map[string]string) io.ReadCloser
}

// position says where a checkpoint's state stands. It is among the bytes of the
// checkpoint, as JSON, under positionKey.
type position struct {
	Window   int64          `json:"window"` // the next
	Chain    string         `json:"chain"`  // of the model that served
	Model    string         `json:"model"`
	Shadow   *ledger.Shadow `json:"shadow,omitempty"`
	Serves   string         `json:"serves,omitempty"` // where that is another than Model
	Settings string         `json:"settings"`
	Taken    []ledger.Range `json:"taken"`  // of every input partition
	Ledger   int64          `json:"ledger"` // offset at or before that of the last window's record
}

const positionKey = "position"

// committed is what is known of the ledger's end: a window, and the offset of a
// record that is its own or an earlier one's.
type committed struct{ window, offset int64 }

// restore takes the newest checkpoint that is whole and of this ledger. What is
// wrong with others is logged. It returns with the ledger behind the
// checkpoint's last window; without any, at its beginning.
func (w *worker) restore(ctx context.Context) (taken []ledger.Range, err error) {
	list, err := checkpoint.List(w.cfg.Checkpoints.Dir)
	if w.cfg.Checkpoints.Dir != "" && err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, entry := range list {
		p, err := w.load(ctx, entry.Path)
		if err == nil {
			return p.Taken, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		w.cfg.Logger.Warn("a checkpoint is passed over", "file", entry.Path, "err", err)
	}
	w.ledger, err = ledger.Open(ctx, w.client, w.cfg.Names.Ledger)
	return nil, err
}

// load puts the worker behind the last window of the checkpoint.
func (w *worker) load(ctx context.Context, path string) (*position, error) {
	began := time.Now()
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	e, meta, err := w.cfg.Checkpoints.Restore(f, info.Size())
	if err != nil {
		return nil, err
	}
	var p position
	if err := json.Unmarshal([]byte(meta[positionKey]), &p); err != nil {
		return nil, fmt.Errorf("it does not say where it stands: %w", err)
	}
	l, err := w.locate(ctx, &p)
	if err != nil {
		return nil, err
	}
	w.engine, w.ledger, w.next, w.stands = e, l, p.Window, standing{p.Model, p.Chain, p.Shadow, cmp.Or(p.Serves, p.Model)}
	w.landed = committed{p.Window - 1, l.Last()}
	w.cfg.Logger.Info("read a checkpoint", "file", path, "window", p.Window, "megabytes", info.Size()>>20, "took", time.Since(began).Round(time.Millisecond))
	return &p, nil
}

// locate finds the record of the checkpoint's last window in the ledger and
// compares its hash. A state whose window never was committed is not there, or
// the ledger has another in its place.
func (w *worker) locate(ctx context.Context, p *position) (*ledger.Ledger, error) {
	l, err := ledger.OpenAt(ctx, w.client, w.cfg.Names.Ledger, p.Ledger)
	if err != nil {
		return nil, err
	}
	for {
		r, err := l.Next(ctx)
		switch {
		case err != nil:
			return nil, err
		case r == nil:
			return nil, fmt.Errorf("the ledger %s ends before window %d", w.cfg.Names.Ledger, p.Window-1)
		case r.Window >= p.Window:
			return nil, fmt.Errorf("the ledger %s does not hold window %d where it should", w.cfg.Names.Ledger, p.Window-1)
		case r.Window < p.Window-1:
			continue
		case r.Model != p.Model || r.Chain != p.Chain:
			return nil, fmt.Errorf("the ledger %s has %s for window %d, and the checkpoint has %s", w.cfg.Names.Ledger, r.Chain, r.Window, p.Chain)
		case p.Shadow != nil && r.Shadow != nil && *p.Shadow != *r.Shadow:
			return nil, fmt.Errorf("the ledger %s has %s of model %s in the shadow for window %d, and the checkpoint has %s", w.cfg.Names.Ledger, r.Shadow.Chain, r.Shadow.Model, r.Window, p.Shadow.Chain)
		}
		return l, w.belongs(r)
	}
}

// saver writes checkpoints beside the loop: the loop reads a snapshot piece by
// piece between windows, another goroutine writes the pieces. A file gets its
// name once the state in it is known to be committed.
type saver struct {
	cfg   Checkpoints
	dir   *checkpoint.Dir // nil when none are written
	log   *slog.Logger
	last  int64 // window of the newest checkpoint
	due   *time.Timer
	ripe  bool // due has fired
	saved func(Saved)

	// Of the checkpoint under way; snapshot is nil when there is none, or all
	// of it is read.
	busy     bool
	began    time.Time
	window   int64
	bytes    int64
	snapshot io.ReadCloser
	pieces   chan []byte // to the writer
	spare    chan []byte // back from it
	verdict  chan bool   // whether the state is committed
	done     chan error
}

// Pieces are small enough to be read between two windows.
const (
	pieceBytes = 1 << 20
	pieceCount = 4
)

func newSaver(cfg *Config) (*saver, error) {
	s := &saver{cfg: cfg.Checkpoints, log: cfg.Logger, saved: cfg.Hooks.Saved, done: make(chan error, 1)}
	if s.cfg.Every == 0 {
		s.cfg.Every = 5 * time.Minute
	}
	if s.cfg.Keep == 0 {
		s.cfg.Keep = 3
	}
	s.due = time.NewTimer(s.cfg.Every)
	if s.cfg.Dir == "" {
		s.due.Stop()
		return s, nil
	}
	var err error
	s.dir, err = checkpoint.Open(s.cfg.Dir, s.cfg.Keep)
	return s, err
}

// room is the channel of the next piece to read into, nil while nothing is
// being read.
func (s *saver) room() <-chan []byte {
	if s.snapshot == nil {
		return nil
	}
	return s.spare
}

// between does what there is to do between two windows, without waiting.
func (s *saver) between(w *worker) error {
	select {
	case <-s.due.C:
		s.ripe = true
	default:
	}
	if err := s.begin(w); err != nil {
		return err
	}
	select {
	case b := <-s.room():
		s.read(b)
	default:
	}
	s.settle(w.landed.window)
	select {
	case err := <-s.done:
		s.end(err)
	default:
	}
	return nil
}

// begin begins a checkpoint of the state as it is, if one is due.
func (s *saver) begin(w *worker) error {
	if s.dir == nil || s.busy || !s.ripe || w.next == s.last || w.next == 0 || w.next < w.rewound {
		return nil
	}
	keeper, ok := w.engine.(Keeper)
	if !ok {
		return errors.New("checkpoints of an engine that cannot be written down")
	}
	p := position{
		Window: w.next, Chain: w.stands.chain, Model: w.stands.model, Shadow: w.stands.shadow, Serves: w.stands.serves, Settings: w.cfg.Settings,
		Taken: w.inputs.Consumed(), Ledger: max(w.landed.offset, 0),
	}
	if p.Serves == p.Model {
		p.Serves = ""
	}
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	s.ripe, s.busy, s.began, s.window, s.bytes = false, true, time.Now(), w.next, 0
	file, err := s.dir.Create(w.next)
	if err != nil {
		s.done <- err
		return nil
	}
	s.snapshot = keeper.Snapshot(map[string]string{positionKey: string(b)})
	s.pieces, s.spare, s.verdict = make(chan []byte, pieceCount), make(chan []byte, pieceCount), make(chan bool, 1)
	for range pieceCount {
		s.spare <- make([]byte, pieceBytes)
	}
	go write(file, s.pieces, s.spare, s.verdict, s.done)
	return nil
}

// read reads the next piece of the snapshot.
func (s *saver) read(b []byte) {
	n, err := io.ReadFull(s.snapshot, b[:cap(b)])
	s.bytes += int64(n)
	s.pieces <- b[:n] // has room for all that there are
	if err != nil {
		s.stop()
	}
}

// stop ends the reading, and with it the writing.
func (s *saver) stop() {
	close(s.pieces)
	_ = s.snapshot.Close()
	s.snapshot = nil
}

// settle lets the checkpoint count once its last window is committed.
func (s *saver) settle(window int64) {
	if s.busy && s.verdict != nil && window >= s.window-1 {
		s.verdict <- true
		s.verdict = nil
	}
}

// end notes how the checkpoint went.
func (s *saver) end(err error) {
	s.busy = false
	s.due.Reset(s.cfg.Every)
	took := time.Since(s.began)
	if err != nil {
		s.log.Warn("a checkpoint was not written", "window", s.window, "err", err)
	} else {
		s.last = s.window
		s.log.Info("wrote a checkpoint", "window", s.window, "megabytes", s.bytes>>20, "took", took.Round(time.Millisecond))
	}
	if s.saved != nil {
		s.saved(Saved{Window: s.window, Bytes: s.bytes, Took: took, Err: err})
	}
}

// close ends the checkpoint that is under way. When the worker ends well a last
// one is written, so that the next start has nothing to replay.
func (s *saver) close(w *worker, well bool) {
	defer s.due.Stop()
	if s.busy {
		s.finish(w)
	}
	if well && !w.torn && w.landed.window == w.next-1 {
		s.ripe = true
		if err := s.begin(w); err == nil && s.busy {
			s.finish(w)
		}
	}
}

// finish goes on with the checkpoint until it is there, or cannot be.
func (s *saver) finish(w *worker) {
	s.settle(w.landed.window)
	if s.verdict != nil { // of windows that never were committed
		if s.snapshot != nil {
			s.stop()
		}
		s.verdict <- false
		s.verdict = nil
	}
	for s.snapshot != nil {
		s.read(<-s.spare)
	}
	s.end(<-s.done)
}

// errUncommitted is a checkpoint's end when its state turned out not to be the
// ledger's.
var errUncommitted = errors.New("its last window was not committed")

// write writes the pieces, and keeps the file if the verdict is good.
func write(file *checkpoint.Writer, pieces <-chan []byte, spare chan<- []byte, verdict <-chan bool, done chan<- error) {
	var err error
	for b := range pieces {
		if err == nil {
			_, err = file.Write(b)
		}
		spare <- b
	}
	if err == nil {
		err = file.Sync()
	}
	if good := <-verdict; !good {
		err = errors.Join(err, errUncommitted)
	}
	if err != nil {
		file.Abort()
	} else {
		err = file.Commit()
	}
	done <- err
}
