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
			known, err := c.catalog.of(ctx, topics, time.Time{})
			if err != nil {
				return err
			}
			for _, t := range known.topics {
				switch {
				case errors.Is(t.Error, kafkago.UnknownTopicOrPartition):
				case t.Error != nil:
					return fmt.Errorf("topic %s: %w", t.Name, t.Error)
				case c.view.seen(len(t.Partitions)) > 0:
					counts[t.Name] = c.view.seen(len(t.Partitions))
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
func (c *Client) TopicIDs(ctx context.Context, topics ...string) (ids map[string]string, err error) {
	if c.shared != nil {
		return c.shared.ids.get(ctx, topics, time.Time{}, func(ctx context.Context) (map[string]string,
			error,
		) {
			return c.topicIDs(ctx, topics)
		})
	}
	return c.topicIDs(ctx, topics)
}

// topicIDs asks for them now.
func (c *Client) topicIDs(ctx context.Context, topics []string) (map[string]string, error) {
	ids := make(map[string]string)
	err := c.retry(ctx, forever, func(ctx context.Context) error {
		apis, err := c.client.ApiVersions(ctx, &kafkago.ApiVersionsRequest{})
		if err != nil || !slices.ContainsFunc(apis.ApiKeys, func(k kafkago.ApiVersionsResponseApiKey) bool {
			return k.ApiKey == int(protocol.Metadata) && k.MaxVersion >= metadataVersion
		}) {
			return err
		}
		all, err := c.transport.ask(ctx, topics...)
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

// TopicConfigs returns the named settings of each topic, as they are in force, whether set on
// the topic or as the brokers' default. Topics that do not exist, and those whose settings
// this client may not read, are left out.
func (c *Client) TopicConfigs(ctx context.Context, topics []string, settings ...string) (map[string]map[string]string, error) {
	req := &kafkago.DescribeConfigsRequest{}
	for _, t := range topics {
		req.Resources = append(req.Resources, kafkago.DescribeConfigRequestResource{
			ResourceType: kafkago.ResourceTypeTopic, ResourceName: t, ConfigNames: settings,
		})
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
		leaders, err := c.catalog.leaders(ctx, []string{at.Topic}, time.Time{})
		if err != nil {
			return err
		}
		leader, err := leaderOf(at, leaders)
		if err != nil {
			return err
		}
		answer, err := c.transport.exchange(ctx, int32(leader), &kmsg.DeleteRecordsRequest{
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
