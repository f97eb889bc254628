package shards

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/crash"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/shards/cuts"
	"github.com/gvbll/gvbll/topics/shards/exchange"
)

// Shard is the engine of one slice of a graph. A window is stepped in three parts, between which
// the shards exchange their parts of the arrivals' embeddings, and what they served. Later windows
// may be entered and heard before earlier ones are served.
//
// As a [replay.Engine], a shard copies what it keeps of a window, which stays as it is until its Serve
// has returned. Bytes that it returns are valid until the next call of the same method.
type Shard interface {
	// Enter brings the graph up to date, and returns this shard's part of the embeddings of
	// each shard's arrivals, in the order of the shards.
	Enter(w *event.Window) (parts [][]byte)
	// Hear ends the entering of a window. It sets what all shards served in window w-1-lag,
	// nil for windows before the first.
	Hear(served [][]byte) error
	// Serve predicts this shard's own arrivals in the oldest window that was heard and not
	// served, from all shards' parts of their embeddings. Before that it sets the heads after
	// the labels of window w-1-lag, which is empty where no label was learned. It returns the
	// rows of the labels that the window has joined, for the trainer, and what it has served, for
	// the other shards.
	Serve(parts [][]byte, heads []byte) (out *event.Outcome, rows, served []byte, err error)
	// Err is as in [replay.Engine].
	Err() error
	// Snapshot is as in [replay.Keeper].
	Snapshot(meta map[string]string) replay.Snapshot
}

// share makes a [replay.Engine] of a [Shard]: it is the worker's end of the exchange. In windows that
// are replayed it reads what the others sent and sends nothing, for its own messages of every
// window in the ledger are acknowledged. Once it is live it sends, and a window may be committed
// when all that it sent for it is acknowledged.
//
// Windows may be entered ahead, see enter: then their parts are sent, and the others' on their
// way, while earlier windows wait for theirs. The outcomes are the same.
type share struct {
	cfg   *Config
	task  int
	ctx   context.Context // ends all waiting
	shard Shard
	kafka *kafka.Client
	run   run
	place cuts.Place        // in the chain of cuts, behind the window that is entered now
	at    exchange.Position // where the receiver begins
	// forgets says that the commands to forget nodes in the window that is entered now are obeyed.
	forgets bool
	// served is what this shard served in windows that are not set yet, by window.
	served map[int64][]byte
	// ahead are the windows that are entered and not served, the oldest first. unheard says
	// that the entering of the last one has not ended.
	ahead   []enteredWindow
	unheard bool
	// meanwhile is called while the parts of a window are waited for. It may enter others.
	meanwhile func() error
	receiver  atomic.Pointer[exchange.Receiver] // from the first window on; others ask it what is missing
	live      bool                              // it sends
	sender    *exchange.Sender                  // from the first live window on
	err       error
}

// enteredWindow is a window that is entered.
type enteredWindow struct {
	*event.Window
	own     []byte // this shard's part of the embeddings of its own arrivals
	forgets bool   // its commands to forget nodes are obeyed
}

// shareKey is the key of a sharePosition in a checkpoint.
const shareKey = "share"

// sharePosition is what a checkpoint of a shard says besides its position.
type sharePosition struct {
	Cuts     cuts.Place        `json:"cuts"`
	Exchange exchange.Position `json:"exchange"`
	Served   map[int64][]byte  `json:"served"`
}

func newShare(ctx context.Context, c *kafka.Client, cfg *Config, task int, shard Shard) *share {
	return &share{cfg: cfg, task: task, ctx: ctx, shard: shard, kafka: c, served: make(map[int64][]byte), meanwhile: func() error { return nil }}
}

