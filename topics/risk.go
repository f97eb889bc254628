package topics

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
)

// Risk is a setting of a topic by which records will be lost that a graph needs.
type Risk struct {
	Topic, Setting, Value string
	Want                  string // the value that keeps them
}

// String returns the setting as topic: setting=value.
func (r Risk) String() string { return fmt.Sprintf("%s: %s=%s", r.Topic, r.Setting, r.Value) }

// Settings of topics that can lose records.
const (
	cleanupPolicy     = "cleanup.policy"
	retentionTime     = "retention.ms"
	retentionSize     = "retention.bytes"
	compressionType   = "compression.type"
	uncleanElection   = "unclean.leader.election.enable"
	minInSync         = kafka.MinInSync
	replicationFactor = "replication.factor" // which is not set, but comes of a reassignment
)

// replicated is how many brokers a cluster has at least, for topics to have as many replicas and
// transactions to wait for more than one of them.
const replicated = 3

// patience is the part of a topic's retention after which the oldest record that a base needs is at risk.
const patience = 2

// outlives reports whether a retention lasts for what is needed: there are bases, and the oldest record that they need is not old yet.
func outlives(retention string, needed map[string]time.Time, topic string) bool {
	ms, err := strconv.ParseInt(retention, 10, 64)
	since, some := needed[topic]
	return needed != nil && err == nil && (!some || time.Since(since) < time.Duration(ms)*time.Millisecond/patience)
}

// risksOf returns the settings of inputs and ledger by which records will be lost: deleted by
// age or size, or by compaction, which takes all but the newest of a key. The ledger's
// age too, however quiet the graph. The end of a log is lost with the broker that alone had it,
// or if one that lacks it may lead. That holds for predictions too, and for clusters of
// three brokers and more: others cannot do better. Inputs that are stored compressed may have batches that
// cannot be read, or that unpack to more than is read: they become dead letters. Topics
// whose settings may not be read are in unknown.
//
// With bases, since has the time of the oldest record of a topic that the oldest of them needs, and retention is a risk
// when that is half used up.
func risksOf(ctx context.Context, c *kafka.Client, n Names, since map[string]time.Time) (risks []Risk, unknown []string, err error) {
	inputs := []string{n.Nodes, n.Labels, n.Commands}
	needed := append(slices.Clone(inputs), n.Ledger)
	all := append(slices.Clone(needed), n.Predictions)
	configs, err := c.TopicConfigs(ctx, all, cleanupPolicy, retentionTime, retentionSize, compressionType, uncleanElection, minInSync)
	if err != nil {
		return nil, nil, err
	}
	brokers, replicas, err := c.Replicas(ctx, all...)
	if err != nil {
		return nil, nil, err
	}
	for _, topic := range all {
		set, known := configs[topic]
		if !known {
			unknown = append(unknown, topic)
			continue
		}
		check := func(setting, want string, wrong bool) {
			if wrong {
				risks = append(risks, Risk{topic, setting, set[setting], want})
			}
		}
		if brokers >= replicated {
			copies := replicas[topic].All
			set[replicationFactor] = strconv.Itoa(copies)
			check(replicationFactor, strconv.Itoa(replicated), copies < replicated)
			check(minInSync, "2", set[minInSync] == "1" && copies > 1)
			check(uncleanElection, "false", set[uncleanElection] == "true" && copies > 1)
		}
		if topic == n.Predictions {
			continue // consumers may have what age they want
		}
		policies := strings.Split(strings.ReplaceAll(set[cleanupPolicy], " ", ""), ",")
		deletes := slices.Contains(policies, "delete")
		check(cleanupPolicy, "delete", slices.Contains(policies, "compact"))
		check(retentionTime, "-1", deletes && set[retentionTime] != "-1" && !outlives(set[retentionTime], since, topic))
		check(retentionSize, "-1", deletes && set[retentionSize] != "-1")
		check(compressionType, "uncompressed", set[compressionType] != "uncompressed" && slices.Contains(inputs, topic))
	}
	return risks, unknown, nil
}

// NameCompaction adds to an error of a graph which of its topics are compacted, which may be why something is gone.
func NameCompaction(ctx context.Context, c *kafka.Client, n Names, err error) error {
	risks, _, wrong := risksOf(ctx, c, n, nil)
	for _, r := range risks {
		if wrong == nil && r.Setting == cleanupPolicy {
			err = fmt.Errorf("%w; %s has %s=%s, which takes records that are needed: set it to delete", err, r.Topic, r.Setting, r.Value)
		}
	}
	return err
}

// WatchRisks looks for risks now and then every so often, until the context ends. It logs one
// line when they have changed, and calls report each time. needed, if not nil, returns what [risksOf] takes.
func WatchRisks(ctx context.Context, c *kafka.Client, n Names, every time.Duration, log *slog.Logger,
	needed func(context.Context) (map[string]time.Time, error), report func([]Risk),
) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var before []Risk
	for first := true; ; first = false {
		var since map[string]time.Time
		var err error
		if needed != nil {
			since, err = needed(ctx)
		}
		var risks []Risk
		var unknown []string
		if err == nil {
			risks, unknown, err = risksOf(ctx, c, n, since)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Debug("the settings of topics cannot be read", "err", err)
		default:
			if first && len(unknown) > 0 {
				log.Info("the settings of topics may not be read, so nobody warns before records are lost: grant "+
					"DescribeConfigs", "topics", unknown)
			}
			if !slices.Equal(risks, before) {
				logRisks(log, risks)
			}
			before = risks
			report(risks)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func logRisks(log *slog.Logger, risks []Risk) {
	if len(risks) == 0 {
		log.Info("the topics are not set to lose records any more")
		return
	}
	var found, wanted []string
	for _, r := range risks {
		found = append(found, r.String())
		if want := r.Setting + "=" + r.Want; !slices.Contains(wanted, want) {
			wanted = append(wanted, want)
		}
	}
	log.Warn("topics are set to lose records that the graph needs", "settings", strings.Join(found, "; "), "set", strings.Join(wanted, " "))
}
