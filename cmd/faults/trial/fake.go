package trial

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fake is three brokers of kfake. disturb cuts connections and slows them down, loses
// requests and responses, answers with errors, and moves leaders and coordinators.
type fake struct {
	cluster *kfake.Cluster
	proxy   *proxy

	mu   sync.Mutex
	slow time.Duration // delay of every response
	lose int           // number of responses still to lose
}

// newFake starts the brokers.
func newFake(options ...kfake.Opt) *fake {
	options = append(options, kfake.NumBrokers(3), kfake.GroupMinSessionTimeout(session))
	f := &fake{cluster: need(kfake.NewCluster(options...))}
	f.proxy = newProxy(f.cluster.ListenAddrs())
	f.proxy.answered = f.answered
	return f
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
	f.proxy.close()
	f.cluster.Close()
}

func (f *fake) disturb(rng *rand.Rand) string {
	keys := []kmsg.Key{
		kmsg.Produce, kmsg.Fetch, kmsg.EndTxn, kmsg.AddPartitionsToTxn, kmsg.TxnOffsetCommit,
		kmsg.Heartbeat, kmsg.ListOffsets, kmsg.Metadata, kmsg.InitProducerID, kmsg.JoinGroup,
	}
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
