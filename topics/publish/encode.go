package publish

import (
	"maps"
	"slices"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
)

// Effects are the results of a window, on their way from the loop to the encoder. The
// predictions are the outcome's own; all else is a copy, because the window's records
// are released and the engine continues.
type Effects struct {
	predictions, revisions []event.Prediction
	letters                []kafka.Record // dead letters
	record                 []byte         // of the ledger
	memory                 []byte         // holds the keys and values of letters, and of copied headers
	copied                 []kafka.Header // of the records of predictions
	ends                   []int          // by prediction and then revision, where its headers end in copied; empty if none are copied
	// Offsets are those of the inputs after the window, for the group. The caller fills them in.
	Offsets      map[kafka.TopicPartition]int64
	window       int64
	chain        string // as the ledger has it
	cut, stepped time.Time
}

// The headers of everything that is written. Dead letters and the ledger are JSON always.
var (
	JSONHeaders       = contentType(wire.JSON)
	predictionHeaders = map[wire.Encoding][]kafka.Header{wire.MsgPack: contentType(wire.MsgPack), wire.JSON: JSONHeaders}
)

func contentType(e wire.Encoding) []kafka.Header {
	return []kafka.Header{{Key: wire.ContentType, Value: []byte(e)}}
}

// fill fills empty effects with the results of a window that was cut at the given time.
func (e *Effects) fill(out *event.Outcome, record *ledger.Record, cut time.Time, cfg *Config, topic string) {
	e.predictions, e.revisions, e.cut, e.stepped = out.Predictions, out.Revisions, cut, time.Now()
	if len(cfg.CopyHeaders) > 0 {
		for _, list := range [...][]event.Prediction{out.Predictions, out.Revisions} {
			for i := range list {
				e.copied = e.appendCopied(e.copied, list[i].Origin, cfg.CopyHeaders)
				e.ends = append(e.ends, len(e.copied))
			}
		}
	}
	for i := range out.Refused {
		r := &out.Refused[i]
		from := len(e.memory)
		e.memory = append(e.memory, wire.LetterKey(r)...)
		key := e.memory[from:]
		if r.Origin.Key == nil {
			key = nil
		}
		from = len(e.memory)
		e.memory = wire.AppendDeadLetter(e.memory, r)
		e.letters = append(e.letters, kafka.Record{Topic: topic, Key: key, Value: e.memory[from:], Headers: e.appendCopied(slices.Clip(JSONHeaders), r.Origin, cfg.CopyHeaders)})
	}
	e.record = record.Append(e.record)
	e.window, e.chain = record.Window, record.Chain
}

// Bounds on the headers that are copied of a record; those beyond are left out.
const (
	maxCopied      = 16      // headers
	maxCopiedValue = 8 << 10 // bytes, as of a W3C baggage
)

// appendCopied appends copies of a record's headers with the given keys, in their order.
func (e *Effects) appendCopied(dst []kafka.Header, o *event.Origin, keys []string) []kafka.Header {
	if o == nil || len(keys) == 0 {
		return dst
	}
	most := len(dst) + maxCopied
	for _, h := range o.Headers {
		at := slices.Index(keys, h.Key)
		if at < 0 || len(h.Value) > maxCopiedValue || len(dst) == most {
			continue
		}
		c := kafka.Header{Key: keys[at]}
		if h.Value != nil {
			from := len(e.memory)
			e.memory = append(e.memory, h.Value...)
			c.Value = e.memory[from:]
		}
		dst = append(dst, c)
	}
	return dst
}

// encoder encodes the effects of windows into outputs, concurrently with the owner's
// loop, and passes them to the publisher. While the publisher is busy, windows gather
// in one output, up to maxOutput.
type encoder struct {
	cfg        *Config
	terms      *replay.Terms
	partitions map[string]int // of the output topics
	publisher  *publisher

	in    chan *Effects // unbuffered: when the next one is received, the last one is encoded
	spare chan *Effects // to be reused

	output     *output // not passed on yet
	key, value []byte
	scratch    []kafka.Header
}

func newEncoder(cfg *Config, terms *replay.Terms, partitions map[string]int, p *publisher) *encoder {
	// One is being encoded while the loop fills another.
	return &encoder{cfg: cfg, terms: terms, partitions: partitions, publisher: p, in: make(chan *Effects), spare: make(chan *Effects, 2), output: p.new()}
}

// new returns empty effects.
func (c *encoder) new() *Effects {
	select {
	case e := <-c.spare:
		return e
	default:
		return &Effects{Offsets: make(map[kafka.TopicPartition]int64)}
	}
}

// run ends when in is closed and everything received is passed on, or at the first
// error, which becomes the publisher's, or when the publisher has ended.
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
				// A part of a window must not be published. The whole windows before it
				// are dropped too: a replay produces them again.
				c.publisher.encodeErr = err
				return
			}
		case ready <- c.output:
			c.output = c.publisher.new()
		case <-c.publisher.ended:
			return
		}
	}
}

// encode adds a window to the output: predictions, those of nodes to be labelled once more, in
// partition 0 of their topic, dead letters and the ledger's record.
func (c *encoder) encode(e *Effects) error {
	o := c.output
	if o.windows == 0 {
		o.since = e.cut
	}
	o.windows++
	put := func(r *kafka.Record) error {
		r.Time = e.stepped
		if n := c.partitions[r.Topic]; n > 1 {
			r.Partition = kafka.PartitionFor(r.Key, n)
		}
		return o.batch.Add(r)
	}
	from, ends := 0, e.ends
	for _, list := range [...][]event.Prediction{e.predictions, e.revisions} {
		for i := range list {
			p := &list[i]
			c.key, c.value = wire.AppendKey(c.key[:0], p.Node), c.cfg.Output.AppendPrediction(c.value[:0], p)
			headers := predictionHeaders[c.cfg.Output]
			if len(e.ends) > 0 {
				c.scratch = append(append(c.scratch[:0], headers...), e.copied[from:e.ends[0]]...)
				headers, from, e.ends = c.scratch, e.ends[0], e.ends[1:]
			}
			if err := put(&kafka.Record{Topic: c.terms.Names.Predictions, Key: c.key, Value: c.value, Headers: headers}); err != nil {
				return err
			}
			if p.Asked == 0 {
				continue
			}
			if err := put(&kafka.Record{Topic: c.terms.Names.ToLabel, Key: c.key, Value: c.value, Headers: headers}); err != nil {
				return err
			}
		}
	}
	for i := range e.letters {
		if err := put(&e.letters[i]); err != nil {
			return err
		}
	}
	if err := put(&kafka.Record{Topic: c.terms.Names.Ledger, Partition: int32(c.terms.Partition), Value: e.record, Headers: JSONHeaders}); err != nil {
		return err
	}
	o.last, o.chain = e.window, e.chain
	maps.Copy(o.offsets, e.Offsets)
	clear(e.Offsets)
	clear(e.letters)
	clear(e.copied)
	*e = Effects{letters: e.letters[:0], record: e.record[:0], memory: e.memory[:0], copied: e.copied[:0], ends: ends[:0], Offsets: e.Offsets}
	select {
	case c.spare <- e:
	default:
	}
	return nil
}
