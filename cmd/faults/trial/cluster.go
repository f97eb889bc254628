package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cluster is brokers that can be disturbed.
type Cluster interface {
	Addresses() []string
	// Disturb does something bad for a while and says what.
	Disturb(rng *rand.Rand) (what string, err error)
	// Calm ends what still goes on.
	Calm() error
	Close()
}

// Fake is three brokers of kfake. It has its connections cut and slowed down,
// answers lost before and after the broker acts, and leaders moved.
type Fake struct {
	cluster *kfake.Cluster
	mu      sync.Mutex
	conns   map[*conn]bool
	slow    time.Duration
	quiet   int                  // answers still to be swallowed
	beats   map[string]time.Time // of group members, by id: when they were last heard
	stop    context.CancelFunc
}

// NewFake starts the brokers.
func NewFake() (*Fake, error) {
	f := &Fake{conns: make(map[*conn]bool), beats: make(map[string]time.Time)}
	var err error
	f.cluster, err = kfake.NewCluster(kfake.NumBrokers(3), kfake.GroupMinSessionTimeout(session), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return listener{l, f}, err
	}))
	if err != nil {
		return nil, err
	}
	f.cluster.ControlKey(kmsg.Heartbeat.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.beats[r.(*kmsg.HeartbeatRequest).MemberID] = time.Now()
		return nil, nil, false
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(f.cluster.ListenAddrs()...))
	if err != nil {
		f.cluster.Close()
		return nil, err
	}
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	go f.bury(ctx, client)
	return f, nil
}

// bury takes members out of their groups that were not heard of for three
// sessions. A broker does so after one; but kfake never drops a member whose
// connection broke while it waited for an election, and may have it win that.
func (f *Fake) bury(ctx context.Context, client *kgo.Client) {
	defer client.Close()
	tick := time.NewTicker(session / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		groups, err := kmsg.NewPtrListGroupsRequest().RequestWith(ctx, client)
		if err != nil {
			continue
		}
		describe := kmsg.NewPtrDescribeGroupsRequest()
		for _, g := range groups.Groups {
			describe.Groups = append(describe.Groups, g.Group)
		}
		described, err := describe.RequestWith(ctx, client)
		if err != nil {
			continue
		}
		for _, g := range described.Groups {
			for _, m := range g.Members {
				if !f.dead(m.MemberID) {
					continue
				}
				leave := kmsg.NewPtrLeaveGroupRequest()
				leave.Group = g.Group
				member := kmsg.NewLeaveGroupRequestMember()
				member.MemberID = m.MemberID
				leave.Members = append(leave.Members, member)
				_, _ = leave.RequestWith(ctx, client) // or next time
			}
		}
	}
}

func (f *Fake) dead(member string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, known := f.beats[member]
	if !known {
		f.beats[member] = time.Now()
		return false
	}
	return time.Since(last) > 3*session
}

// Addresses of all three.
func (f *Fake) Addresses() []string { return f.cluster.ListenAddrs() }

// Calm lets answers through again.
func (f *Fake) Calm() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow, f.quiet = 0, 0
	return nil
}

// Close stops the brokers.
func (f *Fake) Close() {
	f.stop()
	f.cluster.Close()
}