// restoreShare returns a share from the snapshot of one.
func restoreShare(ctx context.Context, c *kafka.Client, cfg *Config, task int, r io.ReaderAt, size int64, folder string) (*share, map[string]string, error) {
	shard, meta, err := cfg.RestoreShard(task-1, cfg.shards, r, size, folder)
	if err != nil {
		return nil, nil, err
	}
	s := newShare(ctx, c, cfg, task, shard)
	var at sharePosition
	if err := json.Unmarshal([]byte(meta[shareKey]), &at); err != nil {
		replay.Release(s)
		return nil, nil, fmt.Errorf("the checkpoint does not say where the shard stands in the exchange: %w", err)
	}
	if err := at.Cuts.Confirm(ctx, c, cfg.Terms.Names.LedgerAt(0)); err != nil {
		replay.Release(s)
		return nil, nil, err
	}
	s.run, s.place, s.at = runAt(at.Cuts), at.Cuts, at.Exchange
	if at.Served != nil {
		s.served = at.Served
	}
	return s, meta, nil
}

// exchanges returns the configuration of a task's end of the exchange in a run. In the first one,
// the place in the chain of cuts says when it began.
func (cfg *Config) exchanges(task int, r *run, at cuts.Place) (exchange.Config, error) {
	began, err := hex.DecodeString(cmp.Or(r.began, at.Began))
	if err != nil || len(began) < 8 {
		return exchange.Config{}, fmt.Errorf("ledger %s: no cut of a window has been read", cfg.Terms.Names.Ledger)
	}
	return exchange.Config{
		Topic: cfg.Terms.Names.Exchange, Shards: cfg.shards, Task: task, Run: binary.LittleEndian.Uint64(began), Logger: cfg.Logger,
		Waited: cfg.waited(task),
	}, nil
}

// Step implements replay.Engine.
func (s *share) Step(w *event.Window) *event.Outcome {
	out, err := s.step(w)
	if err != nil {
		s.err = err
		return &event.Outcome{Window: w.Number}
	}
	return out
}

// Err implements replay.Engine.
func (s *share) Err() error {
	if s.err != nil {
		return s.err
	}
	return s.shard.Err()
}

// step serves a window, which it enters first unless it was entered ahead.
func (s *share) step(w *event.Window) (*event.Outcome, error) {
	if len(s.ahead) == 0 {
		if err := s.enter(w); err != nil {
			return nil, err
		}
	}
	return s.serve()
}

// maxAhead bounds the windows that are entered and not served. A sequencer does not cut more.
const maxAhead = defaultDepth

// mayEnter reports whether another window may be entered before the oldest one is served: the
// window before it is heard first, which needs what this shard served Lag + 1 windows earlier.
// If not ahead, only one may be entered.
func (s *share) mayEnter(ahead bool) bool {
	return len(s.ahead) == 0 || ahead && len(s.ahead) < int(min(s.cfg.Lag+2, maxAhead))
}

// enter enters the next window, and sends its parts. The window must stay as it is until it is
// stepped.
func (s *share) enter(w *event.Window) error {
	if err := s.hear(); err != nil {
		return err
	}
	if err := s.open(); err != nil {
		return err
	}
	parts := s.shard.Enter(w)
	if err := s.shard.Err(); err != nil {
		return err
	}
	s.ahead, s.unheard = append(s.ahead, enteredWindow{w, bytes.Clone(parts[s.task-1]), s.forgets}), true
	if !s.live {
		return nil
	}
	return s.sender.Send(s.ctx, w.Number, exchange.Part, parts...)
}

// hear ends the entering of the last window.
func (s *share) hear() (err error) {
	if !s.unheard {
		return nil
	}
	var served [][]byte
	if learned := s.ahead[len(s.ahead)-1].Number - 1 - s.cfg.Lag; learned >= 0 {
		if served, err = s.receiver.Load().Wait(s.ctx, learned, exchange.Served); err != nil {
			return err
		}
		served[s.task-1] = s.served[learned]
		delete(s.served, learned)
	}
	s.unheard = false
	return s.shard.Hear(served)
}

