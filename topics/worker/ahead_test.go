package worker_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// TestInputFails: an input topic can no longer be read after some windows. The worker
// ends with an error that names the topic, and with all stepped windows committed.
func TestInputFails(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.On.Fake
		f.Send(0, 50)
		refused := kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: f.Names.Nodes, Err: kerr.TopicAuthorizationFailed, Count: -1}
		var fault atomic.Pointer[kfake.FaultHandle]
		var last int64
		err := worker.Run(t.Context(), f.Client, &tally{}, f.Config(worker.Config{
			Publishing: publish.Config{CommitInterval: 10 * time.Minute},
			Policy:     intake.CountOrLinger{Count: 7, Linger: time.Millisecond},
			Events: replay.On(func(s replay.Stepped) {
				last = s.Outcome.Window
				if fault.Load() == nil {
					fault.Store(cluster.Fault(refused))
				}
			}),
		}))
		if err == nil || !strings.Contains(err.Error(), f.Names.Nodes) {
			t.Fatalf("the worker ended with error %v, want one that names the topic %s", err, f.Names.Nodes)
		}
		fault.Load().Remove()
		recovered := int64(0)
		if err := f.Run(&tally{}, worker.Config{Events: replay.On(func(r replay.Recovered) { recovered = r.Windows })}); err != nil {
			t.Fatal(err)
		}
		if recovered != last+1 {
			t.Errorf("%d windows were committed, want all %d that were stepped", recovered, last+1)
		}
		f.CheckOutputs(50, 1)
	})
}
