package worker

import (
	"cmp"
	"encoding/hex"
	"maps"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// maxKey is how much of a refused record's key is its dead letter's. The dead
// letter's value has more of it.
const maxKey = 1 << 10

// effects is what a window led to, on its way from the loop to the encoder. The
// predictions are still the outcome's; all else is a copy, for the window's
// records are given back and the engine goes on.
type effects struct {
	predictions, revisions []event.Prediction
	letters                []kafka.Record // dead letters
	record                 []byte         // of the ledger
	memory                 []byte         // of the letters
	offsets                map[kafka.TopicPartition]int64
	window                 int64
	chain                  string // as the ledger has it
	stepped                time.Time
}

// effects notes what a window led to, and where the inputs stand behind it.
func (w *worker) effects(out *event.Outcome, cause string, ranges []ledger.Range) *effects {
	e := w.encoder.new()
	e.predictions, e.revisions, e.stepped = out.Predictions, out.Revisions, time.Now()
	for i := range out.Refused {
		r := &out.Refused[i]
		from := len(e.memory)
		e.memory = append(e.memory, r.Origin.Key[:min(len(r.Origin.Key), maxKey)]...)
		key := e.memory[from:]
		if r.Origin.Key == nil {
			key = nil
		}
		from = len(e.memory)
		e.memory = wire.AppendDeadLetter(e.memory, r)
		e.letters = append(e.letters, kafka.Record{Topic: w.cfg.Names.DeadLetters, Key: key, Value: e.memory[from:]})
	}
	record := ledger.Record{
		Version: ledger.Version, Window: out.Window, Cause: cause, Ranges: ranges,
		Model: cmp.Or(out.Model, w.cfg.Model), Settings: w.cfg.Settings,
		Predictions: len(out.Predictions), Revisions: len(out.Revisions), Labels: len(out.Labelled), Refused: len(out.Refused),
		Updates: out.Heads[0].Version, Posterior: hash(out.Posterior), Chain: hash(out.Chain),
		Forgot:   w.forgot,
		Promoted: out.Promoted,
	}
	if s := out.Shadow; s != nil {
		record.Shadow = &ledger.Shadow{Model: s.Model, Updates: s.Heads[0].Version, Posterior: hash(s.Posterior), Chain: hash(s.Chain)}
	}
	if by := out.ServedBy; by > 0 {
		record.Head = out.Heads[by].Name
	}
	if out.Window == 0 {
		record.Classes = w.cfg.Classes
	}
	e.record = record.Append(e.record)
	e.window, e.chain = record.Window, record.Chain
	w.stands = standingOf(&record)
	w.inputs.Offsets(e.offsets)
	return e
}

func hash(h event.Hash) string { return hex.EncodeToString(h[:]) }

// encoder makes outputs of what windows led to, beside the worker's loop, and
// hands them to the publisher. What the publisher cannot take at once gathers, up
// to a limit.
type encoder struct {
	cfg       *Config
	outputs   map[string]int // partitions of the topics written to
	publisher *publisher

	in    chan *effects // unbuffered: who sends the next knows that the last is encoded
	spare chan *effects // for use again

	output     *output // not handed over yet
	key, value []byte
}

func newEncoder(cfg *Config, outputs map[string]int, p *publisher) *encoder {
	// One is being encoded while the loop fills another.
	return &encoder{cfg: cfg, outputs: outputs, publisher: p, in: make(chan *effects), spare: make(chan *effects, 2), output: p.new()}
}

// new returns empty effects.
func (c *encoder) new() *effects {
	select {
	case e := <-c.spare:
		return e
	default:
		return &effects{offsets: make(map[kafka.TopicPartition]int64)}
	}
}

// run ends when in is closed and all that came is handed over, with the first
// error, which the publisher then ends with, or when that has ended.
func (c *encoder) run() {
	defer close(c.publisher.in)
	in := c.in
	for in != nil || c.output.windows > 0 {
		next, ready := in, c.publisher.in
		if c.output.windows == 0 {
			ready = nil
		} else if c.output.batch.Bytes() >= maxOutput {
			next = nil
		}
		select {
		case e, more := <-next:
			if !more {
				in = nil
				continue
			}
			if err := c.encode(e); err != nil {
				// Part of a window must not be published; a replay makes up for
				// the whole ones before it.
				c.publisher.short = err
				return
			}
		case ready <- c.output:
			c.output = c.publisher.new()
		case <-c.publisher.ended:
			return
		}
	}
}

// encode adds a window to the output: predictions, dead letters and the ledger's
// record.
func (c *encoder) encode(e *effects) error {
	o := c.output
	if o.windows == 0 {
		o.since = e.stepped
	}
	o.windows++
	put := func(r *kafka.Record) error {
		r.Time = e.stepped
		if n := c.outputs[r.Topic]; n > 1 {
			r.Partition = kafka.PartitionFor(r.Key, n)
		}
		return o.batch.Add(r)
	}
	for _, list := range [...][]event.Prediction{e.predictions, e.revisions} {
		for i := range list {
			p := &list[i]
			c.key, c.value = wire.AppendKey(c.key[:0], p.Node), wire.AppendPrediction(c.value[:0], p)
			if err := put(&kafka.Record{Topic: c.cfg.Names.Predictions, Key: c.key, Value: c.value}); err != nil {
				return err
			}
		}
	}
	for i := range e.letters {
		if err := put(&e.letters[i]); err != nil {
			return err
		}
	}
	if err := put(&kafka.Record{Topic: c.cfg.Names.Ledger, Value: e.record}); err != nil {
		return err
	}
	o.last, o.chain = e.window, e.chain
	maps.Copy(o.offsets, e.offsets)
	clear(e.offsets)
	clear(e.letters)
	*e = effects{letters: e.letters[:0], record: e.record[:0], memory: e.memory[:0], offsets: e.offsets}
	select {
	case c.spare <- e:
	default:
	}
	return nil
}
