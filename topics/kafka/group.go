package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// member is a member of an election, as others see it.
type member struct {
	Host          string  // that it connects from, as the broker writes it
	Client        string  // its client id
	Owner         bool    // by the newest election
	Owns, Follows []int32 // likewise, by partition
	About         string  // what it says of itself, see MembershipConfig
}

// Members returns who takes part in an election, none if nobody does. It changes
// nothing, and need not take part. While an election is on, it waits for its outcome, for
// DialFor at most.
func (c *Client) Members(ctx context.Context, group, topic string) ([]member, error) {
	for began := time.Now(); ; {
		members, settled, err := membersNow(ctx, c, group, topic)
		if err != nil || settled || time.Since(began) >= c.cfg.DialFor {
			return members, err
		}
		if err := Sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// membersNow asks once. settled is whether no election is on; brokers do not tell what
// members say of themselves during one.
func membersNow(ctx context.Context, c *Client, group, topic string) (members []member, settled bool, err error) {
	err = c.retry(ctx, c.cfg.DialFor, func(ctx context.Context) error {
		members, settled = nil, true
		key := findcoordinator.Request{Key: group, KeyType: int8(kafkago.CoordinatorKeyTypeConsumer)}
		coordinator, err := c.transport.find(ctx, c.transport.addr, key)
		if err != nil {
			return fmt.Errorf("group %s: %w", group, err)
		}
		// kafka-go does not read what members of other programs say of themselves.
		answer, err := c.transport.exchange(ctx, coordinator, &kmsg.DescribeGroupsRequest{Groups: []string{group}}, nil)
		if err != nil {
			return err
		}
		for _, g := range answer.Response.(*kmsg.DescribeGroupsResponse).Groups {
			if code := kafkago.Error(g.ErrorCode); code != 0 && code != kafkago.GroupIdNotFound {
				return fmt.Errorf("group %s: %w", group, code)
			}
			settled = g.State != "PreparingRebalance" && g.State != "CompletingRebalance"
			for i := range g.Members {
				members = append(members, memberOf(&g.Members[i], topic))
			}
		}
		return nil
	})
	return members, settled, err
}

func memberOf(m *kmsg.DescribeGroupsResponseGroupMember, topic string) member {
	member := member{Host: m.ClientHost, Client: m.ClientID}
	var assigned kmsg.ConsumerMemberAssignment
	var says kmsg.ConsumerMemberMetadata
	_, _ = assigned.ReadFrom(m.MemberAssignment), says.ReadFrom(m.ProtocolMetadata) // any program may join the group
	for _, t := range assigned.Topics {
		if t.Topic == topic {
			member.Owns, member.Follows, _ = divideAssigned(t.Partitions)
			member.Owner = len(member.Owns) > 0
		}
	}
	_, member.About = readStanding(says.UserData)
	return member
}

// Committed returns a group's committed offset of every partition that has one. It waits for the group's coordinator until the
// context ends.
func (c *Client) Committed(ctx context.Context, group string, topics ...string) (offsets map[TopicPartition]int64, err error) {
	counts, err := c.Partitions(ctx, topics...)
	if err != nil || len(counts) == 0 {
		return nil, err
	}
	req := &kafkago.OffsetFetchRequest{GroupID: group, Topics: make(map[string][]int)}
	for t, n := range counts {
		for p := range n {
			req.Topics[t] = append(req.Topics[t], c.view.first()+p)
		}
	}
	err = c.retry(ctx, forever, func(ctx context.Context) error {
		offsets = make(map[TopicPartition]int64)
		res, err := c.client.OffsetFetch(ctx, req)
		if err != nil {
			return err
		}
		if errors.Is(res.Error, kafkago.GroupIdNotFound) { // nothing was ever committed
			return nil
		}
		if res.Error != nil {
			return fmt.Errorf("offsets of group %s: %w", group, res.Error)
		}
		for t, parts := range res.Topics {
			for _, p := range parts {
				if p.Error != nil {
					return fmt.Errorf("offsets of group %s: %s partition %d: %w", group, t, p.Partition, p.Error)
				}
				if p.CommittedOffset >= 0 {
					offsets[TopicPartition{t, int32(p.Partition)}] = p.CommittedOffset
				}
			}
		}
		return nil
	})
	return offsets, err
}
