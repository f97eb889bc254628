package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gvbll/gvbll/topics/kafka"
)

// ShortError reports that a ledger ends before windows that were committed: its log has lost
// its end, or an older state of it was restored. A worker that went on would predict nodes a
// second time, and write behind a hole.
type ShortError struct {
	Ledger string
	First  int64    // window that the ledger lost
	Last   int64    // the last one that is known to be lost; before First if none is known by its number
	Found  []string // what shows it, in words
	Remedy string   // "" for the usual one
}

// Error is one line.
func (e *ShortError) Error() string {
	lost := fmt.Sprintf("windows %d to %d", e.First, e.Last)
	if e.Last < e.First {
		lost = fmt.Sprintf("its newest windows, from %d on", e.First)
	}
	remedy := cmp.Or(e.Remedy, "restore it from a backup or a mirror; without one, 'gvbll rebase --accept-gap' goes on "+
		"behind them, and publishes nothing again")
	return fmt.Sprintf("ledger %s lost %s, as is shown by %s: %s", e.Ledger, lost, strings.Join(e.Found, " and "), remedy)
}

// Short returns a [ShortError] of a ledger as it is now, which is known to have had windows up to
// the last.
func Short(ctx context.Context, c *kafka.Client, at kafka.TopicPartition, last int64, found string) error {
	newest, err := Newest(ctx, c, at)
	if err != nil {
		return err
	}
	e := &ShortError{Ledger: at.Topic, Last: last, Found: []string{found}}
	if newest != nil {
		e.First = newest.Window + 1
	}
	return e
}

// Explain returns a [ShortError] in place of an error that says that the ledger's log ends before
// what was read of it: windows up to the last.
func Explain(ctx context.Context, c *kafka.Client, at kafka.TopicPartition, last int64, err error) error {
	var gone *kafka.OutOfRangeError
	var replaced *kafka.ReplacedError
	switch {
	case errors.As(err, &gone) && gone.At == at && gone.Position >= gone.Bounds.End:
	case errors.As(err, &replaced) && replaced.At == at:
	default:
		return err
	}
	return Short(ctx, c, at, last, "this worker, which has read them")
}
