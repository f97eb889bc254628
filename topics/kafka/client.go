// Package kafka is what exactly-once work needs beside kafka-go: reading the
// committed records of explicitly assigned partitions (Reader), and producing
// in transactions or idempotently (Producer). kafka-go carries the requests;
// its Reader does not filter aborted records and its Writer knows no
// transactions (KIP-98).
package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
)

// Config says how to reach a cluster.
type Config struct {
	// Brokers are bootstrap addresses, host:port; at least one.
	Brokers []string
	// ClientID is what brokers log. Empty means "gvbll".
	ClientID string
	// Timeout bounds one request. Zero means 10 s.
	Timeout time.Duration
	// DialFor is how long Dial keeps trying. Zero means 10 s.
	DialFor time.Duration
	// TLS and SASL are off when nil.
	TLS  *tls.Config
	SASL sasl.Mechanism
	// Logger hears of retries. Nil means slog's default.
	Logger *slog.Logger
}

// TopicPartition names one partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Header is one record header.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record. A nil key or value is null, which differs from empty.
// Offset is set by reading, and of no account when producing.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Time      time.Time
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Client talks to one cluster. It may be used by many goroutines.
type Client struct {
	cfg       Config
	client    *kafkago.Client
	transport *kafkago.Transport
}

// Dial returns a client once a broker has answered. When none does, the error
// is one line that names the addresses.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	if len(cfg.Brokers) == 0 {
		return nil, errors.New("no brokers: give at least one address, host:port")
	}
	if cfg.ClientID == "" {
		cfg.ClientID = "gvbll"
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.DialFor == 0 {
		cfg.DialFor = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	t := &kafkago.Transport{
		ClientID: cfg.ClientID, TLS: cfg.TLS, SASL: cfg.SASL, DialTimeout: min(cfg.Timeout, 5*time.Second),
		// Leaders are looked up in cached metadata; after a leader has moved,
		// requests fail until the cache is renewed.
		MetadataTTL: 500 * time.Millisecond,
	}
	c := &Client{cfg: cfg, transport: t, client: &kafkago.Client{Addr: kafkago.TCP(cfg.Brokers...), Timeout: cfg.Timeout, Transport: t}}
	err := c.retry(ctx, cfg.DialFor, func() error {
		_, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{}})
		return err
	})
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("no Kafka broker answers at %s: check the address, and that it is reachable from here (%w)", strings.Join(cfg.Brokers, ", "), cause(err))
	}
	return c, nil
}

// Close releases the connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Partitions returns how many partitions each topic has; an absent topic is
// not in the map.
func (c *Client) Partitions(ctx context.Context, topics ...string) (map[string]int, error) {
	counts := make(map[string]int)
	err := c.retry(ctx, c.cfg.DialFor, func() error {
		m, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: topics})
		if err != nil {
			return err
		}
		for _, t := range m.Topics {
			switch {
			case errors.Is(t.Error, kafkago.UnknownTopicOrPartition):
			case t.Error != nil:
				return fmt.Errorf("topic %s: %w", t.Name, t.Error)
			default:
				counts[t.Name] = len(t.Partitions)
			}
		}
		return nil
	})
	return counts, err
}

// TopicSpec describes a topic to create. Replication -1 is the broker's
// default.
type TopicSpec struct {
	Name        string
	Partitions  int
	Replication int
	Config      map[string]string
}

