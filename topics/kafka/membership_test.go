package kafka_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/topics/kafka"
)

// TestElection: the first to come is elected and stays the owner when one comes
// that is further; when it leaves, who is furthest is elected.
func TestElection(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "ledger"), kfake.GroupMinSessionTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: cluster.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	join := func(owner *atomic.Bool, progress int64) *kafka.Membership {
		m, err := c.Join(kafka.MembershipConfig{
			Group: "ledger", Topic: "ledger", Session: time.Second,
			Standing: func() (bool, int64) { return owner.Load(), progress },
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	var first, second, third atomic.Bool
	a := join(&first, 3)
	if !(<-a.Elected()).Owner {
		t.Fatal("the only member was not elected")
	}
	first.Store(true)
	b := join(&second, 2)
	if (<-b.Elected()).Owner || !(<-a.Elected()).Owner {
		t.Fatal("another was elected beside the owner")
	}
	c3 := join(&third, 1000)
	if (<-c3.Elected()).Owner || (<-b.Elected()).Owner || !(<-a.Elected()).Owner {
		t.Fatal("another was elected that was further than the owner")
	}
	a.Leave()
	if !(<-c3.Elected()).Owner || (<-b.Elected()).Owner {
		t.Fatal("not the furthest was elected")
	}
	c3.Leave()
	if !(<-b.Elected()).Owner {
		t.Fatal("the last one was not elected")
	}
	b.Leave()
	b.Leave()

	d, err := c.Join(kafka.MembershipConfig{Group: "ledger", Topic: "ledger", Session: time.Millisecond, Standing: func() (bool, int64) { return false, 0 }})
	if err != nil {
		t.Fatal(err)
	}
	if e := <-d.Elected(); e.Err == nil || !strings.Contains(e.Err.Error(), "--session-timeout") {
		t.Errorf("a session of a millisecond: %v", e)
	}
	d.Leave()
}
