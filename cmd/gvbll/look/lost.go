package look

import (
	"context"
	"errors"
	"fmt"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// Of the ledger's newest windows, so many offsets and as many predictions as this are compared.
const (
	offsetsCompared     = 1000
	predictionsCompared = 10_000
)

// lostPredictions says how many of the newest predictions in the ledger
// the topic does not have, "" if it has all. What retention took does not count.
func lostPredictions(ctx context.Context, g Graph) (string, error) {
	windows, err := newestWindows(ctx, g)
	if err != nil || len(windows) == 0 {
		return "", err
	}
	// Brokers show the end of a transaction in one partition before another.
	const tries, pause = 3, time.Second
	for try := 1; ; try++ {
		had, lost, err := g.comparePredictions(ctx, windows)
		if errors.Is(err, kafkago.TopicAuthorizationFailed) {
			return "", nil
		}
		if lost <= 0 || err != nil {
			return "", err
		}
		if try == tries {
			return fmt.Sprintf("of the %d predictions of windows %d to %d, %s has lost %d: 'gvbll audit' names the "+
				"first; restore the topic from a backup or a mirror, no worker publishes them again", had,
				windows[0].Window, windows[len(windows)-1].Window, g.Names.Predictions, lost), nil
		}
		if err := kafka.Sleep(ctx, pause); err != nil {
			return "", err
		}
	}
}

// newestWindows returns the ledger's newest windows that are compared.
func newestWindows(ctx context.Context, g Graph) (windows []*ledger.Record, err error) {
	at := g.Names.LedgerAt()
	bounds, err := BoundsOf(ctx, g.Client, at.Topic)
	if err != nil {
		return nil, err
	}
	l, err := ledger.OpenAt(ctx, g.Client, at, bounds[at].End-offsetsCompared)
	if err != nil {
		return nil, err
	}
	sum := 0
	for {
		r, err := l.Next(ctx)
		if r == nil || err != nil {
			return windows, err
		}
		for windows, sum = append(windows, r), sum+r.Predictions+r.Revisions; sum > predictionsCompared &&
			len(windows) > 1; windows = windows[1:] {
			sum -= windows[0].Predictions + windows[0].Revisions
		}
	}
}

// comparePredictions returns how many predictions the ledger has in the windows, and how many of
// them are not in the topic: none where retention may have taken them.
func (g Graph) comparePredictions(ctx context.Context, windows []*ledger.Record) (had, lost int, err error) {
	bounds, err := g.Client.Offsets(ctx, g.Names.Predictions)
	if err != nil {
		return 0, 0, err
	}
	from, err := g.Client.OffsetsAt(ctx, g.Names.Predictions, windows[0].Stepped)
	if err != nil {
		return 0, 0, err
	}
	for at, b := range bounds {
		if b.First > 0 && from[at] <= b.First {
			return 0, 0, nil
		}
	}
	there := make(map[int64]int) // by window
	err = g.Client.ReadTo(ctx, from, bounds, func(r *kafka.Record) bool {
		var p event.Prediction
		if wire.DecodePrediction(r.Value, &p) == nil {
			there[p.Window]++
		}
		return true
	})
	for _, r := range windows {
		n := r.Predictions + r.Revisions
		had, lost = had+n, lost+max(n-there[r.Window], 0)
	}
	return had, lost, err
}

// refusal says why no worker of a graph with so many windows starts, as far as the logs tell: "" if they do not.
func refusal(ctx context.Context, g Graph, windows int64) (string, error) {
	if windows == 0 {
		var gone *topics.GoneError
		if err := topics.CheckLedger(ctx, g.Client, g.Names); !errors.As(err, &gone) {
			return "", err
		}
		return gone.Error(), nil
	}
	newest, err := newestWindows(ctx, g)
	if err != nil {
		return "", err
	}
	consumed := make(map[kafka.TopicPartition]int64)
	for _, r := range newest {
		if r.Begins != nil {
			clear(consumed) // the inputs may be copies since
		}
		for _, x := range r.Ranges {
			consumed[kafka.TopicPartition{Topic: x.Topic, Partition: x.Partition}] = x.To
		}
	}
	bounds, err := g.Client.Offsets(ctx, g.Names.Nodes, g.Names.Labels, g.Names.Commands)
	if err != nil {
		return "", err
	}
	for at, offset := range consumed {
		if b, there := bounds[at]; there && offset > b.End {
			return (&kafka.OutOfRangeError{At: at, Position: offset - 1, Bounds: b}).Error(), nil
		}
	}
	return "", nil
}

// withheld says which producer has had a transaction open for long in an input, "" if none is known to.
func (g Graph) withheld(ctx context.Context, now time.Time) (string, error) {
	open, err := g.Client.OpenTransactions(ctx, now.Add(-longOpen), g.Names.Nodes, g.Names.Labels, g.Names.Commands)
	if len(open) == 0 || err != nil {
		return "", err
	}
	x := open[0]
	return fmt.Sprintf("%s partition %d: a producer (id %d) has a transaction open, and sent its last record %s ago: nobody gets "+
		"what is behind it", x.At.Topic, x.At.Partition, x.Producer, roughly(now.Sub(x.Since))), nil
}
