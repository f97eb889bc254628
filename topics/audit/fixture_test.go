package audit_test

import (
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// fixture is a graph on a broker.
type fixture = workertest.Fixture

var (
	onBrokers = workertest.OnBrokers
	onFake    = workertest.OnFake
)

type (
	tally = workertest.Tally
)

const (
	otherSettings = workertest.OtherSettings
)
