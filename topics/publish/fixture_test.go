package publish_test

import (
	"testing"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// fixture is a graph on a broker, with what these tests alone ask of it.
type fixture struct{ *workertest.Fixture }

type (
	tally = workertest.Tally
)

const (
	session  = workertest.Session
	settings = workertest.Settings
)

func onBrokers(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	workertest.OnBrokers(t, func(t *testing.T, f *workertest.Fixture) { test(t, &fixture{f}) })
}

func onFake(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	workertest.OnFake(t, func(t *testing.T, f *workertest.Fixture) { test(t, &fixture{f}) })
}

func newFixture(t *testing.T, on *kafkatest.Kafka) *fixture {
	return &fixture{workertest.NewFixture(t, on)}
}
