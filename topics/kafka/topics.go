package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Partitions returns the number of partitions of each topic, see [Client.Cell]. Topics that do not
// exist are left out.
func (c *Client) Partitions(ctx context.Context, topics ...string) (map[string]int, error) {
	counts := make(map[string]int)
	if len(topics) == 0 {
		return counts, nil // a request without names asks for all topics
	}
	for again := false; ; again = true {
		err := c.retry(ctx, forever, func(ctx context.Context) error {
			m, err := c.metadata(ctx, topics)
			if err != nil {
				return err
			}
			for _, t := range m.Topics {
				switch {
				case errors.Is(t.Error, kafkago.UnknownTopicOrPartition):
				case t.Error != nil:
					return fmt.Errorf("topic %s: %w", t.Name, t.Error)
				case c.seen(len(t.Partitions)) > 0:
					counts[t.Name] = c.seen(len(t.Partitions))
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		absent := slices.ContainsFunc(topics, func(t string) bool { _, ok := counts[t]; return !ok })
		if !absent || again {
			return counts, nil
		}
		// The cached metadata may be older than the topic.
		if err := Sleep(ctx, metadataTTL); err != nil {
			return nil, err
		}
	}
}

// TopicIDs returns the id of each topic, which changes when a topic is created anew. Topics
// that do not exist are left out, and all of them if the brokers have no ids (before
// Kafka 2.8).
func (c *Client) TopicIDs(ctx context.Context, topics ...string) (map[string]string, error) {
	ids := make(map[string]string)
	err := c.retry(ctx, forever, func(ctx context.Context) error {
		apis, err := c.client.ApiVersions(ctx, &kafkago.ApiVersionsRequest{})
		if err != nil || !slices.ContainsFunc(apis.ApiKeys, func(k kafkago.ApiVersionsResponseApiKey) bool {
			return k.ApiKey == int(protocol.Metadata) && k.MaxVersion >= metadataVersion
		}) {
			return err
		}
		all, err := c.ask(ctx, topics...)
		for name, t := range all {
			if t.id != "" {
				ids[name] = t.id
			}
		}
		return err
	})
	return ids, err
}

// ClusterID returns the id of the cluster, which it keeps for ever.
func (c *Client) ClusterID(ctx context.Context) (id string, err error) {
	err = c.retry(ctx, forever, func(ctx context.Context) error {
		r, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{}})
		if err == nil {
			id = r.ClusterID
		}
		return err
	})
	return id, err
}

// TopicSpec describes a topic to create. Replication -1 means the broker's
// default.
type TopicSpec struct {
	Name        string
	Partitions  int
	Replication int
	Config      map[string]string
}

// CreateTopics creates the topics that do not exist, waits until every partition
// has a leader, and returns the names of the topics it created. It does not
// change existing topics.
func (c *Client) CreateTopics(ctx context.Context, specs ...TopicSpec) ([]string, error) {
	req := &kafkago.CreateTopicsRequest{}
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
		t := kafkago.TopicConfig{Topic: s.Name, NumPartitions: s.Partitions, ReplicationFactor: s.Replication}
		for _, k := range slices.Sorted(maps.Keys(s.Config)) {
			t.ConfigEntries = append(t.ConfigEntries, kafkago.ConfigEntry{ConfigName: k, ConfigValue: s.Config[k]})
		}
		req.Topics = append(req.Topics, t)
	}
	created := make(map[string]bool)
	err := c.retry(ctx, forever, func(ctx context.Context) error {
		res, err := c.client.CreateTopics(ctx, req)
		if err != nil {
			return err
		}
		var errs []error
		for _, name := range names {
			switch err := res.Errors[name]; {
			case err == nil:
				created[name] = true
			case !errors.Is(err, kafkago.TopicAlreadyExists):
				errs = append(errs, fmt.Errorf("topic %s cannot be created: %w", name, err))
			}
		}
		return worst(errs)
	})
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !created[n] })
	return list, c.retry(ctx, forever, func(ctx context.Context) error {
		m, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: names})
		if err != nil {
			return err
		}
		for _, t := range m.Topics {
			if t.Error != nil {
				return fmt.Errorf("topic %s: %w", t.Name, t.Error)
			}
			for _, p := range t.Partitions {
				if p.Leader.Host == "" {
					return fmt.Errorf("%s partition %d: %w", t.Name, p.ID, kafkago.LeaderNotAvailable)
				}
			}
		}
		return nil
	})
}

