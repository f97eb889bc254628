package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// TestLyingProxy: before a worker stands a proxy whose answers claim what is not so. A worker may end with an error; none panics, and those
// that are started until one serves predict each node once, of which an audit finds every byte in place.
func TestLyingProxy(t *testing.T) {
	for what, lie := range kafkatest.Lies {
		t.Run(what, func(t *testing.T) {
			onFake(t, func(t *testing.T, f *fixture) {
				f.Send(0, 50)
				behind := *f
				cfg := kafka.Config{Brokers: f.On.Addrs, Dialer: f.On.Lying(lie).Dial}
				served := false
				for range 20 {
					c, err := kafka.Dial(t.Context(), cfg)
					if err != nil {
						continue
					}
					behind.Client = c
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					run := behind.Config(worker.Config{})
					run.Session = session
					n := 101 - f.Events(int64(len(f.Records())))
					run.Events = replay.Join(
						replay.On(func(replay.TookOver) {
							if n <= 0 {
								cancel()
							}
						}),
						replay.On(func(s replay.Stepped) {
							if !s.Replayed {
								n -= len(s.Outcome.Labelled) + len(s.Outcome.Predictions) + len(s.Outcome.Refused)
							}
						}),
						replay.On(func(replay.Committed) {
							if n <= 0 {
								cancel()
							}
						}))
					err = worker.Run(ctx, c, &tally{}, run)
					cancel()
					c.Close()
					f.Fence()
					if served = err == nil && n <= 0; served {
						break
					}
				}
				if !served {
					t.Fatal("no worker serves, long after the last lie")
				}
				f.CheckOutputs(50, 1)
				if _, err := f.Audit(&tally{}, worker.Config{}); err != nil {
					t.Errorf("audit: %v", err)
				}
			})
		})
	}
}
