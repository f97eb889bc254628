package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/replay"
)

// saver writes checkpoints concurrently with the loop: the loop reads a snapshot piece
// by piece between windows, and another goroutine writes the pieces. The file gets its
// final name once its last window is known to be committed. One checkpoint is written
// at a time.
type saver struct {
	cfg    replay.Checkpoints
	dir    *checkpoint.Dir // nil when none are written
	log    *slog.Logger
	events func(replay.Event)
	newest int64       // window of the newest checkpoint
	timer  *time.Timer // fires when the next is due
	due    bool        // the timer has fired
	bases  *bases      // nil when none are written

	// Of the checkpoint being written.
	busy     bool
	base     bool   // it is one, and no checkpoint
	path     string // of its file
	began    time.Time
	window   int64
	bytes    int64
	snapshot replay.Snapshot // nil when all of it is read
	pieces   chan []byte     // to the writing goroutine
	spare    chan []byte     // back from it
	keep     chan bool       // whether to keep the file; nil after that was sent
	done     chan error
}

// A piece is small enough to be read between two windows.
const (
	pieceBytes = 1 << 20
	pieceCount = 4
)

// snapshot returns the present state, and says in it which windows are in it.
func (w *worker) snapshot() (replay.Snapshot, error) {
	keeper, _, position, err := w.state()
	if err != nil {
		return nil, err
	}
	return keeper.Snapshot(map[string]string{replay.PositionKey: string(position)}), nil
}

// state returns the engine, and what it has reached, as it is and as JSON.
func (w *worker) state() (keeper replay.Keeper, at replay.Reached, position []byte, err error) {
	keeper, ok := w.replay.Engine.(replay.Keeper)
	if !ok {
		return nil, at, nil, errors.New("checkpoints and bases need an engine whose state can be saved")
	}
	at = w.replay.Position(w.committed.offset)
	position, err = json.Marshal(at)
	return keeper, at, position, err
}

func newSaver(ctx context.Context, c *kafka.Client, cfg *Config) (*saver, error) {
	s := &saver{cfg: cfg.Checkpoints, log: cfg.Logger, events: cfg.Events, done: make(chan error, 1)}
	s.cfg.Every, s.cfg.Keep = cmp.Or(s.cfg.Every, 5*time.Minute), cmp.Or(s.cfg.Keep, 3)
	s.timer = time.NewTimer(s.cfg.Every)
	if s.cfg.Dir == "" {
		s.timer.Stop()
		return s, nil
	}
	ids, err := c.TopicIDs(ctx, cfg.Terms.Names.Ledger)
	if err != nil {
		return nil, err
	}
	s.dir, err = checkpoint.Open(checkpoint.Folder(s.cfg.Dir, cfg.Terms.Names.Own(), ids[cfg.Terms.Names.Ledger]), s.cfg.Keep)
	return s, err
}

// unlock lets another worker write into the folder.
func (s *saver) unlock() {
	if s.dir != nil {
		_ = s.dir.Close()
	}
}

// room returns the channel of the next piece to read into, nil while no snapshot is
// being read.
func (s *saver) room() <-chan []byte {
	if s.snapshot == nil {
		return nil
	}
	return s.spare
}

// poll advances the checkpoint between two windows, without waiting.
func (s *saver) poll(w *worker) error {
	select {
	case <-s.timer.C:
		s.due = true
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
	s.confirm(w.committed.window)
	select {
	case err := <-s.done:
		s.finish(err)
	default:
	}
	return nil
}

// begin begins a checkpoint of the present state, if one is due and the state may be saved.
func (s *saver) begin(w *worker) error {
	next := w.replay.Next()
	if s.dir == nil || s.busy || next == 0 || !w.replay.Savable() {
		return nil
	}
	isBase := s.bases.begins(next)
	if !isBase && (!s.due || next == s.newest) {
		return nil
	}
	take, create := w.snapshot, s.dir.Create
	if isBase {
		take, create = s.bases.take, s.dir.Spool
	} else {
		s.due = false
	}
	snapshot, err := take()
	if err != nil {
		return err
	}
	s.busy, s.began, s.window, s.bytes, s.base = true, time.Now(), next, 0, isBase
	file, err := create(next)
	if err != nil {
		_ = snapshot.Close()
		s.done <- err
		return nil
	}
	if err := snapshot.Keep(file.Blocks()); err != nil {
		_ = snapshot.Close()
		file.Abort()
		s.done <- err
		return nil
	}
	s.snapshot, s.path = snapshot, file.Name()
	s.pieces, s.spare, s.keep = make(chan []byte, pieceCount), make(chan []byte, pieceCount), make(chan bool, 1)
	for range pieceCount {
		s.spare <- make([]byte, pieceBytes)
	}
	go write(file, s.pieces, s.spare, s.keep, s.done)
	return nil
}

// read reads the next piece of the snapshot.
func (s *saver) read(b []byte) {
	n, err := io.ReadFull(s.snapshot, b[:cap(b)])
	s.bytes += int64(n)
	s.pieces <- b[:n] // has room for all pieces
	if err != nil {
		s.stopReading()
	}
}

// stopReading closes the snapshot and ends the writing.
func (s *saver) stopReading() {
	close(s.pieces)
	_ = s.snapshot.Close()
	s.snapshot = nil
}

// confirm keeps the file once its last window is committed.
func (s *saver) confirm(committed int64) {
	if s.busy && s.keep != nil && committed >= s.window-1 {
		s.keep <- true
		s.keep = nil
	}
}

// finish reports the outcome of the checkpoint.
func (s *saver) finish(err error) {
	s.busy = false
	if s.base {
		s.bases.store(s.path, s.bytes, err)
		return
	}
	s.timer.Reset(s.cfg.Every)
	took := time.Since(s.began)
	if err != nil {
		s.log.Warn("a checkpoint was not written", "window", s.window, "err", err)
	} else {
		s.newest = s.window
		s.log.Info("wrote a checkpoint", "window", s.window, "megabytes", s.bytes>>20, "took", took.Round(time.Millisecond))
	}
	s.events(replay.Saved{Window: s.window, Bytes: s.bytes, Took: took, Err: err})
}

// close ends the checkpoint being written. If the worker ends without an error, which ok
// says, and everything is committed, it writes a last checkpoint, so that the next start
// has nothing to replay.
func (s *saver) close(w *worker, ok bool) {
	defer s.timer.Stop()
	defer s.bases.close()
	next, committed := w.replay.Next(), w.committed.window
	if s.busy {
		s.complete(committed)
	}
	if ok && committed == next-1 {
		s.due = true
		if err := s.begin(w); err == nil && s.busy {
			s.complete(committed)
		}
	}
}

// complete writes the rest of the checkpoint. If its last window is not committed by
// now it never will be, and the file is not kept.
func (s *saver) complete(committed int64) {
	s.confirm(committed)
	if s.keep != nil {
		if s.snapshot != nil {
			s.stopReading()
		}
		s.keep <- false
		s.keep = nil
	}
	for s.snapshot != nil {
		s.read(<-s.spare)
	}
	s.finish(<-s.done)
}

// errUncommitted reports a checkpoint whose state is not in the ledger.
var errUncommitted = errors.New("its last window was not committed")

// write writes the pieces, and gives the file its final name if it is to be kept.
func write(file *checkpoint.Writer, pieces <-chan []byte, spare chan<- []byte, keep <-chan bool, done chan<- error) {
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
	if !<-keep {
		err = errors.Join(err, errUncommitted)
	}
	if err != nil {
		file.Abort()
	} else {
		err = file.Commit()
	}
	done <- err
}
