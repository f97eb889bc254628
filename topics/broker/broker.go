// Package broker is the embedded Kafka broker of the demo and of tests: kfake,
// on the loopback interface, in memory or in a directory. It is a fake, with
// one node and no replication; real work belongs on Apache Kafka.
//
// What a directory holds survives SIGKILL, for the system has it by then; it
// may not survive a power cut. Killed at the very moment in which it writes a
// transaction's markers, the broker can leave the transaction committed in some
// of its partitions and aborted in the others, which Kafka does not.
package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
	killed, err := killed(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("starting the embedded broker on %s: %w", cfg.Dir, err)
	}
	if killed {
		if err := repair(cfg.Dir); err != nil {
			return nil, fmt.Errorf("repairing the embedded broker's data in %s: %w", cfg.Dir, err)
		}
	}
	return start(cfg)
}

func start(cfg Config) (*Broker, error) {
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

// killed tells whether the last broker on the directory did not get to its
// Close. kfake writes session_state.json when it closes, and removes it when it
// starts.
func killed(dir string) (bool, error) {
	if dir == "" {
		return false, nil
	}
	for name, want := range map[string]bool{"meta.json": true, "session_state.json": false} {
		_, err := os.Stat(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if (err == nil) != want {
			return false, nil
		}
	}
	return true, nil
}

// repair ends the transactions that were open when the broker was killed. kfake
// itself takes them for aborted, but without markers: as it gives a
// transactional id the same producer id again, readers would leave out that
// producer's next transaction, too, and after another kill its next commit
// would be taken for theirs. Nobody else can reach the broker meanwhile.
func repair(dir string) error {
	b, err := start(Config{Dir: dir})
	if err != nil {
		return err
	}
	defer b.Close()
	return abortOpen(context.Background(), b.Addr())
}