// AddPartitions adds partitions to topics, so that each has so many, and waits until they are seen.
func (c *Client) AddPartitions(ctx context.Context, counts map[string]int) error {
	if len(counts) == 0 {
		return nil
	}
	req := &kafkago.CreatePartitionsRequest{}
	names := slices.Sorted(maps.Keys(counts))
	for _, name := range names {
		req.Topics = append(req.Topics, kafkago.TopicPartitionsConfig{Name: name, Count: int32(counts[name])})
	}
	return c.retry(ctx, forever, func(ctx context.Context) error {
		have, err := c.Partitions(ctx, names...)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(names, func(name string) bool { return have[name] < counts[name] }) {
			return nil
		}
		res, err := c.client.CreatePartitions(ctx, req)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := res.Errors[name]; err != nil && !errors.Is(err, kafkago.InvalidPartitionNumber) { // it has as many
				return fmt.Errorf("topic %s: adding partitions: %w", name, err)
			}
		}
		return kafkago.LeaderNotAvailable // until the metadata has them
	})
}

// Bounds are the offsets First ≤ offset < End that a read-committed reader can
// get: End is the last stable offset.
type Bounds struct{ First, End int64 }

// Offsets returns the bounds of all partitions of the topics. Topics that do not
// exist are left out.
func (c *Client) Offsets(ctx context.Context, topics ...string) (map[TopicPartition]Bounds, error) {
	counts, err := c.Partitions(ctx, topics...)
	if err != nil || len(counts) == 0 {
		return nil, err
	}
	bounds := make(map[TopicPartition]Bounds)
	err = c.listOffsets(ctx, counts, func(at TopicPartition, p *kafkago.PartitionOffsets) {
		bounds[at] = Bounds{p.FirstOffset, p.LastOffset}
	}, kafkago.FirstOffsetOf, kafkago.LastOffsetOf)
	return bounds, err
}

// OffsetsAt returns, for each partition of a topic, the offset of the first record that
// is not older than the time, or the end if there is none. The brokers search by the
// records' timestamps.
func (c *Client) OffsetsAt(ctx context.Context, topic string, since time.Time) (map[TopicPartition]int64, error) {
	counts, err := c.Partitions(ctx, topic)
	if err != nil || len(counts) == 0 {
		return nil, err
	}
	offsets := make(map[TopicPartition]int64)
	// Two requests: where no record is found, kafka-go takes the answer to the second
	// for one to the first.
	err = c.listOffsets(ctx, counts, func(at TopicPartition, p *kafkago.PartitionOffsets) {
		offsets[at] = p.LastOffset
	}, kafkago.LastOffsetOf)
	if err != nil {
		return nil, err
	}
	err = c.listOffsets(ctx, counts, func(at TopicPartition, p *kafkago.PartitionOffsets) {
		for found := range p.Offsets {
			if found >= 0 { // some brokers answer with -1 where there is none
				offsets[at] = found
			}
		}
	}, func(p int) kafkago.OffsetRequest { return kafkago.TimeOffsetOf(p, since) })
	return offsets, err
}

