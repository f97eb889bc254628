// Package trial tries the promise that a worker makes: each node is predicted
// once and every posterior is what the inputs say, whatever is killed, cut off,
// moved or slowed down meanwhile. It runs the program itself as processes, on
// kfake or on Apache Kafka, and reads what they published as any consumer would.
//
// [Crash] kills workers at every named point of the commit and checkpoint paths
// and compares with a run that nothing disturbed. [Chaos] does everything at
// once for a while, by a seed, and has an audit replay the ledger afterwards.
// [Soak] works at a steady rate and looks at what the process takes.
package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// Setup is what every trial stands on.
type Setup struct {
	Program string // the gvbll binary; Crash wants it built with the tag crashpoints
	Model   string // a model file
	// Shadow is the file of a model for the shadow, empty for none, and ShadowID
	// its id.
	Shadow, ShadowID string
	Flags            []string // of the engine, for the workers
	Items            []Item   // that fit the model, in the order of their arrival
	Brokers          []string // of the cluster; the cluster's own business is Cluster
	Dir              string   // for checkpoints and logs
}

// Item is a node and its class.
type Item struct {
	Node  event.Node
	Class string
}

// session is as short as test brokers are told to allow.
const session = time.Second

// graph is one graph's topics in a trial.
type graph struct {
	*Setup
	client *kafka.Client
	names  topics.Names
	prefix string
	dir    string
	http   string // address of its workers, who are alone if it has a port
}

func (s *Setup) graph(ctx context.Context, c *kafka.Client, prefix string) (*graph, error) {
	names, err := topics.Under(prefix)
	if err != nil {
		return nil, err
	}
	if _, err := topics.Create(ctx, c, names, partitions, -1); err != nil {
		return nil, err
	}
	g := &graph{Setup: s, client: c, names: names, prefix: prefix, dir: filepath.Join(s.Dir, prefix), http: "127.0.0.1:0"}
	return g, os.MkdirAll(g.dir, 0o755)
}

const partitions = 3

// process is one worker.
type process struct {
	cmd   *exec.Cmd
	point string // that it is to be killed at, and how often that is passed; empty for none
	log   *os.File
	ended chan struct{}
	err   error // how, once ended is closed
	at    time.Time
}

