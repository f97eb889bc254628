package publish

import (
	"slices"
	"strconv"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// The headers of everything that is written. Dead letters and the ledger are JSON always.
var (
	jsonHeaders       = contentType(wire.JSON)
	predictionHeaders = map[wire.Encoding][]kafka.Header{wire.MsgPack: contentType(wire.MsgPack), wire.JSON: jsonHeaders}
)

func contentType(e wire.Encoding) []kafka.Header {
	return []kafka.Header{{Key: wire.ContentType, Value: []byte(e)}}
}

// encoder encodes the results of windows. It reuses its memory.
type encoder struct {
	cfg        *Config
	names      *topics.Names
	partitions map[string]int // of the output topics

	key, value []byte
	headers    []kafka.Header
}

// divided returns how many partitions the outputs are divided over.
func (c *encoder) divided() ledger.Outputs {
	return ledger.Outputs{Predictions: max(c.partitions[c.names.Predictions], 1), DeadLetters: max(c.partitions[c.names.DeadLetters], 1)}
}

// encode adds the results of a window to an output: predictions, those of nodes to be labelled once more, in
// partition 0 of their topic, dead letters and the ledger's record.
func (c *encoder) encode(o *output, out *event.Outcome, record *ledger.Record) error {
	stepped := time.Now()
	put := func(r kafka.Record) error {
		r.Time = stepped
		if r.Partition = c.names.Cell; c.partitions[r.Topic] > 1 {
			r.Partition = kafka.PartitionFor(r.Key, c.partitions[r.Topic])
		}
		return o.batch.Add(&r)
	}
	for _, list := range [...][]event.Prediction{out.Predictions, out.Revisions} {
		for i := range list {
			p := &list[i]
			c.key, c.value = wire.AppendKey(c.key[:0], p.Node), c.cfg.Output.AppendPrediction(c.value[:0], p)
			r := kafka.Record{
				Topic: c.names.Predictions, Key: c.key, Value: c.value,
				Headers: c.withCopied(predictionHeaders[c.cfg.Output], p.Origin),
			}
			if err := put(r); err != nil {
				return err
			}
			if p.Asked == 0 {
				continue
			}
			r.Topic = c.names.ToLabel
			if err := put(r); err != nil {
				return err
			}
		}
	}
	for i := range out.Refused {
		r := &out.Refused[i]
		c.value = wire.AppendDeadLetter(c.value[:0], r)
		if err := put(kafka.Record{
			Topic: c.names.DeadLetters, Key: wire.LetterKey(r), Value: c.value,
			Headers: c.withCopied(jsonHeaders, r.Origin),
		}); err != nil {
			return err
		}
	}
	c.value = record.Append(c.value[:0])
	// A key for each window: compaction, if somebody turns it on, takes none of them.
	return put(kafka.Record{Topic: c.names.Ledger, Key: strconv.AppendInt(nil, record.Window, 10), Value: c.value, Headers: jsonHeaders})
}

// Bounds on the headers that are copied of a record; those beyond are left out.
const (
	maxCopied      = 16      // headers
	maxCopiedValue = 8 << 10 // bytes, as of a W3C baggage
)

// withCopied returns headers, and behind them those of a record that are to be copied, in their order. They are valid until the
// next call.
func (c *encoder) withCopied(own []kafka.Header, o *event.Origin) []kafka.Header {
	if o == nil || len(c.cfg.CopyHeaders) == 0 {
		return own
	}
	c.headers = append(c.headers[:0], own...)
	for _, h := range o.Headers {
		if slices.Contains(c.cfg.CopyHeaders, h.Key) && len(h.Value) <= maxCopiedValue && len(c.headers) < len(own)+maxCopied {
			c.headers = append(c.headers, kafka.Header(h))
		}
	}
	return c.headers
}
