package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// MembershipConfig says how to stand for the ownership of a partition.
type MembershipConfig struct {
	// Group is the consumer group, Topic a topic of one partition: whom the
	// group gives that partition is the owner.
	Group, Topic string
	// Session is after how long without a sign of life the group drops a
	// member. The brokers have bounds, by default 6 s to 30 min. Zero means 10 s.
	Session time.Duration
	// Standing tells, when the group elects, whether this member is the owner
	// already, and how far it is: an owner stays one, and else who is furthest
	// becomes it. It is called from another goroutine.
	Standing func() (owner bool, progress int64)
}

// Membership is a member's place in the election.
type Membership struct {
	group   *kafkago.ConsumerGroup
	elected chan Election
	left    chan struct{}
}

// Election is the outcome of one, for one member.
type Election struct {
	Owner bool
	Err   error // the group does not take this member, and will not
}

// Join enters the election. What goes wrong meanwhile and may pass (brokers that
// are away, sessions that expire) is logged and tried again until Leave.
func (c *Client) Join(cfg MembershipConfig) (*Membership, error) {
	if cfg.Session == 0 {
		cfg.Session = 10 * time.Second
	}
	group, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{
		ID: cfg.Group, Topics: []string{cfg.Topic}, Brokers: c.cfg.Brokers, Dialer: c.Dialer(),
		GroupBalancers: []kafkago.GroupBalancer{balancer{cfg.Topic, cfg.Standing}},
		SessionTimeout: cfg.Session,
		// A member hears of an election with its next heartbeat.
		HeartbeatInterval: min(cfg.Session/6, 500*time.Millisecond), RebalanceTimeout: cfg.Session,
		JoinGroupBackoff: min(cfg.Session/6, time.Second),
	})
	if err != nil {
		return nil, err
	}
	m := &Membership{group: group, elected: make(chan Election, 1), left: make(chan struct{})}
	go m.follow(cfg, pace{client: c, began: time.Now()})
	return m, nil
}

// follow tells of the outcome of every election.
func (m *Membership) follow(cfg MembershipConfig, p pace) {
	defer close(m.left)
	for {
		g, err := m.group.Next(context.Background())
		if errors.Is(err, kafkago.ErrGroupClosed) {
			return
		}
		switch {
		case err == nil:
			p.began = time.Now()
			m.tell(Election{Owner: len(g.Assignments[cfg.Topic]) > 0})
		case errors.Is(err, kafkago.InvalidSessionTimeout):
			m.tell(Election{Err: fmt.Errorf("group %s: a session of %v is outside of what the brokers allow, by default 6s to 30m (group.min.session.timeout.ms): set --session-timeout", cfg.Group, cfg.Session)})
		case refusedMember(err):
			m.tell(Election{Err: fmt.Errorf("group %s: %w", cfg.Group, cause(err))})
		default:
			p.tell(err)
		}
	}
}

// tell puts the outcome in the place of the one before: only the last counts.
func (m *Membership) tell(e Election) {
	select {
	case <-m.elected:
	default:
	}
	m.elected <- e
}

// refusedMember tells an error of joining a group that stays. Every other is
// waited out, also those of a member that was forgotten meanwhile.
func refusedMember(err error) bool {
	return errors.Is(err, kafkago.GroupAuthorizationFailed) || errors.Is(err, kafkago.TopicAuthorizationFailed) ||
		errors.Is(err, kafkago.InconsistentGroupProtocol) || errors.Is(err, kafkago.InvalidGroupId)
}

// Elected tells after an election whether this member is the owner. Who was and
// hears nothing still is, as far as is known; what it commits is safe in any
// case, since the next owner fences it first.
func (m *Membership) Elected() <-chan Election { return m.elected }

// leaveFor bounds the leaving: a member that waits for an election cannot say
// that it leaves before that is over, and no broker may answer.
const leaveFor = 2 * time.Second

// Leave has the group elect another without waiting for the session to expire,
// if the group can be told in time.
func (m *Membership) Leave() {
	left := make(chan struct{})
	go func() {
		_ = m.group.Close() // says nothing of interest: the session expires
		close(left)
	}()
	<-m.left
	patience := time.NewTimer(leaveFor)
	defer patience.Stop()
	select {
	case <-left:
	case <-patience.C:
	}
}

// balancer gives the topic's one partition to who owns it already, or else to
// the member that is furthest.
type balancer struct {
	topic    string
	standing func() (bool, int64)
}

func (balancer) ProtocolName() string { return "furthest" }

func (b balancer) UserData() ([]byte, error) {
	owner, progress := b.standing()
	data := []byte{0}
	if owner {
		data[0] = 1
	}
	return binary.BigEndian.AppendUint64(data, uint64(progress)), nil
}

func (b balancer) AssignGroups(members []kafkago.GroupMember, _ []kafkago.Partition) kafkago.GroupMemberAssignments {
	best := slices.MaxFunc(members, func(a, b kafkago.GroupMember) int { return slices.Compare(a.UserData, b.UserData) })
	all := make(kafkago.GroupMemberAssignments)
	for _, m := range members {
		all[m.ID] = map[string][]int{}
	}
	all[best.ID][b.topic] = []int{0}
	return all
}
