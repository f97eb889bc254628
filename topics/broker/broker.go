// Package broker is the embedded Kafka broker of the demo and of tests: kfake on
// the loopback interface, in memory or in a directory. It has one node and no
// replication; production belongs on Apache Kafka.
package broker

import (
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Config says where a broker listens and keeps its data.
type Config struct {
	// Dir is the directory of the data. A later broker on it has the same topics
	// and records, even after SIGKILL, and all of a transaction or nothing of it. (A
	// power failure loses what the system had not yet written to the disk.) One
	// broker may use the directory at a time. Empty keeps the data in memory.
	Dir string
	// Port is the port on 127.0.0.1, 0 for any free one.
	Port int
}

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	journal *journal // nil in memory
}

// Start starts a broker, which does not create topics by itself. By Kafka's defaults,
// a batch may have 1 MiB and a transaction may last 15 minutes.
func Start(cfg Config) (*Broker, error) {
	b := &Broker{}
	// Accept no connection before the journal records transactions.
	ready := make(chan struct{})
	defer close(ready)
	opts := []kfake.Opt{kfake.Ports(cfg.Port), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return &gatedListener{l, ready}, err
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
	b.journal.record(b.cluster)
	return b, nil
}

// Addr returns the bootstrap address, host:port.
func (b *Broker) Addr() string { return b.cluster.ListenAddrs()[0] }

// Close stops the broker. The data in a directory stays.
func (b *Broker) Close() {
	b.cluster.Close()
	if b.journal != nil {
		b.journal.remove()
	}
}

// gatedListener accepts no connection until ready is closed.
type gatedListener struct {
	net.Listener
	ready <-chan struct{}
}

func (l *gatedListener) Accept() (net.Conn, error) {
	<-l.ready
	return l.Listener.Accept()
}
