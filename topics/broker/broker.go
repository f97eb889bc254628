// Package broker is the embedded Kafka broker of the demo and of tests: kfake on
// the loopback interface, in memory or in a directory. It has one node and no
// replication; production belongs on Apache Kafka.
package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Config says where a broker listens and keeps its data.
type Config struct {
	// Dir is the directory of the data. After Close, a later broker on it has the same
	// topics and records. One broker may use the directory at a time. Empty keeps the
	// data in memory.
	Dir string
	// Port is the port on 127.0.0.1, 0 for any free one.
	Port int
	// Listen is how it listens. Nil means on the system's network.
	Listen func(network, address string) (net.Listener, error)
}

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	mark    string // a file that exists while the broker runs, "" in memory
}

// Start starts a broker, which does not create topics by itself. By Kafka's defaults,
// a batch may have 1 MiB and a transaction may last 15 minutes.
//
// kfake writes what ended a transaction to one partition after the other, so a broker that
// was killed may leave a commit in some partitions only. Start refuses such a directory.
func Start(cfg Config) (*Broker, error) {
	b := &Broker{}
	opts := []kfake.Opt{kfake.Ports(cfg.Port)}
	if cfg.Dir != "" {
		b.mark = filepath.Join(cfg.Dir, "running")
		if err := mark(b.mark); err != nil {
			return nil, fmt.Errorf("starting the embedded broker: %w", err)
		}
		opts = append(opts, kfake.DataDir(cfg.Dir))
	}
	if cfg.Listen != nil {
		opts = append(opts, kfake.ListenFn(cfg.Listen))
	}
	var err error
	if b.cluster, err = kfake.NewCluster(opts...); err != nil {
		b.unmark()
		return nil, fmt.Errorf("starting the embedded broker on port %d: %w", cfg.Port, err)
	}
	return b, nil
}

// mark creates the file, which must not exist, and its directory.
func mark(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s belongs to a broker that was killed, or still runs: end it, or remove the folder, which "+
			"holds the demo's data alone", dir)
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// unmark says that the directory's data is whole. If that fails, the next start is refused.
func (b *Broker) unmark() {
	if b.mark != "" {
		_ = os.Remove(b.mark)
	}
}

// Addr returns the bootstrap address, host:port.
func (b *Broker) Addr() string { return b.cluster.ListenAddrs()[0] }

// Close stops the broker. The data in a directory stays.
func (b *Broker) Close() {
	b.cluster.Close()
	b.unmark()
}
