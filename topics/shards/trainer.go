package shards

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/crash"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/shards/cuts"
	"github.com/gvbll/gvbll/topics/shards/exchange"
	"github.com/gvbll/gvbll/topics/worker"
)

// trainer learns the windows that a sequencer has cut, in a goroutine of its own: it waits for the rows
// of all shards, learns them, and sends the heads.
//
// While it stands by, and at a start, it waits for the heads that were sent by the sequencer that owned
// the task, and compares them with its own: they must be the same bytes. From the first window on
// whose heads are not in the exchange it sends them itself.
type trainer struct {
	sequencer *sequencer
	engine    Trainer
	saver     *worker.Saver
	sender    *exchange.Sender
	records   *kafka.Producer                   // of what was learned; nil before the first labels
	rows      atomic.Pointer[exchange.Receiver] // from the first window on
	heads     *exchange.Receiver                // that were sent before
	at        trainerPosition                   // after the last window whose heads are in the exchange
	ahead     bool                              // the engine has learned one window more
	sends     bool                              // no more heads are in the exchange

	cut   chan cutWindow
	live  chan struct{} // closed once the sequencer owns its task
	ended chan struct{} // closed when run has returned
	err   error         // why; read after ended is closed

	learned  atomic.Int64  // at.Window
	progress chan struct{} // delivers after a window was learned
}

// cutWindow is a window that was cut: the places behind it in the chain of cuts and in the inputs,
// the ledger's settings, and the newest complete window that was known.
type cutWindow struct {
	place    cuts.Place
	inputs   intake.Position
	settings event.Settings
	done     *cuts.Complete
}

// trainerPosition says which windows are in a checkpoint of a trainer.
type trainerPosition struct {
	replay.Reached
	Cuts     cuts.Place        `json:"cuts"`
	Done     *cuts.Complete    `json:"done,omitempty"`
	Exchange exchange.Position `json:"exchange"` // Own is of the rows, All of the heads
}

// aheadOfTrainer bounds, with the depth and the lag, the windows that are cut and not learned. A
// sequencer does not come so far ahead: shards that wait for heads hold it back.
const aheadOfTrainer = 64

// openTrainer returns a trainer after the newest checkpoint that can be used, or at the beginning.
func openTrainer(ctx context.Context, l *sequencer) (*trainer, trainerPosition, error) {
	k := &trainer{
		sequencer: l, cut: make(chan cutWindow, aheadOfTrainer+l.sharded.Depth+l.sharded.Lag),
		live: make(chan struct{}), ended: make(chan struct{}), progress: make(chan struct{}, 1),
	}
	list, err := l.cfg.Checkpoints.Find(l.cfg.Terms.Names.Ledger)
	if err != nil {
		return nil, k.at, err
	}
	for _, entry := range list {
		if err = k.load(ctx, entry.Path); err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil, k.at, ctx.Err()
		}
		l.cfg.Logger.Warn("a checkpoint is skipped", "file", entry.Path, "err", err)
	}
	if k.engine == nil {
		if k.engine, err = l.sharded.NewTrainer(l.sharded.shards); err != nil {
			return nil, k.at, err
		}
		if l.epoch, err = readRun(ctx, l.client, l.cfg.Terms.Names); err != nil {
			return nil, k.at, err
		}
		k.at.Exchange = l.epoch.position(0)
		if l.joint, err = l.isJoint(ctx); err != nil {
			return nil, k.at, err
		}
	}
	k.learned.Store(k.at.Window)
	if k.saver, err = worker.NewSaver(ctx, l.client, l.cfg); err != nil {
		return nil, k.at, err
	}
	k.saver.Newest = k.at.Window
	return k, k.at, nil
}

