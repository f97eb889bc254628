package kafka

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// rival is a member of an election with a fixed progress.
type rival struct {
	t *testing.T
	*Membership
	owner atomic.Bool // what Standing returns
}

func join(t *testing.T, c *Client, session time.Duration, progress int64) *rival {
	t.Helper()
	m := &rival{t: t}
	var err error
	m.Membership, err = c.Join(MembershipConfig{
		Group: "ledger", Topic: "ledger", Session: session,
		Standing: func() Standing { return Standing{m.owner.Load(), progress} },
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// elected waits for the next election, and reports whether it was for this member.
func (m *rival) elected() bool {
	m.t.Helper()
	e := kafkatest.Receive(m.t, m.Elected(), "the next election")
	return e.Owner
}

// TestElection: members that join do not replace an owner, even if they have more
// progress, because a change of owners costs time. When the owner leaves, the member
// with the most progress is elected, because it has the least to replay.
func TestElection(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c := dial(t, k, Config{})
		first := join(t, c, time.Second, 3)
		if !first.elected() {
			t.Fatal("the only member is not elected")
		}
		first.owner.Store(true)
		second := join(t, c, time.Second, 2)
		if second.elected() || !first.elected() {
			t.Fatal("a member with less progress replaces the owner")
		}
		third := join(t, c, time.Second, 1000)
		if third.elected() || second.elected() || !first.elected() {
			t.Fatal("a member with more progress replaces the owner")
		}
		first.Leave()
		if !third.elected() || second.elected() {
			t.Fatal("after the owner has left, the member with the most progress is not elected")
		}
		third.Leave()
		if !second.elected() {
			t.Fatal("the last member is not elected")
		}
		second.Leave()
		second.Leave() // a second call does nothing
	}, kfake.NumBrokers(1), kfake.SeedTopics(1, "ledger"), kfake.GroupMinSessionTimeout(time.Second))
}

// TestSessionTimeoutRefused: a session time-out that the brokers refuse is a permanent
// error, which names the flag to change.
func TestSessionTimeoutRefused(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		m := join(t, dial(t, k, Config{}), time.Millisecond, 0)
		defer m.Leave()
		if e := kafkatest.Receive(t, m.Elected(), "an answer about the session"); e.Err == nil || !strings.Contains(e.Err.Error(), "--session-timeout") {
			t.Errorf("a session of 1 ms: error %v, want one that contains %q", e.Err, "--session-timeout")
		}
	}, kfake.NumBrokers(1), kfake.SeedTopics(1, "ledger"), kfake.GroupMinSessionTimeout(time.Second))
}

// TestForeignMember: a consumer that is no worker, of a program of today, is in the group already. Who joins does not wait for ever, but
// names it.
func TestForeignMember(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c := dial(t, k, Config{})
		if _, err := c.CreateTopics(t.Context(), TopicSpec{Name: "ledger", Partitions: 1, Replication: 1}); err != nil {
			t.Fatal(err)
		}
		assigned := make(chan bool, 1)
		franzClient(t, c, kgo.ClientID("a-dashboard"), kgo.ConsumerGroup("ledger"), kgo.ConsumeTopics("ledger"), kgo.SessionTimeout(time.Second),
			kgo.HeartbeatInterval(100*time.Millisecond),
			kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { assigned <- true }))
		kafkatest.Receive(t, assigned, "the consumer's partition")
		worker := join(t, dial(t, k, Config{ClientID: "gvbll-work"}), time.Second, 3)
		defer worker.Leave()
		e := kafkatest.Receive(t, worker.Elected(), "the election")
		checkErrorLine(t, e.Err, `group ledger has a member that is no worker of the graph, client "a-dashboard" at `)
	}, kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second))
}
