package kafka

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// candidate is a member of an election with a fixed progress.
type candidate struct {
	*Membership
	owner atomic.Bool // what Standing returns
}

func join(t *testing.T, c *Client, session time.Duration, progress int64) *candidate {
	t.Helper()
	m := &candidate{}
	var err error
	m.Membership, err = c.Join(MembershipConfig{
		Group: "ledger", Topic: "ledger", Session: session,
		Standing: func() (bool, int64) { return m.owner.Load(), progress },
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestElection: members that join do not replace an owner, even if they have more
// progress, because a change of owners costs time. When the owner leaves, the member
// with the most progress is elected, because it has the least to replay.
func TestElection(t *testing.T) {
	f := fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "ledger"), kfake.GroupMinSessionTimeout(time.Second))
	c := dial(t, Config{Brokers: f.ListenAddrs()})
	first := join(t, c, time.Second, 3)
	if !(<-first.Elected()).Owner {
		t.Fatal("the only member is not elected")
	}
	first.owner.Store(true)
	second := join(t, c, time.Second, 2)
	if (<-second.Elected()).Owner || !(<-first.Elected()).Owner {
		t.Fatal("a member with less progress replaces the owner")
	}
	third := join(t, c, time.Second, 1000)
	if (<-third.Elected()).Owner || (<-second.Elected()).Owner || !(<-first.Elected()).Owner {
		t.Fatal("a member with more progress replaces the owner")
	}
	first.Leave()
	if !(<-third.Elected()).Owner || (<-second.Elected()).Owner {
		t.Fatal("after the owner has left, the member with the most progress is not elected")
	}
	third.Leave()
	if !(<-second.Elected()).Owner {
		t.Fatal("the last member is not elected")
	}
	second.Leave()
	second.Leave() // a second call does nothing
}

// TestSessionTimeoutRefused: a session time-out that the brokers refuse is a permanent
// error, which names the flag to change.
func TestSessionTimeoutRefused(t *testing.T) {
	f := fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "ledger"), kfake.GroupMinSessionTimeout(time.Second))
	m := join(t, dial(t, Config{Brokers: f.ListenAddrs()}), time.Millisecond, 0)
	defer m.Leave()
	if e := <-m.Elected(); e.Err == nil || !strings.Contains(e.Err.Error(), "--session-timeout") {
		t.Errorf("a session of 1 ms: error %v, want one that contains %q", e.Err, "--session-timeout")
	}
}
