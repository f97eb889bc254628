package kafka

import (
	"context"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"
)

// Member is a member of an election, as others see it.
type Member struct {
	Host  string // that it connects from, as the broker writes it
	Owner bool   // the newest election was for it
	About string // what it says of itself, see MembershipConfig
}

// Members returns who takes part in an election, none if nobody does. It changes
// nothing, and need not take part.
func (c *Client) Members(ctx context.Context, group, topic string) (members []Member, err error) {
	err = c.retry(ctx, c.cfg.DialFor, func(ctx context.Context) error {
		members = nil
		res, err := c.client.DescribeGroups(ctx, &kafkago.DescribeGroupsRequest{GroupIDs: []string{group}})
		if err != nil {
			return err
		}
		for _, g := range res.Groups {
			if g.Error != nil {
				return fmt.Errorf("group %s: %w", group, g.Error)
			}
			for i := range g.Members {
				members = append(members, memberOf(&g.Members[i], topic))
			}
		}
		return nil
	})
	return members, err
}

func memberOf(m *kafkago.DescribeGroupsResponseMember, topic string) Member {
	member := Member{Host: m.ClientHost}
	for _, t := range m.MemberAssignments.Topics {
		member.Owner = member.Owner || t.Topic == topic && len(t.Partitions) > 0
	}
	if data := m.MemberMetadata.UserData; len(data) > standingBytes {
		member.About = string(data[standingBytes:])
	}
	return member
}

// Committed returns a group's committed offset of every partition that has one.
func (c *Client) Committed(ctx context.Context, group string, topics ...string) (offsets map[TopicPartition]int64, err error) {
	counts, err := c.Partitions(ctx, topics...)
	if err != nil || len(counts) == 0 {
		return nil, err
	}
	req := &kafkago.OffsetFetchRequest{GroupID: group, Topics: make(map[string][]int)}
	for t, n := range counts {
		for p := range n {
			req.Topics[t] = append(req.Topics[t], p)
		}
	}
	err = c.retry(ctx, c.cfg.DialFor, func(ctx context.Context) error {
		offsets = make(map[TopicPartition]int64)
		res, err := c.client.OffsetFetch(ctx, req)
		if err != nil {
			return err
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
