package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fake is three brokers of kfake. disturb cuts connections and slows them down, loses
// requests and responses, answers with errors, and moves leaders and coordinators.
type fake struct {
	cluster *kfake.Cluster
	proxy   *proxy
	stop    context.CancelFunc // of removeDead

	mu         sync.Mutex
	slow       time.Duration        // delay of every response
	lose       int                  // number of responses still to lose
	heartbeats map[string]time.Time // the last one of each group member
}

// newFake starts the brokers.
func newFake() *fake {
	f := &fake{heartbeats: make(map[string]time.Time)}
	f.cluster = need(kfake.NewCluster(kfake.NumBrokers(3), kfake.GroupMinSessionTimeout(session)))
	f.proxy = newProxy(f.cluster.ListenAddrs())
	f.proxy.answered = f.answered
	f.cluster.ControlKey(kmsg.Heartbeat.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.heartbeats[r.(*kmsg.HeartbeatRequest).MemberID] = time.Now()
		return nil, nil, false
	})
	client := need(kgo.NewClient(kgo.SeedBrokers(f.cluster.ListenAddrs()...)))
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	go f.removeDead(ctx, client)
	return f
}

// removeDead removes group members that have sent no heartbeat for three session timeouts.
// A real broker removes them after one. kfake never removes a member whose connection
// broke while it waited to join, and may make that member the owner.
func (f *fake) removeDead(ctx context.Context, client *kgo.Client) {
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
				_, _ = leave.RequestWith(ctx, client) // tried again at the next tick
			}
		}
	}
}

// dead reports whether a member has sent no heartbeat for three session timeouts.
func (f *fake) dead(member string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, known := f.heartbeats[member]
	if !known {
		f.heartbeats[member] = time.Now()
		return false
	}
	return time.Since(last) > 3*session
}

func (f *fake) addresses() []string { return f.proxy.addresses() }

// answered holds an answer for the current delay, or ends its connection if it is to be lost.
func (f *fake) answered(*frame) {
	f.mu.Lock()
	slow, lose := f.slow, f.lose > 0
	if lose {
		f.lose--
	}
	f.mu.Unlock()
	if lose {
		fail("the answer is lost")
	}
	time.Sleep(slow)
}

func (f *fake) calm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow, f.lose = 0, 0
}

func (f *fake) close() {
	f.stop()
	f.proxy.close()
	f.cluster.Close()
}

func (f *fake) disturb(rng *rand.Rand) string {
	keys := []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.EndTxn, kmsg.AddPartitionsToTxn, kmsg.TxnOffsetCommit, kmsg.Heartbeat, kmsg.ListOffsets, kmsg.Metadata, kmsg.InitProducerID, kmsg.JoinGroup}
	key := keys[rng.IntN(len(keys))]
	switch rng.IntN(6) {
	case 0:
		return fmt.Sprintf("%d connections cut", f.proxy.cut(rng))
	case 1:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.slow = time.Duration(rng.IntN(150)) * time.Millisecond
		return fmt.Sprintf("responses delayed by %v", f.slow)
	case 2:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lose = 1 + rng.IntN(5)
		return fmt.Sprintf("%d responses lost after the request was handled", f.lose)
	case 3:
		f.cluster.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
			return nil, errors.New("lost"), true
		})
		return key.Name() + " lost before it is handled"
	case 4:
		if rng.IntN(2) == 0 {
			f.cluster.RehashCoordinators()
			return "coordinators moved"
		}
		f.cluster.ShufflePartitionLeaders()
		return "leaders moved"
	default:
		errs := []struct {
			err *kerr.Error
			key kmsg.Key // of the request that it answers
		}{
			{kerr.RequestTimedOut, kmsg.Produce},
			{kerr.NotLeaderForPartition, kmsg.Produce},
			{kerr.CoordinatorLoadInProgress, kmsg.JoinGroup},
			{kerr.ConcurrentTransactions, kmsg.EndTxn},
			{kerr.NotCoordinator, kmsg.EndTxn},
			{kerr.NotEnoughReplicas, kmsg.Produce},
		}
		e := errs[rng.IntN(len(errs))]
		n := 1 + rng.IntN(4)
		f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{e.key}, Err: e.err, Count: n})
		return fmt.Sprintf("%s returned %d times by %s", e.err.Message, n, e.key.Name())
	}
}
