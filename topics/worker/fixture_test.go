package worker_test

import (
	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// fixture is a graph on a broker.
type fixture = workertest.Fixture

var (
	onBrokers  = workertest.OnBrokers
	onFake     = workertest.OnFake
	newFixture = workertest.NewFixture
)

type (
	tally = workertest.Tally
)

const (
	session       = workertest.Session
	otherSettings = workertest.OtherSettings
	oldSettings   = workertest.OldSettings
)

// auditOf audits the ledger from its beginning.
func auditOf(f *fixture, e replay.Engine, cfg worker.Config) (audit.Result, error) {
	on := f.Config(cfg)
	return audit.Run(f.T.Context(), f.Client, e, on.Replay(), audit.From{}, nil)
}
