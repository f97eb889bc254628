package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// DefaultSession is the session time-out of a member of an election.
const DefaultSession = 10 * time.Second

// MembershipConfig configures a member of an election.
type MembershipConfig struct {
	// Group is the consumer group, and Topic a topic with one partition for each task: the
	// member to which the group assigns that partition owns the task.
	Group, Topic string
	// Tasks is the number of the topic's partitions; zero means 1.
	Tasks int
	// Followers is a topic with at least one partition more, by which the group tells
	// members for which task to stand by; empty if all stand by for all.
	Followers string
	// Divide divides the tasks among the members of an election, of which it gets the standings
	// in each task, and returns what each is given. If it is nil there is one task: it stays
	// with its owner and, if there is none, goes to the member with the most progress.
	Divide func(members [][]Standing) []Election
	// Session is the group's session time-out: a member without a heartbeat for
	// this long is dropped. Brokers allow 6 s to 30 min by default. Zero means
	// DefaultSession.
	Session time.Duration
	// Standings returns where this member stands in each task. It is called from another
	// goroutine.
	Standings func() []Standing
	// About is what this member says of itself to whoever asks for the members. It
	// has no part in an election. At most 1 KB.
	About string
}

func (c *MembershipConfig) tasks() int { return max(c.Tasks, 1) }

// Membership takes part in the elections of a group, from Join to Leave.
type Membership struct {
	group   *kafkago.ConsumerGroup
	elected chan Election // holds the newest outcome that was not received
	again   chan struct{} // holds a request for another election
	left    chan struct{} // closed when follow has returned
}

// Election is the outcome of an election for this member.
type Election struct {
	Tasks   []int // that this member owns, ascending
	Follows []int // those that it stands by for, one at most
	// Relieves says that the member stands by for a task of which the owner has more than
	// its share. The next election gives it the task if it has come close: see Rejoin.
	Relieves bool
	Err      error // permanent: the group does not accept this member
}

// Owns reports whether this member owns the task.
func (e *Election) Owns(task int) bool { return slices.Contains(e.Tasks, task) }

// Join makes this process a member of the group. Transient failures (brokers that
// are away, expired sessions) are logged and retried until Leave.
func (c *Client) Join(cfg MembershipConfig) (*Membership, error) {
	cfg.Session = cmp.Or(cfg.Session, DefaultSession)
	subscribed := []string{cfg.Topic}
	if cfg.Followers != "" {
		subscribed = append(subscribed, cfg.Followers)
	}
	group, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{
		ID: cfg.Group, Topics: subscribed, Brokers: c.cfg.Brokers, Dialer: c.dialer(),
		GroupBalancers: []kafkago.GroupBalancer{balancer{&cfg}},
		SessionTimeout: cfg.Session,
		// A member learns of a new election with its next heartbeat.
		HeartbeatInterval: min(cfg.Session/6, 500*time.Millisecond), RebalanceTimeout: cfg.Session,
		JoinGroupBackoff: min(cfg.Session/6, time.Second),
	})
	if err != nil {
		return nil, err
	}
	m := &Membership{group: group, elected: make(chan Election, 1), again: make(chan struct{}, 1), left: make(chan struct{})}
	go m.follow(&cfg, &pace{client: c})
	return m, nil
}

// follow publishes the outcome of every election until the group is closed.
func (m *Membership) follow(cfg *MembershipConfig, p *pace) {
	defer close(m.left)
	defer p.leave()
	for {
		g, err := m.group.Next(context.Background())
		if errors.Is(err, kafkago.ErrGroupClosed) {
			return
		}
		switch {
		case err == nil:
			p.end()
			select {
			case <-m.again: // this is the election that was asked for
			default:
			}
			m.publish(outcome(g, cfg))
			g.Start(func(ctx context.Context) {
				select {
				case <-m.again:
				case <-ctx.Done():
				}
			})
		case errors.Is(err, kafkago.InvalidSessionTimeout):
			m.publish(Election{Err: fmt.Errorf("group %s: a session of %v is outside the brokers' limits, by default 6s to 30m (group.min.session.timeout.ms): set --session-timeout", cfg.Group, cfg.Session)})
		case refusedMember(err):
			m.publish(Election{Err: fmt.Errorf("group %s: %w", cfg.Group, cause(err))})
		default:
			p.fail(err)
		}
	}
}

// outcome returns what the group has assigned to this member.
func outcome(g *kafkago.Generation, cfg *MembershipConfig) (e Election) {
	for _, a := range g.Assignments[cfg.Topic] {
		e.Tasks = append(e.Tasks, a.ID)
	}
	slices.Sort(e.Tasks)
	for _, a := range g.Assignments[cfg.Followers] {
		if a.ID == cfg.tasks() {
			e.Relieves = true
		} else {
			e.Follows = append(e.Follows, a.ID)
		}
	}
	return e
}

// Rejoin asks for another election, in which this member's standings are what they are now.
func (m *Membership) Rejoin() {
	select {
	case m.again <- struct{}{}:
	default:
	}
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
		errors.Is(err, kafkago.InconsistentGroupProtocol) || errors.Is(err, kafkago.InvalidGroupId)
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