// start starts a worker that keeps its checkpoints and log under the name.
func (g *graph) start(name, crash string, args ...string) (*process, error) {
	args = append([]string{
		"work", "--brokers", strings.Join(g.Brokers, ","), "--prefix", g.prefix, "--model", g.Model, "--http", g.http,
		"--session-timeout", session.String(), "--checkpoint-dir", filepath.Join(g.dir, name), "--create-topics", fmt.Sprint(partitions),
	}, slices.Concat(args, g.shadow(), g.Flags)...)
	log, err := os.OpenFile(filepath.Join(g.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(log, "--- %s GVBLL_CRASH=%s gvbll %s\n", time.Now().Format(time.TimeOnly), crash, strings.Join(args, " "))
	p := &process{cmd: exec.Command(g.Program, args...), point: crash, log: log, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), "GVBLL_CRASH="+crash)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		p.at = time.Now()
		fmt.Fprintf(log, "--- %s %v\n", p.at.Format(time.TimeOnly), p.err)
		log.Close()
		close(p.ended)
	}()
	return p, nil
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// killed tells whether SIGKILL ended the process.
func (p *process) killed() bool {
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// interrupted tells whether the process was told to end before it had begun.
func (p *process) interrupted() bool {
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGTERM || endsWith(p.log.Name(), "gvbll: interrupted")
}

// endsWith looks for words at the end of a log.
func endsWith(path, words string) bool {
	return strings.Contains(end(path), words)
}

// lastWords is what a program said last in its log.
func lastWords(path string) string {
	said := end(path)
	return strings.TrimSpace(said[max(strings.LastIndex(said, "\ngvbll: "), 0):])
}

// end is the end of a log, "" where there is none.
func end(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		_, _ = f.Seek(max(info.Size()-2000, 0), io.SeekStart)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	return string(b)
}

// takenOver tells whether the worker ended because another had taken over, which
// is no fault where several run.
func (p *process) takenOver() bool { return endsWith(p.log.Name(), "has taken over this graph") }

// stop ends a worker as an operator would, and is patient for a minute.
func (p *process) stop() error {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return p.err
	case <-time.After(time.Minute):
		p.signal(syscall.SIGQUIT) // has its goroutines in the log
		<-p.ended
		return errors.New("it did not end within a minute of SIGTERM")
	}
}

// shadow is the flag of worker and audit for the model in the shadow, if there is
// one.
func (s *Setup) shadow() []string {
	if s.Shadow == "" {
		return nil
	}
	return []string{"--shadow", s.Shadow}
}

// audit has the program prove what was published.
func (g *graph) audit(ctx context.Context) error {
	args := append([]string{"audit", "--brokers", strings.Join(g.Brokers, ","), "--prefix", g.prefix, "--model", g.Model}, g.shadow()...)
	if out, err := exec.CommandContext(ctx, g.Program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("the audit: %w: %.500s", err, out)
	}
	return nil
}

// sender produces what a trial wants to have come in.
type sender struct {
	g        *graph
	producer *kafka.Producer
	records  []kafka.Record
}

func (g *graph) sender(ctx context.Context) (*sender, error) {
	p, err := g.client.NewProducer(ctx, kafka.ProducerConfig{})
	return &sender{g: g, producer: p}, err
}

func (s *sender) put(topic string, key, value []byte, partition int) {
	if partition < 0 {
		partition = int(kafka.PartitionFor(key, partitions))
	}
	s.records = append(s.records, kafka.Record{Topic: topic, Partition: int32(partition), Key: key, Value: value})
}

func (s *sender) node(n *event.Node) {
	s.put(s.g.names.Nodes, wire.AppendKey(nil, n.ID), wire.AppendNode(nil, n), -1)
}

func (s *sender) label(l *event.Label) {
	s.put(s.g.names.Labels, wire.AppendKey(nil, l.Node), wire.AppendLabel(nil, l), -1)
}

// poison is a record that no decoder takes.
func (s *sender) poison(topic string, n int) {
	key := fmt.Appendf(nil, "poison-%d", n)
	s.put(topic, key, fmt.Appendf([]byte{0xc1}, "%d", n), -1)
}

// send sends what was put. What is not known to have been taken is sent again,
// and may then be there twice.
func (s *sender) send(ctx context.Context) error {
	for len(s.records) > 0 {
		err := s.producer.Send(ctx, s.records)
		if err == nil {
			s.records = s.records[:0]
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		if err := s.producer.Restart(ctx); err != nil && ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// came is what one graph's outputs hold.
type came struct {
	dir         string          // of the graph's checkpoints and logs
	predictions map[said][]byte // the value
	windows     []window        // of the ledger
	dead        []string        // "topic/partition/offset reason", sorted
	lost        int
	twice       int
	faults      []string // what is wrong beside
}

// said is what is said once: of a node by a model, at first or as a revision.
type said struct {
	node     event.ID
	model    string
	revision int32
}

// window is what must be the same however the worker was disturbed.
type window struct {
	posterior           string
	predictions, labels int
	shadow              ledger.Shadow
	model, promoted     string
}

// settle waits until the last transaction can be read, which a new producer
// session does; it may only be called when no worker runs.
func (g *graph) settle(ctx context.Context) error {
	p, err := g.client.NewProducer(ctx, kafka.ProducerConfig{TransactionalID: g.names.Ledger})
	if err == nil {
		p.Close()
	}
	return err
}

// read reads what was published, as a consumer that believes nothing. want are
// the nodes that must be predicted once each.
func (g *graph) read(ctx context.Context, want []event.ID) (*came, error) {
	c := &came{dir: g.dir, predictions: make(map[said][]byte)}
	if err := g.settle(ctx); err != nil {
		return nil, err
	}
	first := make(map[event.ID]bool)
	var wrong error
	err := g.client.ReadAll(ctx, g.names.Predictions, func(r *kafka.Record) {
		var p event.Prediction
		if err := wire.DecodePrediction(r.Value, &p); err != nil {
			wrong = err
			return
		}
		id := said{p.Node, p.Model, p.Revision}
		if _, there := c.predictions[id]; there || p.Revision == 0 && first[p.Node] {
			c.twice++
			c.faults = append(c.faults, fmt.Sprintf("node %v was predicted twice", p.Node))
		}
		c.predictions[id] = bytes.Clone(r.Value)
		if p.Revision == 0 {
			first[p.Node] = true
		}
	})
	if err = errors.Join(err, wrong); err != nil {
		return nil, err
	}
	for _, id := range want {
		if !first[id] {
			c.lost++
			c.faults = append(c.faults, fmt.Sprintf("node %v was not predicted", id))
		}
	}
	err = g.client.ReadAll(ctx, g.names.DeadLetters, func(r *kafka.Record) {
		var d event.Refusal
		if err := wire.DecodeDeadLetter(r.Value, &d); err != nil {
			wrong = err
			return
		}
		topic := strings.TrimPrefix(d.Origin.Topic, g.prefix)
		c.dead = append(c.dead, fmt.Sprintf("%s/%d/%d %s", topic, d.Origin.Partition, d.Origin.Offset, d.Reason))
	})
	if err = errors.Join(err, wrong); err != nil {
		return nil, err
	}
	slices.Sort(c.dead)
	if n := len(c.dead); len(slices.Compact(slices.Clone(c.dead))) < n {
		c.twice++
		c.faults = append(c.faults, "a record was refused twice")
	}
	c.windows, err = g.ledger(ctx)
	return c, err
}

// ledger reads all windows.
func (g *graph) ledger(ctx context.Context) (list []window, err error) {
	l, err := ledger.Open(ctx, g.client, g.names.Ledger)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	for {
		r, err := l.Next(ctx)
		if err != nil || r == nil {
			return list, err
		}
		w := window{posterior: r.Posterior, predictions: r.Predictions, labels: r.Labels, model: r.Model, promoted: r.Promoted}
		if r.Shadow != nil {
			w.shadow = *r.Shadow
			w.shadow.Chain = "" // poison's offsets are in it
		}
		list = append(list, w)
	}
}

// totals add up a ledger.
type totals struct {
	windows, predictions, labels, refused int
	forgotten                             int // commands to forget nodes that were done
	promoted                              int // models, out of the shadow
}

// watch reads a ledger as it grows.
type watch struct {
	sum    totals
	last   time.Time // when the last record was seen
	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan error
}

// watch begins to read the graph's ledger.
func (g *graph) watch(ctx context.Context) (*watch, error) {
	l, err := ledger.Open(ctx, g.client, g.names.Ledger)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{cancel: cancel, done: make(chan error, 1)}
	go func() {
		defer l.Close()
		for ctx.Err() == nil {
			r, err := l.Wait(ctx)
			if err != nil && ctx.Err() == nil {
				w.done <- err
				return
			}
			if r == nil {
				continue
			}
			w.mu.Lock()
			w.last = time.Now()
			w.sum.windows++
			w.sum.predictions += r.Predictions
			w.sum.labels += r.Labels
			w.sum.refused += r.Refused
			if r.Forgot != nil {
				w.sum.forgotten++
			}
			if r.Promoted != "" {
				w.sum.promoted++
			}
			w.mu.Unlock()
		}
		w.done <- nil
	}()
	return w, nil
}

func (w *watch) now() (sum totals, last time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sum, w.last
}

// close ends the watch and says whether the ledger was as it should.
func (w *watch) close() error {
	w.cancel()
	return <-w.done
}
