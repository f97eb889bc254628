// Package broker is the embedded Kafka broker of the demo and of tests: kfake,
// on the loopback interface, in memory or in a directory. It is a fake, with
// one node and no replication; real work belongs on Apache Kafka.
package broker

import (
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Config says where a broker listens and keeps its data.
type Config struct {
	// Dir keeps the data, so that a later broker on it goes on from there, also
	// after SIGKILL: topics, records, and each transaction wholly or not at
	// all. (What the machine had not written when the power went is lost.) One
	// broker at a time. Empty keeps it in memory.
	Dir string
	// Port on 127.0.0.1; 0 for any that is free.
	Port int
}

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	journal *journal // nil in memory
}

// Start starts a broker. Topics must be created; none comes by itself. A batch
// may have 1 MiB and a transaction last 15 minutes, as with Kafka's defaults.
func Start(cfg Config) (*Broker, error) {
	b := &Broker{}
	// Nobody is let in before the journal is kept.
	kept := make(chan struct{})
	defer close(kept)
	opts := []kfake.Opt{kfake.Ports(cfg.Port), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return &door{l, kept}, err
	})}
	if cfg.Dir != "" {
		if err := recoverDir(cfg.Dir); err != nil {
			return nil, fmt.Errorf("the embedded broker cannot recover %s after a crash: %w", cfg.Dir, err)
		}
		opts = append(opts, kfake.DataDir(cfg.Dir))
	}
	var err error
	if b.cluster, err = kfake.NewCluster(opts...); err != nil {
		return nil, fmt.Errorf("starting the embedded broker on port %d: %w", cfg.Port, err)
	}
	if cfg.Dir == "" {
		return b, nil
	}
	if b.journal, err = openJournal(cfg.Dir); err != nil {
		b.cluster.Close()
		return nil, fmt.Errorf("starting the embedded broker in %s: %w", cfg.Dir, err)
	}
	b.journal.keep(b.cluster)
	return b, nil
}

// Addr is the bootstrap address, host:port.
func (b *Broker) Addr() string { return b.cluster.ListenAddrs()[0] }

// Close stops the broker. What a directory holds stays there.
func (b *Broker) Close() {
	b.cluster.Close()
	if b.journal != nil {
		b.journal.remove()
	}
}

// door is a listener that lets nobody in until it is opened.
type door struct {
	net.Listener
	opened <-chan struct{}
}

func (d *door) Accept() (net.Conn, error) {
	<-d.opened
	return d.Listener.Accept()
}
