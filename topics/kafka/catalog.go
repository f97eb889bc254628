package kafka

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// cache has answers to questions about topics, each at most metadataTTL old, and asks one at a time. The zero value is ready for use.
type cache[T any] struct {
	mu    sync.Mutex
	known map[string]*cached[T] // by the topics' names
}

// cached is the newest answer to a question.
type cached[T any] struct {
	turn   chan struct{} // has an element while nobody asks; guards the rest
	at     time.Time
	answer T
}

// get returns the answer as of a later time than the given one, by ask if there is none.
func (c *cache[T]) get(ctx context.Context, topics []string, after time.Time, ask func(context.Context) (T, error)) (answer T, err error) {
	key := strings.Join(topics, " ")
	c.mu.Lock()
	k := c.known[key]
	if k == nil {
		k = &cached[T]{turn: make(chan struct{}, 1)}
		k.turn <- struct{}{}
		if c.known == nil {
			c.known = make(map[string]*cached[T])
		}
		c.known[key] = k
	}
	c.mu.Unlock()
	select {
	case <-k.turn:
		defer func() { k.turn <- struct{}{} }()
	case <-ctx.Done():
		return answer, ctx.Err()
	}
	if time.Since(k.at) >= metadataTTL || !k.at.After(after) {
		if answer, err = ask(ctx); err != nil {
			return answer, err
		}
		k.at, k.answer = time.Now(), answer
	}
	return k.answer, nil
}

// catalog is what kafka-go knows of topics, their partitions and the leaders of these. To ask kafka-go sends no request, but copies
// all of it.
type catalog struct {
	client *kafkago.Client
	cache  cache[*knownTopics]
}

// knownTopics is what is known of some topics. It is not to be changed.
type knownTopics struct {
	topics  []kafkago.Topic
	leaders func() (map[TopicPartition]int, error)
}

func (k *catalog) of(ctx context.Context, topics []string, after time.Time) (*knownTopics, error) {
	return k.cache.get(ctx, topics, after, func(ctx context.Context) (*knownTopics, error) {
		m, err := k.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: topics})
		if err != nil {
			return nil, err
		}
		return &knownTopics{m.Topics, sync.OnceValues(func() (map[TopicPartition]int, error) { return leadersOf(m.Topics) })}, nil
	})
}

// noLeader is the leader of a partition that has none for now.
const noLeader = -1

// leaders returns the broker ids of the leaders of the topics' partitions, or noLeader, as of a later time than the given one.
// Topics that do not exist are left out. The map is not to be changed.
func (k *catalog) leaders(ctx context.Context, topics []string, after time.Time) (map[TopicPartition]int, error) {
	known, err := k.of(ctx, topics, after)
	if err != nil {
		return nil, err
	}
	return known.leaders()
}

func leadersOf(topics []kafkago.Topic) (map[TopicPartition]int, error) {
	leaders := make(map[TopicPartition]int)
	for _, t := range topics {
		for _, p := range t.Partitions {
			at := TopicPartition{t.Name, int32(p.ID)}
			if leaders[at] = noLeader; p.Leader.Host != "" {
				leaders[at] = p.Leader.ID
			}
		}
		if t.Error != nil && !transient(t.Error) {
			return nil, fmt.Errorf("topic %s: %w", t.Name, t.Error)
		}
	}
	return leaders, nil
}

// leaderOf returns the leader of a partition, or the error that the partition has none for
// now, or does not exist: as of the last answer of a broker, which may be gone.
func leaderOf(at TopicPartition, leaders map[TopicPartition]int) (int, error) {
	leader, ok := leaders[at]
	switch {
	case !ok:
		return noLeader, fmt.Errorf("%s partition %d: %w", at.Topic, at.Partition, kafkago.UnknownTopicOrPartition)
	case leader == noLeader:
		return noLeader, fmt.Errorf("%s partition %d: %w", at.Topic, at.Partition, kafkago.LeaderNotAvailable)
	}
	return leader, nil
}