// listOffsets makes the requests for every partition and calls each for the answers.
// counts are the numbers of partitions by topic.
func (c *Client) listOffsets(ctx context.Context, counts map[string]int,
	each func(TopicPartition, *kafkago.PartitionOffsets), requests ...func(partition int) kafkago.OffsetRequest,
) error {
	req := &kafkago.ListOffsetsRequest{Topics: make(map[string][]kafkago.OffsetRequest), IsolationLevel: kafkago.ReadCommitted}
	for t, n := range counts {
		for p := range n {
			for _, request := range requests {
				req.Topics[t] = append(req.Topics[t], request(c.first()+p))
			}
		}
	}
	return c.retry(ctx, forever, func(ctx context.Context) error {
		res, err := c.client.ListOffsets(ctx, req)
		if err != nil {
			return err
		}
		for t, parts := range res.Topics {
			for i := range parts {
				p := &parts[i]
				if errors.Is(p.Error, kafkago.Unknown) {
					// kafka-go's error for a leader that did not answer.
					p.Error = kafkago.LeaderNotAvailable
				}
				if p.Error != nil {
					return fmt.Errorf("offsets of %s partition %d: %w", t, p.Partition, p.Error)
				}
				each(TopicPartition{t, int32(p.Partition)}, p)
			}
		}
		return nil
	})
}

// HasRecords reports whether a topic has, or has had and deleted, a committed record. One that
// does not exist has none.
func (c *Client) HasRecords(ctx context.Context, topic string) (found bool, err error) {
	bounds, err := c.Offsets(ctx, topic)
	if err != nil {
		return false, err
	}
	start := make(map[TopicPartition]int64)
	for at, b := range bounds {
		if b.First > 0 {
			return true, nil
		}
		start[at] = 0
	}
	err = c.ReadTo(ctx, start, bounds, func(*Record) bool {
		found = true
		return false
	})
	return found, err
}

// TopicConfigs returns the named settings of each topic, as they are in force, whether set on
// the topic or as the brokers' default. Topics that do not exist, and those whose settings
// this client may not read, are left out.
func (c *Client) TopicConfigs(ctx context.Context, topics []string, settings ...string) (map[string]map[string]string, error) {
	req := &kafkago.DescribeConfigsRequest{}
	for _, t := range topics {
		req.Resources = append(req.Resources, kafkago.DescribeConfigRequestResource{ResourceType: kafkago.ResourceTypeTopic, ResourceName: t, ConfigNames: settings})
	}
	configs := make(map[string]map[string]string)
	err := c.retry(ctx, forever, func(ctx context.Context) error {
		res, err := c.client.DescribeConfigs(ctx, req)
		if err != nil {
			return err
		}
		for _, r := range res.Resources {
			switch {
			case errors.Is(r.Error, kafkago.TopicAuthorizationFailed), errors.Is(r.Error, kafkago.UnknownTopicOrPartition):
				continue
			case r.Error != nil:
				return fmt.Errorf("settings of topic %s: %w", r.ResourceName, r.Error)
			}
			configs[r.ResourceName] = make(map[string]string)
			for _, e := range r.ConfigEntries {
				configs[r.ResourceName][e.ConfigName] = e.ConfigValue
			}
		}
		return nil
	})
	return configs, err
}

// DeleteRecords deletes the records of a partition before an offset.
func (c *Client) DeleteRecords(ctx context.Context, at TopicPartition, before int64) error {
	const within = 30 * time.Second
	return c.retry(ctx, within, func(ctx context.Context) error {
		leaders, err := c.leaders(ctx, []string{at.Topic})
		if err != nil {
			return err
		}
		leader, err := leaderOf(at, leaders)
		if err != nil {
			return err
		}
		answer, err := c.exchange(ctx, int32(leader), &kmsg.DeleteRecordsRequest{
			Topics: []kmsg.DeleteRecordsRequestTopic{{
				Topic:      at.Topic,
				Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: at.Partition, Offset: before}},
			}},
			TimeoutMillis: int32(within / time.Millisecond),
		}, nil)
		if err != nil {
			return err
		}
		for _, t := range answer.Response.(*kmsg.DeleteRecordsResponse).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return fmt.Errorf("deleting the records of %s partition %d before offset %d: %w", at.Topic,
						at.Partition, before, kafkago.Error(p.ErrorCode))
				}
			}
		}
		return nil
	})
}
