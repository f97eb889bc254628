package cuts

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gvbll/gvbll/topics/crash"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// Place is a place in the chain of cuts. The zero value is its beginning.
type Place struct {
	Window int64  `json:"window"` // that follows
	Hash   string `json:"hash"`   // of the cut before, empty before window 0
	Epoch  int64  `json:"epoch,omitempty"`
	Since  int64  `json:"since,omitempty"` // window that began the epoch
	Began  string `json:"began"`           // hash of the cut that began the epoch, empty before window 0
	Offset int64  `json:"offset"`          // from which the log is to be read
}

// Confirm returns an error unless the log has the cut before the place, where it should.
func (p Place) Confirm(ctx context.Context, c *kafka.Client, at kafka.TopicPartition) error {
	if p.Window == 0 {
		return nil
	}
	bounds, err := c.Offsets(ctx, at.Topic)
	if err != nil {
		return err
	}
	for back := int64(1); p.Offset <= bounds[at].End; back *= 8 { // records that were ignored may lie between
		from := max(p.Offset-back, bounds[at].First)
		found, to := false, map[kafka.TopicPartition]kafka.Bounds{at: {End: p.Offset}}
		if err := c.ReadTo(ctx, map[kafka.TopicPartition]int64{at: from}, to, func(raw *kafka.Record) bool {
			found = hashOf(raw.Value) == p.Hash
			return !found
		}); found || err != nil {
			return err
		}
		if from == bounds[at].First {
			break
		}
	}
	return fmt.Errorf("the ledger %s does not hold the cut of window %d where it should", at.Topic, p.Window-1)
}

// terms returns the epoch of a cut at the place, and the window that began it.
func (p Place) terms(begins bool) (epoch, since int64) {
	if begins && p.Window > 0 {
		return p.Epoch + 1, p.Window
	}
	return p.Epoch, p.Since
}

// continues reports whether a cut continues the chain at the place, and its epoch or begins the
// next.
func (p Place) continues(c *Cut) bool {
	epoch, since := p.terms(c.Begins != nil)
	return c.Window == p.Window && c.Prev == p.Hash && c.Epoch == epoch && c.Since == since
}

// Cuts reads the cuts of a sharded graph, forwards. Of the records in the log it takes the
// first with the window that follows and the hash of the cut taken last, and ignores all
// others: cuts of a sequencer that was no longer one, duplicates, and what is no cut. So every
// reader takes the same cuts, whenever and wherever in the chain it begins.
type Cuts struct {
	ledger.Log
	place Place
}

// OpenCuts opens the cuts, in the ledger's partition of task 0, at a place. For the zero
// place the beginning of the log must still be there.
func OpenCuts(ctx context.Context, c *kafka.Client, at kafka.TopicPartition, from Place) (*Cuts, error) {
	offset := from.Offset
	if from == (Place{}) {
		offset = ledger.FromBeginning
	}
	l, err := ledger.OpenLog(ctx, c, at, offset)
	if err != nil {
		return nil, err
	}
	return &Cuts{Log: l, place: from}, nil
}

// Next returns the next cut, nil if there is none yet.
func (c *Cuts) Next(ctx context.Context) (*Cut, error) { return c.take(ctx, c.Log.Next) }

// Wait is Next, but waits briefly for a record before it returns nil.
func (c *Cuts) Wait(ctx context.Context) (*Cut, error) { return c.take(ctx, c.Log.Wait) }

func (c *Cuts) take(ctx context.Context, read func(context.Context) (*kafka.Record, error)) (*Cut, error) {
	for {
		raw, err := read(ctx)
		if raw == nil || err != nil {
			return nil, err
		}
		c.place.Offset = raw.Offset + 1
		cut, err := DecodeCut(raw.Value)
		if err != nil && c.isLater(raw.Value) {
			return nil, fmt.Errorf("ledger %s partition %d offset %d: %w: start the program that wrote it, or a later one", c.At.Topic, c.At.Partition, raw.Offset, err)
		}
		if err != nil || !c.place.continues(cut) {
			continue
		}
		cut.Written = raw.Time
		c.place.Window, c.place.Hash = cut.Window+1, cut.Hash
		if cut.Begins != nil {
			c.place.Began, c.place.Epoch, c.place.Since = cut.Hash, cut.Epoch, cut.Since
		}
		return cut, nil
	}
}

// isLater reports whether bytes are a cut of a later format that continues the chain. Others
// have taken it, and so no other one counts.
func (c *Cuts) isLater(value []byte) bool {
	var later struct {
		Version int    `json:"v"`
		Window  int64  `json:"window"`
		Prev    string `json:"prev"`
	}
	err := json.Unmarshal(value, &later)
	return err == nil && later.Version > CutFormat && later.Window == c.place.Window && later.Prev == c.place.Hash
}

// Place returns the place behind the cut that was taken last.
func (c *Cuts) Place() Place { return c.place }

// Cutter appends cuts to the log.
type Cutter struct {
	cuts     *Cuts
	producer *kafka.Producer
}

// NewCutter returns a cutter that continues the chain which the reader has read. The reader
// is the cutter's until the last Cut has returned.
func NewCutter(ctx context.Context, cuts *Cuts) (*Cutter, error) {
	p, err := cuts.Client.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return nil, err
	}
	return &Cutter{cuts, p}, nil
}

// Cut appends a cut of the window that follows, and reads what was taken for it: this cut, or
// the one of another sequencer that was first. It sets Version, Epoch, Since, Window, Prev and Hash. Failures are
// retried until the context ends; a cut that is appended twice is taken once.
//
// If cut.Done is of this window or a later one, another sequencer has cut it: this one was halted,
// and woken. It learns so from what was taken; Done is left out.
func (c *Cutter) Cut(ctx context.Context, cut *Cut) (taken *Cut, err error) {
	cut.Version, cut.Window, cut.Prev = CutFormat, c.cuts.place.Window, c.cuts.place.Hash
	cut.Epoch, cut.Since = c.cuts.place.terms(cut.Begins != nil)
	if cut.Done != nil && cut.Done.Window >= cut.Window {
		cut.Done = nil
	}
	value := cut.Append(nil)
	cut.Hash = hashOf(value)
	if _, err := DecodeCut(value); err != nil {
		return nil, fmt.Errorf("this window cannot be cut: %w", err)
	}
	record := kafka.Record{Topic: c.cuts.At.Topic, Partition: c.cuts.At.Partition, Value: value}
	if err := c.producer.SendAgain(ctx, []kafka.Record{record}); err != nil {
		return nil, fmt.Errorf("writing the cut of window %d: %w", cut.Window, err)
	}
	crash.Point(crash.CutUnread)
	for taken == nil && err == nil {
		taken, err = c.cuts.Wait(ctx)
	}
	return taken, err
}