// serve serves the oldest window that is entered, and sends what others need of that.
func (s *share) serve() (*event.Outcome, error) {
	w := s.ahead[0]
	if len(s.ahead) == 1 {
		if err := s.hear(); err != nil {
			return nil, err
		}
	}
	parts, err := s.receiver.Load().WaitForParts(s.ctx, w.Number, s.meanwhile)
	if err != nil {
		return nil, err
	}
	parts[s.task-1] = w.own
	var heads []byte
	if learned := w.Number - 1 - s.cfg.Lag; learned >= 0 {
		got, err := s.receiver.Load().Wait(s.ctx, learned, exchange.Heads)
		if err != nil {
			return nil, err
		}
		heads = got[0]
	}
	out, rows, served, err := s.shard.Serve(parts, heads)
	if err != nil {
		return nil, err
	}
	s.ahead = slices.Delete(s.ahead, 0, 1)
	s.served[w.Number] = bytes.Clone(served)
	if !w.forgets {
		refuseForgetting(w.Commands, out, s.task, s.cfg.shards)
	}
	if !s.live {
		return out, nil
	}
	if err := s.sender.Send(s.ctx, w.Number, exchange.Rows, rows); err != nil {
		return nil, err
	}
	if w.Number < s.run.since { // it is not committed
		crash.Point(crash.InForget)
	}
	return out, s.sender.Send(s.ctx, w.Number, exchange.Served, served)
}

// acknowledged waits until all that was sent for a window that was stepped, and for those before,
// is acknowledged. The publisher calls it.
func (s *share) acknowledged(ctx context.Context, window int64) error {
	if err := s.sender.Flush(ctx, window); err != nil {
		return err
	}
	crash.Point(crash.BeforeTaskCommit)
	return nil
}

// open opens this shard's end of the exchange, which needs to know the epoch.
func (s *share) open() error {
	if s.receiver.Load() != nil && (s.sender != nil || !s.live) {
		return nil
	}
	cfg, err := s.cfg.exchanges(s.task, &s.run, s.place)
	if err != nil {
		return err
	}
	cfg.Sent = s.sent
	if s.receiver.Load() == nil {
		s.receiver.Store(exchange.NewReceiver(s.kafka, cfg, s.at))
	}
	if s.live && s.sender == nil {
		s.sender, err = exchange.NewSender(s.ctx, s.kafka, cfg)
	}
	return err
}

// sent implements exchange.Config.Sent. All messages that a window needs were there before it was
// committed, and those of a shard before it committed its own.
func (s *share) sent(ctx context.Context, window int64, from int) (bool, error) {
	if !s.live {
		return true, nil
	}
	return s.cfg.committed(ctx, s.kafka, &s.run, window, from)
}

// committed reports whether a shard has committed a window in a run, or stepped it in the replay
// that began the run. The sequencer commits none.
func (cfg *Config) committed(ctx context.Context, c *kafka.Client, in *run, window int64, task int) (bool, error) {
	if task == 0 {
		return false, nil
	}
	r, err := ledger.Newest(ctx, c, cfg.Terms.Names.LedgerAt(task))
	return r != nil && r.Epoch >= in.epoch && r.Window >= window, err
}

// refuseForgetting refuses the commands to forget nodes, because what they need is gone, each in
// one of the shards. A shard refuses other commands itself.
func refuseForgetting(commands []event.Command, out *event.Outcome, task, shards int) {
	replay.Refuse(out, slices.DeleteFunc(slices.Clone(commands), func(c event.Command) bool {
		return c.Name != event.Forget || int(c.Origin.Offset%int64(shards)) != task-1
	}), replay.DeclinedGone)
}

// Snapshot implements replay.Keeper.
func (s *share) Snapshot(meta map[string]string) replay.Snapshot {
	at := sharePosition{Cuts: s.place, Exchange: s.at, Served: s.served}
	if r := s.receiver.Load(); r != nil {
		at.Exchange = r.Position(max(s.place.Window-1-s.cfg.Lag, 0))
	}
	b, err := json.Marshal(at)
	if err != nil {
		panic(err) // strings, numbers and bytes only
	}
	meta[shareKey] = string(b)
	return s.shard.Snapshot(meta)
}

// Close implements io.Closer.
func (s *share) Close() error {
	if s.sender != nil {
		s.sender.Close()
	}
	if c, ok := s.shard.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
