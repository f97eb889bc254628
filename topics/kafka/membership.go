package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// defaultSession is the session time-out of a member of an election.
const defaultSession = 10 * time.Second

// MembershipConfig configures a member of an election.
type MembershipConfig struct {
	// Group is the consumer group, and Topic a topic of one partition: the member to which the
	// group assigns that is the owner. It stays, and if there is none, the member with the most
	// progress is elected. With Cells, each partition of the topic has an owner, see [sharing].
	Group, Topic string
	// Session is the group's session time-out: a member without a heartbeat for
	// this long is dropped. Brokers allow 6 s to 30 min by default. Zero means
	// defaultSession.
	Session time.Duration
	// Standing returns where this member stands, or Cells where it stands in each partition that it has. They are called
	// from another goroutine.
	Standing func() Standing
	Cells    func() []CellStanding
	// NoStandbys says that cells are to have no standbys, but for those that are about to move. All members have to say so.
	NoStandbys bool
	// About is what this member says of itself to whoever asks for the members. It
	// has no part in an election. At most 1 KB.
	About string

	even *atomic.Bool // see Membership.Even
}

// Membership takes part in the elections of a group, from Join to Leave.
type Membership struct {
	group   *kafkago.ConsumerGroup
	elected chan Election // holds the newest outcome that was not received
	left    chan struct{} // closed when follow has returned
	again   chan struct{} // asks for another election; capacity 1
	even    atomic.Bool
}

// Election is the outcome of an election for this member.
type Election struct {
	Owner bool
	Err   error // permanent: the group does not accept this member

	Owns, Follows []int32 // the partitions that this member owns, and those that it stands by for
	Uneven        bool    // another's partitions cost more, and of all members this one is to ask for even shares
}

// Join makes this process a member of the group. Transient failures (brokers that
// are away, expired sessions) are logged and retried until Leave.
func (c *Client) Join(cfg MembershipConfig) (*Membership, error) {
	cfg.Session = cmp.Or(cfg.Session, defaultSession)
	m := &Membership{elected: make(chan Election, 1), left: make(chan struct{}), again: make(chan struct{}, 1)}
	cfg.even = &m.even
	group, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{
		ID: cfg.Group, Topics: []string{cfg.Topic}, Brokers: c.cfg.Brokers, Dialer: c.cfg.dialer(),
		GroupBalancers: []kafkago.GroupBalancer{cfg.balancer()},
		SessionTimeout: cfg.Session,
		// A member learns of a new election with its next heartbeat.
		HeartbeatInterval: min(cfg.Session/6, 500*time.Millisecond), RebalanceTimeout: cfg.Session,
		JoinGroupBackoff: min(cfg.Session/6, time.Second),
	})
	if err != nil {
		return nil, err
	}
	m.group = group
	go m.follow(&cfg, &pace{client: c})
	return m, nil
}

// follow publishes the outcome of every election until the group is closed.
func (m *Membership) follow(cfg *MembershipConfig, p *pace) {
	defer close(m.left)
	defer p.leave()
	for joined := false; ; {
		g, err := m.group.Next(context.Background())
		if errors.Is(err, kafkago.ErrGroupClosed) {
			return
		}
		switch {
		case err == nil:
			joined = true
			p.end()
			m.publish(electionOf(g.Assignments[cfg.Topic]))
			g.Start(func(ctx context.Context) {
				select {
				case <-ctx.Done():
				case <-m.again:
				}
			})
		case errors.Is(err, kafkago.InvalidSessionTimeout):
			m.publish(Election{Err: fmt.Errorf("group %s: a session of %v is outside the brokers' limits, by default "+
				"6s to 30m (group.min.session.timeout.ms): set --session-timeout", cfg.Group, cfg.Session)})
		case joined && denied(err) && (p.began.IsZero() || time.Since(p.began) < p.client.cfg.DialFor):
			p.fail(err) // it was allowed before
		case errors.Is(err, kafkago.InconsistentGroupProtocol):
			m.publish(Election{Err: foreign(p.client, cfg, err)})
		case refusedMember(err):
			m.publish(Election{Err: p.client.explainDenied(fmt.Errorf("group %s: %w", cfg.Group, cause(err)), "Read",
				"group and topic "+cfg.Group)})
		default:
			p.fail(err)
		}
	}
}

// Again asks for another election, in which others may have another outcome too.
func (m *Membership) Again() {
	select {
	case m.again <- struct{}{}:
	default:
	}
}

// Even is Again, and has partitions move to members with smaller shares, as far as these are ready for them.
func (m *Membership) Even() {
	m.even.Store(true)
	m.Again()
}

// publish replaces an outcome that was not received yet: only the newest counts.
func (m *Membership) publish(e Election) {
	select {
	case <-m.elected:
	default:
	}
	m.elected <- e
}

// refusedMember reports whether an error of joining the group is permanent. All
// others are retried, also those of a member that the group has dropped.
func refusedMember(err error) bool {
	return errors.Is(err, kafkago.GroupAuthorizationFailed) || errors.Is(err, kafkago.TopicAuthorizationFailed) ||
		errors.Is(err, kafkago.InvalidGroupId)
}

// foreign returns the error of a group that has a member which takes part in no election, with where that is.
func foreign(c *Client, cfg *MembershipConfig, err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.DialFor)
	defer cancel()
	where := "whose host brokers do not say"
	members, _ := c.Members(ctx, cfg.Group, cfg.Topic)
	for _, x := range members {
		if x.About == "" {
			where = fmt.Sprintf("client %.100q at %s", x.Client, x.Host)
		}
	}
	return fmt.Errorf("group %s has a member that is no worker of the graph, %s: end it, or give it a group of its own (%w)",
		cfg.Group, where, cause(err))
}

// Elected delivers the outcome of each election. Until the next outcome, an owner
// considers itself the owner. That is safe even when it no longer is: the next
// owner fences it before reading the ledger.
func (m *Membership) Elected() <-chan Election { return m.elected }

// leaveFor bounds Leave: a member that waits for an election cannot leave before
// it ends, and the brokers may not answer.
const leaveFor = 2 * time.Second

// Leave leaves the group, which then elects another owner without waiting for
// the session to expire. If that fails within leaveFor, the session expires.
func (m *Membership) Leave() {
	left := make(chan struct{})
	go func() {
		_ = m.group.Close() // on an error the session expires
		close(left)
	}()
	<-m.left
	limit := time.NewTimer(leaveFor)
	defer limit.Stop()
	select {
	case <-left:
	case <-limit.C:
	}
}
