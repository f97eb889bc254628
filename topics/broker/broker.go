// Package broker is the embedded Kafka broker of the demo and of tests: kfake,
// on the loopback interface, in memory or in a directory. It is a fake, with
// one node and no replication; real work belongs on Apache Kafka.
package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Config says where a broker listens and keeps its data.
type Config struct {
	// Dir keeps the data, so that a later broker on it goes on from there, also
	// after SIGKILL. Empty keeps it in memory.
	Dir string
	// Port on 127.0.0.1; 0 for any that is free.
	Port int
}

// Broker is a running broker.
type Broker struct{ cluster *kfake.Cluster }

// Start starts a broker. Topics must be created; none comes by itself.
func Start(cfg Config) (*Broker, error) {
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(cfg.Port)}
	if cfg.Dir != "" {
		opts = append(opts, kfake.DataDir(cfg.Dir))
	}
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, fmt.Errorf("starting the embedded broker on port %d: %w", cfg.Port, err)
	}
	return &Broker{cluster: c}, nil
}

// Addr is the bootstrap address, host:port.
func (b *Broker) Addr() string { return b.cluster.ListenAddrs()[0] }

// Close stops the broker. What a directory holds stays there.
func (b *Broker) Close() { b.cluster.Close() }
