package worker_test

import "github.com/gvbll/gvbll/topics/worker/workertest"

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
