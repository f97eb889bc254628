package kafkatest

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Kafka is the brokers that a test runs on.
type Kafka struct {
	// Addrs are the bootstrap addresses.
	Addrs []string
	// Dial connects to an address. It is nil on the system's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Fake is the kfake, and Network that of its bubble. Both are nil outside of one.
	Fake    *kfake.Cluster
	Network *Network
}

// Run runs a test in parallel with others, on the Apache Kafka whose bootstrap addresses
// GVBLL_KAFKA has or, if it has none, in a [Bubble] on a kfake with the given options. What holds
// on one must hold on the other, so .ci/run runs the tests that call it on both.
func Run(t *testing.T, test func(t *testing.T, k *Kafka), opts ...kfake.Opt) {
	t.Helper()
	if Apache() != "" {
		Real(t, test, opts...)
		return
	}
	Fake(t, test, opts...)
}

// Real is Run for tests that cannot be in a bubble.
func Real(t *testing.T, test func(t *testing.T, k *Kafka), opts ...kfake.Opt) {
	t.Helper()
	t.Parallel()
	test(t, &Kafka{Addrs: Brokers(t, opts...)})
}

// Fake runs a test in a [Bubble] on a kfake, also where GVBLL_KAFKA is set: for the faults that
// only kfake can inject.
func Fake(t *testing.T, test func(t *testing.T, k *Kafka), opts ...kfake.Opt) {
	t.Helper()
	Bubble(t, func(t *testing.T, n *Network) { test(t, n.KFake(t, opts...)) })
}

// Brokers returns the addresses of brokers on the system's network, where time is the wall's: of
// Apache Kafka or, if GVBLL_KAFKA has none, of a kfake with the given options that runs until the
// test ends.
func Brokers(t testing.TB, opts ...kfake.Opt) []string {
	t.Helper()
	if a := Apache(); a != "" {
		return strings.Split(a, ",")
	}
	return start(t, opts...).ListenAddrs()
}

// Apache returns the bootstrap addresses in GVBLL_KAFKA, or "" for tests that are to run
// without Apache Kafka.
func Apache() string { return os.Getenv("GVBLL_KAFKA") }

// Tool returns the script that runs nodes of Apache Kafka, from GVBLL_KAFKA_TOOL, or "" for
// tests that are to run on kfake. Its commands are those of .ci/kafka-broker.
func Tool() string { return os.Getenv("GVBLL_KAFKA_TOOL") }

// start starts a kfake that runs until the test ends.
func start(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c := must[*kfake.Cluster](t)(kfake.NewCluster(opts...))
	t.Cleanup(c.Close)
	return c
}
