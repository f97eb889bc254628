package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Config says how to reach a cluster.
type Config struct {
	// Brokers are bootstrap addresses, host:port; at least one. Only these are
	// asked for metadata: with a single address, requests fail while that broker
	// is down.
	Brokers []string
	// ClientID names this client in the logs and the quotas of brokers. Empty means "gvbll".
	ClientID string
	// Timeout bounds one request. Zero means 10 s.
	Timeout time.Duration
	// DialFor bounds how long Dial tries. It is also how long brokers must say that a
	// topic or an offset does not exist before a Reader believes them. Zero means 10 s.
	DialFor time.Duration
	// Principal is who this client is to the brokers, for errors. Empty means nobody in particular.
	Principal string
	// TLS and SASL are off when nil. See TLSFiles.Config and SASL.
	TLS  *tls.Config
	SASL sasl.Mechanism
	// Dialer connects to an address of a broker. Nil means the system's network.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger gets every retry at debug level, and a warning every 10 s while failures
	// last. Nil means slog's default.
	Logger *slog.Logger
}

// TopicPartition names one partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Compare orders partitions by topic and number.
func (at TopicPartition) Compare(other TopicPartition) int {
	return cmp.Or(strings.Compare(at.Topic, other.Topic), cmp.Compare(at.Partition, other.Partition))
}

// Header is one record header.
type Header = kmsg.Header

// Record is one record. A nil key or value is null, which differs from an empty
// one. Offset is set by a Reader and ignored by a Producer. Time has a
// resolution of 1 ms; when producing, the zero time means now.
//
// If Unreadable is not empty, it is not a record but a batch of them that cannot be read,
// and Unreadable says why. Value is the batch as it is stored, and Offset its last.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Time      time.Time
	Key       []byte
	Value     []byte
	Headers   []Header

	Unreadable string
}

// Client sends requests to one cluster. It may be used by many goroutines.
//
// Requests that change nothing are retried until their context ends, for as long as no
// broker answers them. See [Health.Trouble].
type Client struct {
	// Health is what the client waits for.
	Health *Health

	cfg       Config
	client    *kafkago.Client
	transport *coordinators
	end       context.CancelFunc // of the transport's own goroutines
	catalog   *catalog
	view      view
	shared    *shared // nil if readers do not share requests
}

// metadataTTL bounds the age of metadata. kafka-go answers metadata requests from
// its cache, which it renews in the background at random intervals below this:
// a look-up costs no request, and after a leader has moved, requests fail for at
// most this long.
const metadataTTL = 500 * time.Millisecond

// dialFor bounds the time to connect to one broker.
const dialFor = 5 * time.Second

// Dial returns a client once a broker has answered. If none does within DialFor,
// the error is one line that names the addresses and what to check.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	if len(cfg.Brokers) == 0 {
		return nil, errors.New("no brokers: give at least one address, host:port")
	}
	cfg.ClientID = cmp.Or(cfg.ClientID, "gvbll")
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Second)
	cfg.DialFor = cmp.Or(cfg.DialFor, 10*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	background, end := context.WithCancel(context.Background())
	c := &Client{Health: &Health{}, cfg: cfg, end: end, view: allPartitions}
	throttled := func(request protocol.ApiKey, d time.Duration) { c.Health.throttling.add(request, d, cfg.Logger) }
	t := &kafkago.Transport{
		Context: background, ClientID: cfg.ClientID, SASL: cfg.SASL, Dial: dialChecked(cfg, throttled),
		DialTimeout: min(cfg.Timeout, dialFor), MetadataTTL: metadataTTL,
	}
	c.transport = &coordinators{
		Transport: t, addr: kafkago.TCP(cfg.Brokers...), timeout: cfg.Timeout, throttled: throttled,
		nodes: make(map[findcoordinator.Request]int32),
	}
	c.client = &kafkago.Client{Addr: c.transport.addr, Timeout: cfg.Timeout, Transport: c.transport}
	c.catalog = &catalog{client: c.client}
	// A server that accepts the connection and never answers must not outlast
	// DialFor.
	within, cancel := context.WithTimeout(ctx, cfg.DialFor)
	defer cancel()
	var refused error
	err := c.retry(within, cfg.DialFor, func(ctx context.Context) error {
		_, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{}})
		if refused = untrusted(err); refused != nil {
			cancel()
		}
		return err
	})
	if err == nil {
		c.transport.trusted.Store(true)
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
	if token := (*tokenError)(nil); errors.As(err, &token) {
		return nil, fmt.Errorf("logging in to Kafka at %s: %w", addresses, token)
	}
	var code kafkago.Error
	if errors.As(err, &code) && !transient(err) {
		return nil, fmt.Errorf("the brokers at %s refuse this client: check user, password and SASL mechanism (%w)", addresses, cause(err))
	}
	if c.transport.askThrottled(ctx, cfg.Brokers[0]); c.Health.throttling.lasts > 0 {
		return nil, &AwayError{fmt.Errorf("a quota throttles client %s at %s: raise it for this client id or this user (%w)", cfg.ClientID,
			addresses, cause(err))}
	}
	return nil, &AwayError{fmt.Errorf("no Kafka broker answers at %s: check the address, that it can be reached from here, "+
		"and %s (%w)", addresses, cfg.securityHint(), cause(err))}
}

// AwayError is that no broker has answered within DialFor. One may later.
type AwayError struct{ error }

// Unwrap returns what was tried last.
func (e *AwayError) Unwrap() error { return e.error }

// securityHint names the security settings that can make a broker close the
// connection without an answer.
func (cfg Config) securityHint() string {
	tls := "whether it wants TLS"
	if cfg.TLS != nil {
		tls = "whether it speaks TLS there"
	}
	if cfg.SASL == nil {
		return tls + " or wants SASL"
	}
	return tls + ", and the user and password"
}

// Cell returns the same client, as one to which each topic has one partition, that with the number. A topic without it
// does not exist. It uses the same connections, and to close it closes these.
func (c *Client) Cell(number int32) *Client {
	of := *c
	of.view = view(number)
	return &of
}

// view is the number of the one partition of each topic that a client sees, or allPartitions.
type view int32

const allPartitions view = -1

// seen returns how many of a topic's partitions are seen.
func (v view) seen(partitions int) int {
	if v == allPartitions {
		return partitions
	}
	return min(max(partitions-int(v), 0), 1)
}

// first returns the number of the first partition that is seen.
func (v view) first() int { return max(int(v), 0) }

// Close releases the connections. Requests fail from then on.
func (c *Client) Close() {
	c.end()
	c.transport.CloseIdleConnections()
}
