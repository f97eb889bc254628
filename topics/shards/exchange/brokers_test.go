package exchange

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestBrokersFail: while tasks step windows, each in two workers that send the same, leaders
// move and answers are lost; on Apache Kafka, of three nodes, they are stopped, killed and started again. Every task gets every message
// once, and the log holds most of them twice.
func TestBrokersFail(t *testing.T) {
	tool := kafkatest.Tool()
	if tool == "" {
		kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
			g := newGraph(t, k, 3)
			testBrokersFail(g, 12, func(n int) {
				for p := range int32(g.cfg.Shards + 2) {
					if err := k.Fake.MoveTopicPartition(g.cfg.Topic, p, int32(n)%3); err != nil {
						t.Error(err)
					}
				}
				k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: g.cfg.Topic, Err: kerr.RequestTimedOut, Count: 2})
				k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: g.cfg.Topic, Err: kerr.OutOfOrderSequenceNumber, Count: 1})
			})
		}, kfake.NumBrokers(3))
		return
	}
	dir := t.TempDir()
	run := func(args ...string) string {
		out, err := exec.Command(tool, args...).Output()
		if err != nil {
			t.Errorf("%s %s: %v", tool, strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out))
	}
	t.Cleanup(func() { run("stop", dir) })
	g := newGraph(t, &kafkatest.Kafka{Addrs: strings.Split(run("start3", dir), ",")}, 3)
	testBrokersFail(g, 2, func(n int) {
		node := filepath.Join(dir, fmt.Sprint(1+n%3))
		run([]string{"kill", "stop"}[n%2], node)
		g.later(50) // without the node
		run("start", node)
	})
}

// later waits until the lead has stepped so many windows more.
func (g *graph) later(windows int64) {
	for until := g.stepped.Load() + windows; g.stepped.Load() < until && g.ctx.Err() == nil; {
		select {
		case <-g.step:
		case <-g.ctx.Done():
		}
	}
}

// testBrokersFail runs tasks, and disturbs the cluster so many times meanwhile.
func testBrokersFail(g *graph, times int, disturb func(n int)) {
	var last atomic.Int64
	var once sync.Once
	last.Store(1 << 40)
	started := make(chan struct{})
	go func() {
		<-started
		for n := range times {
			g.later(30)
			disturb(n)
		}
		g.later(30)
		last.Store(g.stepped.Load() + 100) // no task is as far ahead
	}()
	g.run(2, func(task, window int64) bool {
		if task == 0 {
			once.Do(func() { close(started) })
			g.stepped.Store(max(g.stepped.Load(), window))
			select {
			case g.step <- struct{}{}:
			default:
			}
		}
		return window < last.Load()
	})
	bounds, err := g.client.Offsets(g.Context(), g.cfg.Topic)
	if err != nil {
		g.Fatal(err)
	}
	g.Logf("%d windows, the log ends at %v", last.Load(), bounds)
}