// load reads a checkpoint.
func (k *trainer) load(ctx context.Context, path string) error {
	l := k.sequencer
	f, size, err := checkpoint.OpenFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	engine, meta, err := l.sharded.RestoreTrainer(l.sharded.shards, f, size, checkpoint.Blocks(path))
	if err != nil {
		return err
	}
	var at trainerPosition
	err = json.Unmarshal([]byte(meta[replay.PositionKey]), &at)
	if err == nil && (at.Model != l.cfg.Terms.Model || !l.cfg.Terms.IsOwn(at.Settings)) {
		err = errors.New("it is of another model or of other settings")
	}
	if err == nil {
		err = at.Cuts.Confirm(ctx, l.client, l.cfg.Terms.Names.LedgerAt(0))
	}
	if err != nil {
		replay.Release(engine)
		return err
	}
	k.engine, k.at, l.epoch = engine, at, runAt(at.Cuts)
	l.terms.Settings = replay.Settings{All: at.Settings, Hash: at.Settings.Hash(), Own: true}
	l.cfg.Logger.Info("read a checkpoint", "file", path, "window", at.Window, "megabytes", size>>20)
	return nil
}

// run learns until the context ends or something fails.
func (k *trainer) run(ctx context.Context) {
	defer close(k.ended)
	following, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-k.live:
			stop() // what nobody has sent is not waited for
		case <-following.Done():
		}
	}()
	sending, end := finishing(ctx) // a window that was learned is to be in the exchange
	defer end()
	for k.err == nil {
		if k.err = k.saver.Poll(k); k.err != nil {
			return
		}
		select {
		case c := <-k.cut:
			k.err = k.learn(ctx, following, sending, c)
		case b := <-k.saver.Room():
			k.saver.Read(b)
		case <-k.saver.Timer.C:
			k.saver.Due = true
		case err := <-k.saver.Done:
			k.saver.Finish(err)
		case <-ctx.Done():
			k.err = ctx.Err()
		}
	}
}

// learn learns the next window. It waits for what others send before the engine learns, and from
// then on for acknowledgements only.
func (k *trainer) learn(ctx, following, sending context.Context, c cutWindow) error {
	window := c.place.Window - 1
	if err := k.open(sending, c.place); err != nil {
		return err
	}
	rows, err := k.rows.Load().Wait(ctx, window, exchange.Rows)
	if err != nil {
		return err
	}
	before, replayed, err := k.sent(ctx, following, window)
	if err != nil {
		return err
	}
	began := time.Now()
	k.ahead = true
	out, heads, err := k.engine.Learn(window, rows)
	if err == nil {
		err = k.engine.Err()
	}
	if err != nil {
		return err
	}
	took := time.Since(began)
	crash.Point(crash.LearnedUnsent)
	switch {
	case !replayed:
		err = k.send(sending, out, heads, c.settings)
	case !bytes.Equal(before, heads):
		err = fmt.Errorf("the heads that were sent after window %d are not those that this worker has learned: compare the program and the model with those of the worker that sent them, and let 'gvbll audit' say which are right", window)
	}
	if err != nil {
		return err
	}
	k.at.Window, k.at.Chain, k.at.Cuts, k.at.Done, k.at.Position = window+1, out.Chain.Hex(), c.place, c.done, c.inputs
	k.at.Model, k.at.Settings = k.sequencer.cfg.Terms.Model, c.settings
	k.ahead = false
	k.learned.Store(window + 1)
	select {
	case k.progress <- struct{}{}:
	default:
	}
	replayed = replayed || window < k.sequencer.epoch.since
	k.sequencer.cfg.Events(replay.Stepped{Outcome: out, Cause: "learned", Replayed: replayed, Took: took})
	return nil
}

// sent waits for the heads of a window that were sent before, unless this sequencer owns its task and
// there are none. It returns them, and whether there are.
func (k *trainer) sent(ctx, following context.Context, window int64) (heads []byte, there bool, err error) {
	if k.sends {
		return nil, false, nil
	}
	got, err := k.heads.Wait(following, window, exchange.Heads)
	if err != nil && ctx.Err() == nil && following.Err() != nil {
		if there, err = k.heads.Arrived(ctx, window, exchange.Heads); err != nil || !there {
			k.sends = err == nil
			return nil, false, err
		}
		got, err = k.heads.Wait(ctx, window, exchange.Heads)
	}
	if err != nil {
		return nil, false, err
	}
	return got[0], true, nil
}

