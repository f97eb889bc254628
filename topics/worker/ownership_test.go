package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// TestStandby: standbys replay the owner's windows as they are committed, and do not disturb
// it when they join. When the owner leaves, one of them takes over at the next window, and
// after it the other.
func TestStandby(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		before := f.Send(0, 40)
		first := f.StartWorker(&tally{}, worker.Config{})
		<-first.Took
		first.AwaitEvents(t, before)
		second := f.StartWorker(&tally{}, worker.Config{})
		<-second.Recovered
		after := f.Send(40, 80)
		first.AwaitEvents(t, after)
		if second.AwaitEvents(t, before+after) == 0 {
			t.Error("the standby replayed no windows")
		}
		third := f.StartWorker(&tally{}, worker.Config{})
		<-third.Recovered
		if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
		var took replay.TookOver
		select {
		case took = <-second.Took:
		case took = <-third.Took:
			second, third = third, second
		}
		if want := first.Committed.Load(); took.Windows != want {
			t.Errorf("a standby took over at window %d, want %d", took.Windows, want)
		}
		f.Send(80, 100)
		for second.Committed.Load() <= took.Windows {
			<-second.Commits
		}
		if err := second.Stop(); err != nil {
			t.Fatal(err)
		}
		<-third.Took
		if err := third.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(100, 3)
	})
}

// TestElectionEndsWait: a standby takes over as soon as it is elected, which it hears with its next heartbeat,
// though it waits for the ledger's next record. Time is virtual.
func TestElectionEndsWait(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		first := f.StartWorker(&tally{}, worker.Config{})
		<-first.Took
		second := f.StartWorker(&tally{}, worker.Config{})
		<-second.Recovered
		began := time.Now()
		if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
		<-second.Took
		if took := time.Since(began); took > workertest.Session/6 {
			t.Errorf("a standby took over after %v, want at most a heartbeat's %v", took, workertest.Session/6)
		}
		if err := second.Stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTakeOver: an owner that another producer session has fenced ends with ErrOwned and
// commits nothing more. The next worker continues after the last committed window.
func TestTakeOver(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		n := f.Send(0, 20)
		first := f.StartWorker(&tally{}, worker.Config{})
		first.AwaitEvents(t, n)
		f.Fence()
		f.Send(20, 40)
		if err := <-first.Ended; !errors.Is(err, publish.ErrOwned) {
			t.Fatalf("the first worker ended with error %v, want %v", err, publish.ErrOwned)
		}
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(40, 2)
	})
}
