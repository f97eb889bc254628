package replay_test

import (
	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// fixture is a graph on a broker.
type fixture = workertest.Fixture

var onBrokers = workertest.OnBrokers

type (
	tally    = workertest.Tally
	recorder = workertest.Recorder
)

const (
	session       = workertest.Session
	settings      = workertest.Settings
	otherSettings = workertest.OtherSettings
)

// auditOf audits the ledger from its beginning.
func auditOf(f *fixture, e replay.Engine, cfg worker.Config) (audit.Result, error) {
	on := f.Config(cfg)
	return audit.Run(f.T.Context(), f.Client, e, on.Replay(), audit.From{}, nil)
}
