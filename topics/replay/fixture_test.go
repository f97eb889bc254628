package replay_test

import "github.com/gvbll/gvbll/topics/worker/workertest"

// fixture is a graph on a broker.
type fixture = workertest.Fixture

var (
	onBrokers = workertest.OnBrokers
	onFake    = workertest.OnFake
)

type (
	tally    = workertest.Tally
	recorder = workertest.Recorder
)

const (
	session       = workertest.Session
	settings      = workertest.Settings
	otherSettings = workertest.OtherSettings
)
