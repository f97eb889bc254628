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
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
)

// Config says how to reach a cluster.
type Config struct {
	// Brokers are bootstrap addresses, host:port; at least one. Metadata is
	// asked of these alone: with one, nothing is learnt of the cluster while
	// that broker is away.
	Brokers []string
	// ClientID is what brokers log. Empty means "gvbll".
	ClientID string
	// Timeout bounds one request. Zero means 10 s.
	Timeout time.Duration
	// DialFor is how long Dial keeps trying, how long other requests that
	// change nothing are repeated, and how long a Reader believes that a topic
	// or offset that is not there may still come. Zero means 10 s.
	DialFor time.Duration
	// TLS and SASL are off when nil. TLSFiles.Config and SASL make them.
	TLS  *tls.Config
	SASL sasl.Mechanism
	// Logger hears of what is repeated: each time at debug level, and as a
	// warning once it lasts. Nil means slog's default.
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
// Offset is set by reading, and of no account when producing. Time has
// milliseconds; when producing, the zero time means now.
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

// metadataTTL bounds the age of what is known of topics and leaders. kafka-go
// answers metadata requests from memory and renews that in the background, at
// random moments less than this apart: a look-up costs no request, and after a
// leader has moved requests fail for this long at most.
const metadataTTL = 500 * time.Millisecond

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
		ClientID: cfg.ClientID, TLS: cfg.TLS, SASL: cfg.SASL,
		DialTimeout: min(cfg.Timeout, 5*time.Second), MetadataTTL: metadataTTL,
	}
	c := &Client{cfg: cfg, transport: t, client: &kafkago.Client{Addr: kafkago.TCP(cfg.Brokers...), Timeout: cfg.Timeout, Transport: t}}
	// Whoever accepts a connection and says nothing must not outlast DialFor.
	within, cancel := context.WithTimeout(ctx, cfg.DialFor)
	defer cancel()
	var refused error
	err := c.retry(within, cfg.DialFor, func(ctx context.Context) error {
		_, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{}})
		if refused = distrust(err); refused != nil {
			cancel()
		}
		return err
	})
	if err == nil {
		return c, nil
	}
	c.Close()
	addresses := strings.Join(cfg.Brokers, ", ")
	if ctx.Err() != nil {
		return nil, fmt.Errorf("reaching Kafka at %s: %w", addresses, ctx.Err())
	}
	if refused != nil {
		return nil, fmt.Errorf("reaching Kafka at %s: %w", addresses, refused)
	}
	var code kafkago.Error
	if errors.As(err, &code) && !transient(err) {
		return nil, fmt.Errorf("the brokers at %s refuse this client: check user, password and SASL mechanism (%w)", addresses, cause(err))
	}
	return nil, fmt.Errorf("no Kafka broker answers at %s: check the address, that it can be reached from here, and %s (%w)", addresses, cfg.doubts(), cause(err))
}

// doubts says what else can make a broker close the connection without a word.
func (cfg Config) doubts() string {
	tls := "whether it wants TLS"
	if cfg.TLS != nil {
		tls = "whether it speaks TLS there"
	}
	if cfg.SASL == nil {
		return tls + " or wants SASL"
	}
	return tls + ", and the user and password"
}

// Close releases the connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// leaders returns the broker id of the leader of every partition of the topics
// that exists and has one.
func (c *Client) leaders(ctx context.Context, topics []string) (map[TopicPartition]int, error) {
	m, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: topics})
	if err != nil {
		return nil, err
	}
	leaders := make(map[TopicPartition]int)
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			if p.Leader.Host != "" {
				leaders[TopicPartition{t.Name, int32(p.ID)}] = p.Leader.ID
			}
		}
		if t.Error != nil && !transient(t.Error) {
			return nil, fmt.Errorf("topic %s: %w", t.Name, t.Error)
		}
	}
	return leaders, nil
}

// leaderCache is what is known of the leaders while nothing fails. It saves the
// look-up, which is no request but copies all of the metadata. It is not safe
// for concurrent use.
type leaderCache struct {
	leaders map[TopicPartition]int
	since   time.Time
}

// of returns the leaders of all partitions of the topics, as known for
// metadataTTL at most; the same topics are asked for each time.
func (k *leaderCache) of(ctx context.Context, c *Client, topics []string) (map[TopicPartition]int, error) {
	if k.leaders != nil && time.Since(k.since) < metadataTTL {
		return k.leaders, nil
	}
	var err error
	k.leaders, err = c.leaders(ctx, topics)
	k.since = time.Now()
	return k.leaders, err
}

// forget is called when a request failed, or a partition is not found.
func (k *leaderCache) forget() { k.leaders = nil }

// leaderless says in an error why leaders has no entry: the partition is not
// there, or has no leader for now.
func leaderless(at TopicPartition, leaders map[TopicPartition]int) error {
	why := kafkago.UnknownTopicOrPartition
	for other := range leaders {
		if other.Topic == at.Topic {
			why = kafkago.LeaderNotAvailable
			break
		}
	}
	return fmt.Errorf("%s partition %d: %w", at.Topic, at.Partition, why)
}