// CreateTopics creates the topics that do not exist, waits until each has its
// leaders, and returns the names of those it created. Existing topics are left
// as they are.
func (c *Client) CreateTopics(ctx context.Context, specs ...TopicSpec) ([]string, error) {
	req := &kafkago.CreateTopicsRequest{}
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
		t := kafkago.TopicConfig{Topic: s.Name, NumPartitions: s.Partitions, ReplicationFactor: s.Replication}
		for _, k := range slices.Sorted(maps.Keys(s.Config)) {
			t.ConfigEntries = append(t.ConfigEntries, kafkago.ConfigEntry{ConfigName: k, ConfigValue: s.Config[k]})
		}
		req.Topics = append(req.Topics, t)
	}
	created := make(map[string]bool)
	err := c.retry(ctx, c.cfg.DialFor, func() error {
		res, err := c.client.CreateTopics(ctx, req)
		if err != nil {
			return err
		}
		for name, err := range res.Errors {
			switch {
			case err == nil:
				created[name] = true
			case !errors.Is(err, kafkago.TopicAlreadyExists):
				return fmt.Errorf("topic %s cannot be created: %w", name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []string
	for _, n := range names {
		if created[n] {
			list = append(list, n)
		}
	}
	return list, c.retry(ctx, c.cfg.DialFor, func() error {
		m, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: names})
		if err != nil {
			return err
		}
		for _, t := range m.Topics {
			if t.Error != nil {
				return t.Error
			}
			for _, p := range t.Partitions {
				if p.Error != nil {
					return p.Error
				}
				if p.Leader.Host == "" {
					return kafkago.LeaderNotAvailable
				}
			}
		}
		return nil
	})
}

// Bounds are the offsets First ≤ offset < End of what a read-committed reader
// can have: End is the last stable offset.
type Bounds struct{ First, End int64 }

// Offsets returns the bounds of all partitions of the topics; those of absent
// topics are missing.
func (c *Client) Offsets(ctx context.Context, topics ...string) (map[TopicPartition]Bounds, error) {
	counts, err := c.Partitions(ctx, topics...)
	if err != nil || len(counts) == 0 {
		return nil, err
	}
	req := &kafkago.ListOffsetsRequest{Topics: make(map[string][]kafkago.OffsetRequest), IsolationLevel: kafkago.ReadCommitted}
	for t, n := range counts {
		for p := range n {
			req.Topics[t] = append(req.Topics[t], kafkago.FirstOffsetOf(p), kafkago.LastOffsetOf(p))
		}
	}
	bounds := make(map[TopicPartition]Bounds)
	err = c.retry(ctx, c.cfg.DialFor, func() error {
		res, err := c.client.ListOffsets(ctx, req)
		if err != nil {
			return err
		}
		for t, parts := range res.Topics {
			for _, p := range parts {
				if p.Error != nil {
					return fmt.Errorf("offsets of %s partition %d: %w", t, p.Partition, p.Error)
				}
				bounds[TopicPartition{t, int32(p.Partition)}] = Bounds{p.FirstOffset, p.LastOffset}
			}
		}
		return nil
	})
	return bounds, err
}

// PartitionFor places a key among n partitions as Java's default partitioner
// does (murmur2); a nil key is in partition 0.
func PartitionFor(key []byte, n int) int32 {
	if key == nil || n <= 1 {
		return 0
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return int32(kafkago.Murmur2Balancer{}.Balance(kafkago.Message{Key: key}, all...))
}

// retry calls f until it succeeds, fails for good, the time is over or the
// context ends.
func (c *Client) retry(ctx context.Context, within time.Duration, f func() error) error {
	began := time.Now()
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		err := f()
		if err == nil || ctx.Err() != nil || !transient(err) || time.Since(began) >= within {
			return err
		}
		if errors.Is(err, kafkago.ConcurrentTransactions) {
			// The markers of the last transaction are being written, which
			// takes a millisecond or two.
			wait = 2 * time.Millisecond
		}
		c.cfg.Logger.Debug("kafka: trying again", "err", err, "after", time.Since(began))
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// transient tells whether the same request may succeed later. What is not a
// broker's answer (connections, time-outs, metadata that names no leader yet)
// may.
func transient(err error) bool {
	var code kafkago.Error
	if !errors.As(err, &code) {
		return true
	}
	switch code {
	case kafkago.ConcurrentTransactions, kafkago.NotLeaderForPartition, kafkago.LeaderNotAvailable,
		kafkago.UnknownTopicOrPartition, kafkago.RequestTimedOut, kafkago.NetworkException, kafkago.BrokerNotAvailable,
		kafkago.GroupLoadInProgress, kafkago.GroupCoordinatorNotAvailable, kafkago.NotCoordinatorForGroup,
		kafkago.NotEnoughReplicas, kafkago.NotEnoughReplicasAfterAppend, kafkago.NotController,
		kafkago.KafkaStorageError, kafkago.FencedLeaderEpoch, kafkago.UnknownLeaderEpoch,
		kafkago.OffsetNotAvailable, kafkago.ReplicaNotAvailable, kafkago.ThrottlingQuotaExceeded, kafkago.UnstableOffsetCommit:
		return true
	}
	return false
}

// cause cuts the names of methods off a kafka-go error.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || !strings.HasPrefix(err.Error(), "kafka.") {
			return err
		}
		err = inner
	}
}
