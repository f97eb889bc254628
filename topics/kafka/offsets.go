package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Bounds are the offsets First ≤ offset < End that a read-committed reader can
// get: End is the last stable offset.
type Bounds struct{ First, End int64 }

// Times by which brokers are asked for offsets besides those of records.
const (
	ofFirst = -2
	ofEnd   = -1
)

// Offsets returns the bounds of all partitions of the topics. Topics that do not
// exist are left out.
func (c *Client) Offsets(ctx context.Context, topics ...string) (map[TopicPartition]Bounds, error) {
	offsets, err := c.listOffsets(ctx, topics, ofFirst, ofEnd)
	if len(offsets) == 0 || err != nil {
		return nil, err
	}
	bounds := make(map[TopicPartition]Bounds)
	for at, first := range offsets[ofFirst] {
		bounds[at] = Bounds{first, offsets[ofEnd][at]}
	}
	return bounds, nil
}

// OffsetsAt returns, for each partition of a topic, the offset of the first record that
// is not older than the time, or the end if there is none. The brokers search by the
// records' timestamps.
func (c *Client) OffsetsAt(ctx context.Context, topic string, since time.Time) (map[TopicPartition]int64, error) {
	from := max(since.UnixMilli(), 0)
	offsets, err := c.listOffsets(ctx, []string{topic}, from, ofEnd)
	if err != nil {
		return nil, err
	}
	found := offsets[from]
	for at, offset := range found {
		if offset < 0 {
			found[at] = offsets[ofEnd][at]
		}
	}
	return found, nil
}

// listOffsets returns the offsets of every partition of the topics, by time.
func (c *Client) listOffsets(ctx context.Context, topics []string, times ...int64) (map[int64]map[TopicPartition]int64, error) {
	counts, err := c.Partitions(ctx, topics...)
	if err != nil || len(counts) == 0 {
		return nil, err
	}
	found := make(map[int64]map[TopicPartition]int64)
	var all []offsetOf
	for _, t := range times {
		found[t] = make(map[TopicPartition]int64)
		for topic, n := range counts {
			for p := range n {
				all = append(all, offsetOf{TopicPartition{topic, int32(c.view.first() + p)}, t})
			}
		}
	}
	err = c.retry(ctx, forever, func(ctx context.Context) error {
		list := c.listNow
		if c.shared != nil {
			list = c.shared.offsets.list
		}
		answers, err := list(ctx, all)
		for _, x := range all {
			if got := answers[x]; got.err != nil {
				err = worse(err, fmt.Errorf("offsets of %s partition %d: %w", x.at.Topic, x.at.Partition, got.err))
			} else {
				found[x.time][x.at] = got.offset
			}
		}
		return err
	})
	return found, err
}

// offsetOf is a partition, and the time of which the offset is wanted.
type offsetOf struct {
	at   TopicPartition
	time int64
}

// listed is the answer to an offsetOf.
type listed struct {
	offset int64
	err    error
}

// errUnmentioned is the failure of a partition that an answer does not have.
var errUnmentioned = errors.New("the answer does not mention it")

// listNow asks for offsets once: each leader with one request for each time, as brokers do not take a partition twice in one.
func (c *Client) listNow(ctx context.Context, all []offsetOf) (map[offsetOf]listed, error) {
	type request struct {
		leader int
		time   int64
	}
	topics := make(map[string]bool)
	for _, x := range all {
		topics[x.at.Topic] = true
	}
	leaders, err := c.catalog.leaders(ctx, slices.Sorted(maps.Keys(topics)), time.Time{})
	if err != nil {
		return nil, err
	}
	answers, requests := make(map[offsetOf]listed), make(map[request][]TopicPartition)
	for _, x := range all {
		leader, err := leaderOf(x.at, leaders)
		if err != nil {
			answers[x] = listed{err: err}
			continue
		}
		answers[x] = listed{err: errUnmentioned}
		requests[request{leader, x.time}] = append(requests[request{leader, x.time}], x.at)
	}
	var mu sync.Mutex // guards answers
	var wg sync.WaitGroup
	for r, parts := range requests {
		wg.Go(func() {
			req := &kmsg.ListOffsetsRequest{ReplicaID: -1, IsolationLevel: readCommitted}
			for _, at := range parts {
				t := topicIn(&req.Topics, at.Topic, func(t *kmsg.ListOffsetsRequestTopic) *string { return &t.Topic })
				t.Partitions = append(t.Partitions, kmsg.ListOffsetsRequestTopicPartition{
					Partition: at.Partition, CurrentLeaderEpoch: -1, Timestamp: r.time,
				})
			}
			answer, err := c.transport.exchange(ctx, int32(r.leader), req, nil)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				for _, at := range parts {
					answers[offsetOf{at, r.time}] = listed{err: err}
				}
				return
			}
			for _, t := range answer.Response.(*kmsg.ListOffsetsResponse).Topics {
				for _, p := range t.Partitions {
					x := listed{offset: p.Offset}
					if p.ErrorCode != 0 {
						x.err = inWords(p.ErrorCode)
					}
					answers[offsetOf{TopicPartition{t.Topic, p.Partition}, r.time}] = x
				}
			}
		})
	}
	wg.Wait()
	return answers, nil
}

// jointOffsets are the offsets that many ask for: what comes while a request is out is asked for together in the next.
type jointOffsets struct {
	client *Client
	turn   chan struct{} // has an element while no request is out
	mu     sync.Mutex
	next   *offsetBatch
}

// offsetBatch is what is asked for together.
type offsetBatch struct {
	all     map[offsetOf]bool
	done    chan struct{} // closed once there is the answer
	answers map[offsetOf]listed
	err     error
}

// list is listNow for one of many.
func (j *jointOffsets) list(ctx context.Context, all []offsetOf) (map[offsetOf]listed, error) {
	j.mu.Lock()
	b := j.next
	if b == nil {
		b = &offsetBatch{all: make(map[offsetOf]bool), done: make(chan struct{})}
		j.next = b
		go j.send(b)
	}
	for _, x := range all {
		b.all[x] = true
	}
	j.mu.Unlock()
	select {
	case <-b.done:
		return b.answers, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (j *jointOffsets) send(b *offsetBatch) {
	<-j.turn
	defer func() { j.turn <- struct{}{} }()
	j.mu.Lock()
	j.next = nil
	j.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), j.client.cfg.Timeout)
	defer cancel()
	b.answers, b.err = j.client.listNow(ctx, slices.Collect(maps.Keys(b.all)))
	close(b.done)
}