// send records what was learned, and sends the heads.
func (k *trainer) send(ctx context.Context, out *event.Outcome, heads []byte, settings event.Settings) error {
	if out.Window >= k.sequencer.epoch.since { // the others are recorded already
		if err := k.record(ctx, out, settings); err != nil {
			return err
		}
	}
	if err := k.sender.Send(ctx, out.Window, exchange.Heads, heads); err != nil {
		return err
	}
	if err := k.sender.Flush(ctx, out.Window); err != nil {
		return err
	}
	crash.Point(crash.HeadsUnmarked)
	return nil
}

// record writes what was learned into the ledger, for people.
func (k *trainer) record(ctx context.Context, out *event.Outcome, settings event.Settings) error {
	cfg := k.sequencer.cfg
	r := ledger.Record{
		Version: ledger.Version, Epoch: k.sequencer.epoch.epoch, Window: out.Window, Cause: cuts.CauseLearned, Ranges: []ledger.Range{}, Model: cfg.Terms.Model, Terms: ledger.Terms{Settings: settings.Hash()},
		Labels: len(out.Labelled), Updates: out.Heads[0].Version, Posterior: out.Posterior.Hex(), Chain: out.Chain.Hex(), Changes: ledger.Changes(out.Drift),
	}
	if len(out.Labelled) == 0 && len(r.Changes) == 0 {
		return nil
	}
	if cfg.Models.Scores != nil && len(out.Labelled) > 0 {
		r.Scores = cfg.Models.Scores(out)
	}
	if k.records == nil {
		var err error
		if k.records, err = k.sequencer.client.NewProducer(ctx, kafka.ProducerConfig{}); err != nil {
			return err
		}
	}
	at := cfg.Terms.Names.LedgerAt(0)
	if err := k.records.SendAgain(ctx, []kafka.Record{{Topic: at.Topic, Partition: at.Partition, Value: r.Append(nil), Headers: publish.JSONHeaders}}); err != nil {
		return fmt.Errorf("writing what was learned of window %d: %w", out.Window, err)
	}
	return nil
}

// open opens this end of the exchange, which needs to know the epoch.
func (k *trainer) open(ctx context.Context, at cuts.Place) error {
	if k.rows.Load() != nil {
		return nil
	}
	cfg, err := k.sequencer.sharded.exchanges(0, &k.sequencer.epoch, at)
	if err != nil {
		return err
	}
	rows := cfg
	rows.Sent = func(ctx context.Context, window int64, from int) (bool, error) {
		return k.sequencer.sharded.committed(ctx, k.sequencer.client, &k.sequencer.epoch, window, from)
	}
	k.rows.Store(exchange.NewReceiver(k.sequencer.client, rows, exchange.Position{Own: k.at.Exchange.Own}))
	reads := cfg                      // without Sent: what the sequencer before has not sent, this one sends
	reads.Task, reads.Waited = 1, nil // heads are read as shards do
	k.heads = exchange.NewReceiver(k.sequencer.client, reads, exchange.Position{All: k.at.Exchange.All})
	k.sender, err = exchange.NewSender(ctx, k.sequencer.client, cfg)
	return err
}

// Reached implements saved: what was learned is in the exchange.
func (k *trainer) Reached() (next, committed int64) { return k.at.Window, k.at.Window - 1 }

// Savable implements saved.
func (k *trainer) Savable() bool {
	return !k.ahead && (k.sequencer.epoch.since == 0 || k.at.Window > k.sequencer.epoch.since)
}

// Snapshot implements saved.
func (k *trainer) Snapshot() (replay.Snapshot, error) {
	at := k.at
	if r := k.rows.Load(); r != nil {
		at.Exchange = exchange.Position{Own: r.Position(at.Window).Own, All: k.heads.Position(at.Window).All}
	}
	b, err := json.Marshal(at)
	if err != nil {
		return nil, err
	}
	return k.engine.Snapshot(map[string]string{replay.PositionKey: string(b)}), nil
}

// close waits until the goroutine has ended, and returns why. If the sequencer ends without an error,
// which ok says, it writes a last checkpoint.
func (k *trainer) close(ok bool) error {
	<-k.ended
	if k.sender != nil {
		k.sender.Close()
	}
	k.saver.Close(k, ok && errors.Is(k.err, context.Canceled))
	k.release()
	return k.err
}

// release lets another trainer have the folder, and gives up the engine.
func (k *trainer) release() {
	k.saver.Unlock()
	replay.Release(k.engine)
}
