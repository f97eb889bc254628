package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetch sends one request to every leader, concurrently, and puts the records
// into a. The error is that of a partition that failed.
//
// A broker fills its answer in the order in which the request lists the
// partitions, and only the first is sure to get a batch. So partitions that seem
// to be before a gap (empty > 0) go first, and those that got records go last.
//
// A leader that has throttled this client is not asked before its time. The error is
// errThrottled if that leaves no answer at all.
func (r *Reader) fetch(ctx context.Context, a *Answer) error {
	leaders, err := r.client.catalog.leaders(ctx, r.topics, r.forgotten)
	groups := make(map[int][]*partition)
	for _, p := range r.parts {
		p.advanced = 0
		if p.paused.Load() {
			p.err = nil // whether an error lasts is not known unless it is asked
			continue
		}
		if p.leader.silent = p.isThrottled(); p.leader.silent {
			continue
		}
		leader, no := leaderOf(p.at, leaders)
		if no = cmp.Or(err, no); no != nil {
			p.answered(no)
			continue
		}
		if leader != p.leader.id { // it may have a shorter log
			p.leader.id, p.unconfirmed = leader, true
		}
		groups[leader] = append(groups[leader], p)
	}
	maxWait := r.cfg.MaxWait
	if len(groups) > 1 {
		// A leader without records must not delay those of the others for long.
		maxWait = min(maxWait, 5*time.Millisecond)
	}
	ids := slices.Sorted(maps.Keys(groups))
	for len(a.shares) < len(ids) {
		a.shares = append(a.shares, share{})
	}
	var wg sync.WaitGroup
	for i, id := range ids {
		s := &a.shares[i]
		s.reset()
		wg.Go(func() { r.fetchFrom(ctx, groups[id], maxWait, s) })
	}
	wg.Wait()
	a.Records = a.Records[:0]
	for i := range ids {
		a.Records = append(a.Records, a.shares[i].records...)
	}
	r.refused.log(r.client.cfg.Logger, a.Records)
	slices.SortStableFunc(r.parts, func(a, b *partition) int {
		return cmp.Or(cmp.Compare(b.empty, a.empty), cmp.Compare(min(a.advanced, 1), min(b.advanced, 1)))
	})
	err = nil
	waits, open, failing := false, false, 0 // partitions without an answer because of a quota, others, and those with errors
	for _, p := range r.parts {
		if err = worse(err, p.err); p.err != nil {
			failing++
		}
		if !p.paused.Load() {
			waits, open = waits || p.leader.silent, open || !p.leader.silent
		}
	}
	if waits && !open {
		err = worse(err, errThrottled)
	}
	if err != nil {
		r.forgotten = time.Now()
	}
	if err != nil && failing < len(r.parts) && open {
		err = &partlyError{err, failing, len(r.parts)}
	}
	return err
}

const readCommitted = 1 // isolation level of KIP-98

// errorOf returns the error of a partition in an answer, nil for none.
func errorOf(a *kmsg.FetchResponseTopicPartition) error {
	if a.ErrorCode != 0 {
		return inWords(a.ErrorCode)
	}
	return nil
}

// confirmAfter is how long a partition may go without a request before its log
// must be confirmed: the topic may have been deleted and created anew in between.
// A request during that time would have failed.
const confirmAfter = time.Second

