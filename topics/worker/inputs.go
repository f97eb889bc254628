package worker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// maxBuffered is how many records of one topic are held before its fetching
// waits for the windows to catch up.
const maxBuffered = 1 << 16

// input is one topic's committed records on their way into windows. A
// goroutine fetches, one answer ahead; all else belongs to the worker's loop.
type input struct {
	topic   string
	fetched chan fetched
	records []kafka.Record  // fetched and in no window yet, in the order of fetching
	times   []time.Time     // when each was fetched
	got     map[int32]int64 // by partition: the offset behind the last record fetched
	taken   map[int32]int64 // by partition: the offset up to which windows have taken
	reader  *kafka.Reader
}

type fetched struct {
	records []kafka.Record
	err     error
}

// openInput starts fetching every partition of the topic from its beginning.
func openInput(ctx context.Context, c *kafka.Client, topic string) (*input, error) {
	bounds, err := c.Offsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	in := &input{topic: topic, fetched: make(chan fetched), got: make(map[int32]int64), taken: make(map[int32]int64)}
	start := make(map[kafka.TopicPartition]int64)
	for at, b := range bounds {
		start[at] = b.First
		in.taken[at.Partition] = b.First
	}
	if len(start) == 0 {
		return nil, fmt.Errorf("topic %s does not exist: run 'gvbll topics', or start with --create-topics", topic)
	}
	in.reader = c.NewReader(start, kafka.ReaderConfig{})
	go in.fetch(ctx)
	return in, nil
}

func (in *input) fetch(ctx context.Context) {
	defer in.reader.Close()
	for {
		records, err := in.reader.Poll(ctx)
		if len(records) == 0 && err == nil {
			continue
		}
		select {
		case in.fetched <- fetched{records, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// ready is the channel of the next fetch, nil while enough is held.
func (in *input) ready() <-chan fetched {
	if len(in.records) >= maxBuffered {
		return nil
	}
	return in.fetched
}

func (in *input) add(f fetched, now time.Time) error {
	if f.err != nil {
		return f.err
	}
	in.records = append(in.records, f.records...)
	for i := range f.records {
		in.times = append(in.times, now)
		in.got[f.records[i].Partition] = f.records[i].Offset + 1
	}
	return nil
}

// take removes the n oldest records for a window and returns them in canonical
// order, with the ranges that they end.
func (in *input) take(n int) ([]kafka.Record, []ledger.Range) {
	chosen := slices.Clone(in.records[:n])
	clear(in.records[:n])
	in.records, in.times = in.records[n:], in.times[n:]
	sortCanonical(chosen)
	var ranges []ledger.Range
	for i, r := range chosen {
		if i+1 < len(chosen) && chosen[i+1].Partition == r.Partition {
			continue
		}
		ranges = append(ranges, ledger.Range{Topic: in.topic, Partition: r.Partition, From: in.taken[r.Partition], To: r.Offset + 1})
		in.taken[r.Partition] = r.Offset + 1
	}
	return chosen, ranges
}

// replay waits until all of the ranges is fetched, and takes it.
func (in *input) replay(ctx context.Context, ranges []ledger.Range) ([]kafka.Record, error) {
	var chosen []kafka.Record
	for _, g := range ranges {
		at, ok := in.taken[g.Partition]
		if !ok || at > g.From {
			return nil, fmt.Errorf("the ledger names offsets %d to %d of %s partition %d, and the topic holds them no longer: recovery needs its inputs kept (retention.ms=-1)", g.From, g.To, in.topic, g.Partition)
		}
		for in.got[g.Partition] < g.To {
			select {
			case f := <-in.fetched:
				if err := in.add(f, time.Now()); err != nil {
					return nil, err
				}
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		rest := in.records[:0]
		for _, r := range in.records {
			switch {
			case r.Partition != g.Partition || r.Offset >= g.To:
				rest = append(rest, r)
			case r.Offset >= g.From:
				chosen = append(chosen, r)
			}
		}
		clear(in.records[len(rest):])
		in.records, in.times = rest, in.times[:len(rest)]
		in.taken[g.Partition] = g.To
	}
	sortCanonical(chosen)
	return chosen, nil
}

// sortCanonical brings a window's records into the order in which they are
// decoded and stepped: by partition, then offset.
func sortCanonical(records []kafka.Record) {
	slices.SortFunc(records, func(a, b kafka.Record) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
}

// lag returns how many records lie between the windows and the end of the
// topic's committed records.
func (in *input) lag() int64 {
	var lag int64
	for p, taken := range in.taken {
		if end := in.reader.End(kafka.TopicPartition{Topic: in.topic, Partition: p}); end > taken {
			lag += end - taken
		}
	}
	return lag
}

func origin(r *kafka.Record) *event.Origin {
	o := &event.Origin{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		o.Headers = append(o.Headers, event.Header{Key: h.Key, Value: h.Value})
	}
	return o
}
