package replay_test

import (
	"testing"
	"time"

	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// fixture is a graph on a broker, with what these tests alone ask of it.
type fixture struct{ *workertest.Fixture }

type (
	tally    = workertest.Tally
	recorder = workertest.Recorder
)

const (
	session       = workertest.Session
	settings      = workertest.Settings
	otherSettings = workertest.OtherSettings
)

func onBrokers(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	workertest.OnBrokers(t, func(t *testing.T, f *workertest.Fixture) { test(t, &fixture{f}) })
}

func (f *fixture) withDialTimeout(d time.Duration) *fixture { return &fixture{f.WithDialTimeout(d)} }

// audit audits the ledger from its beginning.
func (f *fixture) audit(e replay.Engine, cfg worker.Config) (audit.Result, error) {
	on := f.Config(cfg)
	return audit.Run(f.T.Context(), f.Client, e, on.Replay(), audit.From{}, nil)
}