// fetchFrom reads from the common leader of parts, after confirming the log of
// each that needs it. The partitions have equal parts of MaxBytes, so that one
// that is far behind does not starve the others. A throttled answer is one to all of them.
func (r *Reader) fetchFrom(ctx context.Context, parts []*partition, maxWait time.Duration, into *share) {
	confirmed := make([]*partition, 0, len(parts))
	for _, p := range parts {
		if p.last.Sum != 0 && (p.unconfirmed || time.Since(p.times.answered) >= confirmAfter) {
			err := r.confirm(ctx, p)
			if errors.Is(err, errThrottled) {
				throttle(parts, err)
				return
			}
			if err != nil {
				p.answered(err)
				continue
			}
			p.times.answered = time.Now()
		}
		p.unconfirmed, p.missing = false, false
		confirmed = append(confirmed, p)
	}
	if len(confirmed) == 0 {
		return
	}
	err := r.request(ctx, confirmed, maxWait, r.cfg.MaxBytes/len(confirmed), into,
		func(p *partition, answer *kmsg.FetchResponseTopicPartition, first bool) {
			err := errorOf(answer)
			if err == nil {
				n := len(into.records)
				if err = p.consume(into, answer, first && p == confirmed[0]); err == nil {
					p.read(into.records[n:])
				}
			}
			if err != nil {
				err = fmt.Errorf("reading %s partition %d: %w", p.at.Topic, p.at.Partition, err)
			}
			p.answered(err)
		})
	if errors.Is(err, errThrottled) {
		throttle(parts, err)
		return
	}
	if err != nil {
		for _, p := range confirmed {
			p.answered(err)
		}
	}
}

// exchange sends a fetch request to the leader of its first partition, alone or with those of other readers.
func (r *Reader) exchange(ctx context.Context, p *partition, req *kmsg.FetchRequest, maxWait time.Duration, buffer []byte,
) (m *rawAnswer, first bool, err error) {
	leader := int32(p.leader.id)
	if r.client.shared == nil || maxWait == 0 {
		m, err = r.client.transport.exchange(ctx, leader, req, buffer)
		return m, true, err
	}
	if r.cfg.Patient {
		maxWait = max(maxWait, patience)
	}
	quiet := time.Since(p.times.records)
	if quiet < busyFor {
		maxWait = min(maxWait, busyFor-quiet) // and then among the quiet
	}
	return r.client.shared.exchange(ctx, laneKey{leader, quiet < busyFor}, req, p.empty > 0, maxWait, buffer)
}

// request sends one fetch request to the common leader of parts and calls each
// for every partition in the answer. One without them all is no answer: it is
// errThrottled if the client is throttled. maxBytes is the limit for each partition.
// The request as a whole has none, because kfake drops the list of aborted
// transactions from an answer that reaches that limit. The answer's bytes are in s.wire. first says whether the
// request listed the first of parts first: one that is shared may list others before.
func (r *Reader) request(ctx context.Context, parts []*partition, maxWait time.Duration, maxBytes int, s *share,
	each func(p *partition, answer *kmsg.FetchResponseTopicPartition, first bool),
) error {
	req := &kmsg.FetchRequest{
		ReplicaID: -1, MaxWaitMillis: int32(maxWait.Milliseconds()), MinBytes: 1, MaxBytes: math.MaxInt32,
		IsolationLevel: readCommitted, SessionEpoch: -1,
	}
	for _, p := range parts {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != p.at.Topic { // the order counts
			req.Topics = append(req.Topics, kmsg.FetchRequestTopic{Topic: p.at.Topic})
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, kmsg.FetchRequestTopicPartition{
			Partition: p.at.Partition, CurrentLeaderEpoch: -1, FetchOffset: p.position.Load(),
			PartitionMaxBytes: int32(max(maxBytes, 1)),
		})
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait+r.client.cfg.Timeout)
	defer cancel()
	buffer := s.wire
	s.wire = nil
	m, first, err := r.exchange(ctx, parts[0], req, maxWait, buffer)
	if err != nil {
		return err
	}
	s.wire = m.bytes
	fetched := m.Response.(*kmsg.FetchResponse)
	if fetched.ErrorCode != 0 {
		return inWords(fetched.ErrorCode)
	}
	answered, until := 0, time.Now().Add(throttleOf(m))
	for _, t := range fetched.Topics {
		for i := range t.Partitions {
			if p := r.of(TopicPartition{t.Topic, t.Partitions[i].Partition}); p != nil {
				answered++
				p.leader.until = until
				each(p, &t.Partitions[i], first)
			}
		}
	}
	switch {
	case answered >= len(parts):
		return nil
	case throttleOf(m) > 0:
		return &throttledError{until}
	}
	return fmt.Errorf("the answer to a fetch has %d of %d partitions", answered, len(parts))
}
