package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// pause is between two questions of a loop that waits for an answer. In virtual time it takes none.
const pause = 10 * time.Millisecond

// shell runs commands of gvbll in this process, with an environment and a network of its own.
type shell struct {
	t      *testing.T
	addr   string   // of brokers
	env    []string // beside this process's environment
	dialer func(ctx context.Context, network, address string) (net.Conn, error)
	listen func(network, address string) (net.Listener, error)
	login  sasl.Mechanism // of dial
}

// onKafka runs a test in parallel with others on one broker: on Apache Kafka, or on kfake in
// virtual time, as [kafkatest.Run] says.
func onKafka(t *testing.T, test func(*testing.T, *shell)) {
	t.Helper()
	kafkatest.Run(t, func(t *testing.T, k *kafkatest.Kafka) { test(t, shellOn(t, k)) }, kfake.NumBrokers(1))
}

// onKafkaItself is onKafka for tests whose commands are processes, for which time is the wall's.
func onKafkaItself(t *testing.T, test func(*testing.T, *shell), opts ...kfake.Opt) {
	t.Helper()
	kafkatest.Real(t, func(t *testing.T, k *kafkatest.Kafka) { test(t, shellOn(t, k)) }, append(opts, kfake.NumBrokers(1))...)
}

// shortSessions lets a broker of kfake take a worker for dead after [sessionTimeout].
var shortSessions = kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "1000"})

// sessionTimeout returns a --session-timeout for tests that kill workers: on Apache Kafka the
// shortest that it allows by default.
func sessionTimeout() string {
	if kafkatest.Apache() != "" {
		return "6s"
	}
	return "2s"
}

// onKFake runs a test in parallel with others on one broker of kfake, in virtual time.
func onKFake(t *testing.T, test func(*testing.T, *shell), opts ...kfake.Opt) {
	t.Helper()
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) { test(t, shellOn(t, k)) }, append(opts, kfake.NumBrokers(1))...)
}

func shellOn(t *testing.T, k *kafkatest.Kafka) *shell {
	t.Helper()
	sh := &shell{t: t, addr: strings.Join(k.Addrs, ","), dialer: k.Dial}
	if k.Network != nil {
		sh.listen = k.Network.Listen
	}
	return sh
}

// setenv sets a variable in the environment of the commands.
func (sh *shell) setenv(name, value string) { sh.env = append(sh.env, name+"="+value) }

// process returns what a command has of the process that runs it.
func (sh *shell) process(stdout, stderr io.Writer) flags.Process {
	return flags.Process{
		In: os.Stdin, Out: stdout, Err: stderr, Env: append(os.Environ(), sh.env...), Version: versionString(),
		Dial: sh.dialer, Listen: sh.listen,
	}
}

// longest is how long a command may run, of virtual time or of the wall's.
const longest = 5 * time.Minute

// command runs a command of gvbll to its end.
func (sh *shell) command(args ...string) (code int, stdout, stderr string) {
	sh.t.Helper()
	ctx, cancel := context.WithTimeout(sh.t.Context(), longest)
	defer cancel()
	var out, errs lines
	code = run(ctx, args, sh.process(&out, &errs))
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		sh.t.Errorf("gvbll %s has not ended after %v\n%s", strings.Join(args, " "), longest, &errs)
	}
	return code, out.String(), errs.String()
}

// gvbll runs a command that must succeed, and returns its standard output.
func (sh *shell) gvbll(args ...string) string {
	sh.t.Helper()
	code, stdout, stderr := sh.command(args...)
	if code != exitOK {
		sh.t.Fatalf("gvbll %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// dial returns a client of the brokers, which is closed at the end of the test.
func (sh *shell) dial() *kafka.Client {
	sh.t.Helper()
	c, err := kafka.Dial(sh.t.Context(), kafka.Config{Brokers: []string{sh.addr}, Dialer: sh.dialer, SASL: sh.login})
	must(sh.t, err)
	sh.t.Cleanup(c.Close)
	return c
}

// kgoOptions returns the options of a franz-go client of the brokers.
func (sh *shell) kgoOptions() []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(sh.addr)}
	if sh.dialer != nil {
		opts = append(opts, kgo.Dialer(sh.dialer))
	}
	return opts
}

// get returns the body of a page that a command serves.
func (sh *shell) get(url string) string {
	sh.t.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: sh.dialer, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(sh.t.Context(), http.MethodGet, url, nil)
	must(sh.t, err)
	res, err := client.Do(req)
	must(sh.t, err)
	defer res.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(res.Body)
	must(sh.t, err)
	return body.String()
}