// Disturb implements [Cluster].
func (f *Fake) Disturb(rng *rand.Rand) (string, error) {
	keys := []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.EndTxn, kmsg.AddPartitionsToTxn, kmsg.TxnOffsetCommit, kmsg.Heartbeat, kmsg.ListOffsets, kmsg.Metadata, kmsg.InitProducerID, kmsg.JoinGroup}
	key := keys[rng.IntN(len(keys))]
	switch rng.IntN(6) {
	case 0:
		f.mu.Lock()
		defer f.mu.Unlock()
		n := 0
		for c := range f.conns {
			if rng.IntN(2) == 0 {
				_ = c.Close()
				n++
			}
		}
		return fmt.Sprintf("%d connections cut", n), nil
	case 1:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.slow = time.Duration(rng.IntN(150)) * time.Millisecond
		return fmt.Sprintf("answers take %v longer", f.slow), nil
	case 2:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.quiet = 1 + rng.IntN(5)
		return fmt.Sprintf("%d answers lost, though acted on", f.quiet), nil
	case 3:
		f.cluster.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
			return nil, errors.New("cut"), true
		})
		return key.Name() + " cut off before it is acted on", nil
	case 4:
		if rng.IntN(2) == 0 {
			f.cluster.RehashCoordinators()
			return "coordinators moved", nil
		}
		f.cluster.ShufflePartitionLeaders()
		return "leaders moved", nil
	default:
		errs := []*kerr.Error{kerr.RequestTimedOut, kerr.NotLeaderForPartition, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.NotEnoughReplicas}
		pairs := map[*kerr.Error]kmsg.Key{
			errs[0]: kmsg.Produce, errs[1]: kmsg.Produce, errs[2]: kmsg.JoinGroup,
			errs[3]: kmsg.EndTxn, errs[4]: kmsg.EndTxn, errs[5]: kmsg.Produce,
		}
		e := errs[rng.IntN(len(errs))]
		n := 1 + rng.IntN(4)
		f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{pairs[e]}, Err: e, Count: n})
		return fmt.Sprintf("%s answered %d times to %s", e.Message, n, pairs[e].Name()), nil
	}
}

type listener struct {
	net.Listener
	f *Fake
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	k := &conn{Conn: c, f: l.f}
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	l.f.conns[k] = true
	return k, nil
}

// conn is a broker's end of a connection.
type conn struct {
	net.Conn
	f *Fake
}

// Write sends an answer late, or cuts the connection instead.
func (c *conn) Write(b []byte) (int, error) {
	c.f.mu.Lock()
	slow := c.f.slow
	lose := c.f.quiet > 0
	if lose {
		c.f.quiet--
	}
	c.f.mu.Unlock()
	if lose {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	time.Sleep(slow)
	return c.Conn.Write(b)
}

func (c *conn) Close() error {
	go func() { // the caller may hold the lock
		c.f.mu.Lock()
		defer c.f.mu.Unlock()
		delete(c.f.conns, c)
	}()
	return c.Conn.Close()
}

// Kafka is three nodes of Apache Kafka, run by a script whose commands are start3
// DIR, start DIR/N, kill DIR/N and stop DIR. One node at a time is killed and
// started again, or halted for a while; leaders and coordinators move by that.
type Kafka struct {
	tool, dir string
	addresses []string
	down      string // directory of the node that was killed
	halted    int    // pid
}

// NewKafka starts the nodes in a new directory.
func NewKafka(tool, dir string) (*Kafka, error) {
	k := &Kafka{tool: tool, dir: dir}
	out, err := k.run("start3", dir)
	if err != nil {
		return nil, err
	}
	k.addresses = strings.Split(strings.TrimSpace(out), ",")
	return k, nil
}

func (k *Kafka) run(args ...string) (string, error) {
	cmd := exec.Command(k.tool, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", k.tool, strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}

// Addresses of all three.
func (k *Kafka) Addresses() []string { return k.addresses }

// Disturb implements [Cluster]. What was disturbed before is mended first.
func (k *Kafka) Disturb(rng *rand.Rand) (string, error) {
	if k.down != "" || k.halted != 0 {
		return "the node is back", k.Calm()
	}
	node := filepath.Join(k.dir, strconv.Itoa(1+rng.IntN(3)))
	if rng.IntN(2) == 0 {
		k.down = node
		_, err := k.run("kill", node)
		return "node " + filepath.Base(node) + " killed", err
	}
	b, err := os.ReadFile(filepath.Join(node, "pid"))
	if err != nil {
		return "", err
	}
	if k.halted, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
		return "", err
	}
	return "node " + filepath.Base(node) + " halted", syscall.Kill(k.halted, syscall.SIGSTOP)
}

// Calm has all nodes run.
func (k *Kafka) Calm() (err error) {
	if k.halted != 0 {
		err = syscall.Kill(k.halted, syscall.SIGCONT)
		k.halted = 0
	}
	if k.down != "" {
		_, e := k.run("start", k.down)
		k.down = ""
		err = errors.Join(err, e)
	}
	return err
}

// Close stops the nodes.
func (k *Kafka) Close() {
	_ = k.Calm()
	_, _ = k.run("stop", k.dir)
}
