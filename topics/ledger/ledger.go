// Package ledger reads and writes the ledger, which records where the stream was cut:
// one record for each window, in the same transaction as the window's predictions and
// dead letters. The cuts are all that depends on timing, and the first record holds
// the engine's settings. So the model, the inputs and the ledger determine every
// prediction. The ledger is the one commit point: a worker that starts relies on it
// alone.
//
// A ledger is a sequence of epochs. In an epoch, the engine's version, its settings and
// the classes are the same, and so is the model, unless a command promotes another. The
// first record of an epoch holds them all. Every epoch but the first begins with a window
// of its own, which takes no records: its hashes are those of the new engine after a
// replay of all windows before it.
//
// Records are JSON, so that any tool can read them.
package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/topics/base"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/registry"
)

// Version is the format of the records.
const Version = 1

// maxRecord bounds the length of a record that is read, in bytes.
const maxRecord = 1 << 20

// Record is one window.
type Record struct {
	Version int     `json:"v"`
	Epoch   int64   `json:"epoch,omitempty"` // number of the epoch that the window is in, from 0
	Window  int64   `json:"window"`
	Cause   string  `json:"cause"`  // why it was cut
	Ranges  []Range `json:"ranges"` // the records in it, of each input partition
	Model   string  `json:"model"`  // id of the model file
	Terms

	Predictions int    `json:"predictions"`
	Revisions   int    `json:"revisions,omitempty"` // of predictions of earlier windows
	Head        string `json:"head,omitempty"`      // that served them, where it is not the first
	Labels      int    `json:"labels"`              // learned, after joining them to predictions
	Refused     int    `json:"refused"`
	Updates     uint64 `json:"updates"`   // of the serving posterior so far
	Posterior   string `json:"posterior"` // SHA-256 of the state of every head
	Chain       string `json:"chain"`     // SHA-256 over all predictions and learned labels so far
	// Taken is a hash of which records of the inputs are in windows so far, "" in records of 1.0.0. A checkpoint must have it.
	Taken string `json:"taken,omitempty"`

	// Figures are those of the window that the parts of the engine declare, without zeros.
	Figures figure.Kept `json:"figures,omitempty"`

	// Reasons counts the refused events by reason, Scores rates the predictions whose
	// labels came, nil if none did, and Changes is the drift that was found.
	Reasons map[event.Reason]int `json:"reasons,omitempty"`
	Scores  *Scores              `json:"scores,omitempty"`
	// Attributes are the first of the model that have such a share or a mean.
	Attributes []Attribute        `json:"attributes,omitempty"`
	Unknown    []spelling.Unknown `json:"unknown_attributes,omitempty"`
	Changes    []change           `json:"changes,omitempty"`
	// Unmet is what waits for nodes that have not come, where that is much.
	Unmet []Unmet `json:"unmet,omitempty"`

	// Schemas are those by which framed records of this window were read, and of none before it.
	Schemas []registry.Schema `json:"schemas,omitempty"`

	// Forgot is set when nodes were forgotten before this window was stepped: from
	// this Chain on, the state is that of an engine that never saw them.
	Forgot *Forgot `json:"forgot,omitempty"`

	// Attempt is set in a window without records: the owner is about to forget nodes for
	// the n-th time since it has read a command to do so. If it ends in this, the next
	// one finds the window.
	Attempt int `json:"attempt,omitempty"`
	// Declined is a code for why commands of this window to forget nodes were declined;
	// empty if none were, or because the beginning of the inputs or of the ledger is gone.
	Declined string `json:"declined,omitempty"`

	// Shadow is the outcome of the window for the model in the shadow.
	Shadow *Shadow `json:"shadow,omitempty"`
	// Promoted is the model that serves from the next window on, if this window
	// changed it.
	Promoted string `json:"promoted,omitempty"`

	// Trial is the trial of a model that a command asked for.
	Trial *Trial `json:"trial,omitempty"`

	// Bases are the bases from which a worker can begin, the newest first.
	Bases []Base `json:"bases,omitempty"`
	// BaseDue asks for a base of the state after this window.
	BaseDue bool `json:"base_due,omitempty"`

	// Outputs is how many partitions the owner divided the outputs over: a key has its partition
	// among these. nil is 1 of each.
	Outputs *Outputs `json:"outputs,omitempty"`

	// Stepped is the record's own timestamp, once it is read: when the window was
	// stepped, by its owner's clock.
	Stepped time.Time `json:"-"`
}

// Base is a base that the ledger names: see package base.
type Base struct {
	Name   base.Name `json:"name"`
	Chain  string    `json:"chain"`  // of the model that served the window before it
	Offset int64     `json:"offset"` // of the record of that window, or of an earlier one's: records before it are not needed
	Taken  int64     `json:"taken"`  // Unix ms, by its owner's clock
	// Folder is the name of the store that has it, at the address of --base, "" for the ledger's.
	Folder string `json:"folder,omitempty"`
	// Reached says which records of the inputs are in its state, and on which terms. It is in the first record that names the
	// base, which holds settings and classes too.
	Reached json.RawMessage `json:"reached,omitempty"`
}

// Outputs are numbers of partitions, as the owner found them when it began.
type Outputs struct {
	Predictions int `json:"predictions"`
	DeadLetters int `json:"dead_letters"`
}

// Divided returns how many partitions the window's predictions and dead letters were divided over.
func (r *Record) Divided() Outputs {
	if r.Outputs == nil {
		return Outputs{1, 1}
	}
	return *r.Outputs
}

// Terms are the terms of an epoch in a record: the hash of its settings in all, the rest in its
// first one. They are embedded: their fields
// are those of the JSON.
type Terms struct {
	// Settings is the hash of the engine's settings.
	Settings string `json:"settings"`
	// Configuration is the settings, in the first record of an epoch, and in the first
	// that has their hash.
	Configuration event.Settings `json:"configuration,omitempty"`
	// Classes, in the order of the probabilities, are in the first record of an epoch, and
	// in one that promotes a model: those of that model.
	Classes []string `json:"classes,omitempty"`
	// Begins is set in the first record of an epoch. Window 0 begins the first one.
	Begins *Beginning `json:"begins,omitempty"`
	// Inputs are the input topics as an epoch begins, in its first record.
	Inputs []Input `json:"inputs,omitempty"`
	// Cell is the cell that the ledger's partition is of, where there are several, likewise.
	Cell *Cell `json:"cell,omitempty"`
}

// Cell is a cell of a graph.
type Cell struct {
	Number int32 `json:"number"` // from 0
	Of     int   `json:"of"`     // how many there were
}

// Beginning says why an epoch begins. Its model, settings and classes are in the same
// record.
type Beginning struct {
	Why     string `json:"why"`     // what differs from the epoch before, or the operator's words
	Program string `json:"program"` // version of the program that wrote it
	// Features is the number of features that the epoch's models take. Node events with another
	// number of them were refused.
	Features int `json:"features,omitempty"`
	// Gap is what is gone before the epoch.
	Gap
	// Moved says which records of windows before the epoch have other offsets since: the inputs are a copy.
	Moved []Moved `json:"moved,omitempty"`
	// Checkpoint is, with a gap, the first window that was not in the checkpoint which the
	// state came from. The windows from there to this one were stepped with the
	// records that were left of them.
	Checkpoint int64 `json:"checkpoint,omitempty"`
}

// Gap is what Kafka has lost before an epoch, and its state may lack. With a gap, no replay gives
// the state again: one that has it begins at a checkpoint of the epoch's first window or
// a later one.
type Gap struct {
	// Front are records of the inputs that no topic has any more: each range ends where the
	// partition begins now.
	Front []Range `json:"gap,omitempty"`
	// Tail are records of the inputs that were at the ends of their logs. Other records have
	// their offsets now.
	Tail []Range `json:"gap_at_end,omitempty"`
	// Windows are how many windows before the epoch's first one the ledger has lost. What
	// they published stands.
	Windows int64 `json:"gap_windows,omitempty"`
	// Again says that an earlier gap was accepted once more, from another checkpoint.
	Again bool `json:"gap_again,omitempty"`
}

// Some reports whether there is a gap.
func (g *Gap) Some() bool { return len(g.Front)+len(g.Tail) > 0 || g.Windows > 0 || g.Again }

// Describe names what is gone before an epoch that begins at a window, of ranges the first ones.
func (g *Gap) Describe(window int64) string {
	const most = 3
	var named []string
	ranges := slices.Concat(g.Front, g.Tail)
	for _, r := range ranges[:min(len(ranges), most)] {
		named = append(named, r.String())
	}
	if n := len(ranges) - len(named); n > 0 {
		named = append(named, fmt.Sprintf("and %d more", n))
	}
	if g.Windows > 0 {
		named = append(named, fmt.Sprintf("windows %d to %d of the ledger", window-g.Windows, window-1))
	}
	if g.Again {
		named = append(named, "accepted once more")
	}
	return strings.Join(named, ", ")
}

// HasGap reports whether the terms begin an epoch behind a gap.
func (t *Terms) HasGap() bool { return t.Begins != nil && t.Begins.Some() }

// lost returns how many windows before the record's the ledger has lost.
func (t *Terms) lost() int64 {
	if t.Begins == nil {
		return 0
	}
	return t.Begins.Windows
}

// Forgot describes the forgetting of nodes and its effect.
type Forgot struct {
	Nodes   int   `json:"nodes"`   // named
	Windows int64 `json:"windows"` // replayed without them
	// Unknown are those among them that no event named, MaxUnknown at most.
	Unknown []string `json:"unknown,omitempty"`
	// Distance is between the posteriors before and after.
	Distance
}

// MaxUnknown bounds Forgot.Unknown, and so the size of a record.
const MaxUnknown = 20

// Distance is how far apart two posteriors are, in Frobenius norms.
type Distance struct {
	Mean     float64 `json:"mean"`     // ‖ΔM‖
	Variance float64 `json:"variance"` // ‖ΔΣ‖
}

// Shadow is the state of the engine of a model in the shadow. Its chain is the one
// that the model would have if it had served from the first window on.
type Shadow struct {
	Model     string `json:"model"`
	Updates   uint64 `json:"updates"`
	Posterior string `json:"posterior"`
	Chain     string `json:"chain"`
}

// BasesNamed returns the bases that the record names. It may be nil, and names none then.
func (r *Record) BasesNamed() []Base {
	if r == nil {
		return nil
	}
	return r.Bases
}

// Serves returns the model that serves after the window.
func (r *Record) Serves() string {
	if r.Promoted != "" {
		return r.Promoted
	}
	return r.Model
}

// ChainOf returns the chain of a model that served the window or was in the shadow.
func (r *Record) ChainOf(model string) (chain string, ok bool) {
	switch {
	case r.Model == model:
		return r.Chain, true
	case r.Shadow != nil && r.Shadow.Model == model:
		return r.Shadow.Chain, true
	}
	return "", false
}

// Input is an input topic as an epoch begins: the topic's id, "" if brokers have none, and the
// first offset of each partition.
type Input struct {
	Topic string  `json:"topic"`
	ID    string  `json:"id,omitempty"`
	First []int64 `json:"first"`
}

// Range is the records From ≤ offset < To of one partition.
type Range struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
	// Records is how many records it has, where it has offsets without one; Sum is the hash of the last of them, as in its
	// [kafka.Mark], and 0 in records of 1.0.0. Both are kept of windows, so that a copy is known with other offsets.
	Records int64  `json:"records,omitempty"`
	Sum     uint64 `json:"sum,omitempty,string"`
}

// String names the range in words.
func (g Range) String() string {
	return fmt.Sprintf("%s partition %d offsets %d to %d", g.Topic, g.Partition, g.From, g.To-1)
}

// Append appends the record's JSON to dst.
func (r *Record) Append(dst []byte) []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and finite numbers only
	}
	return append(dst, b...)
}

// Decode reads one record and checks what a reader relies on.
func Decode(b []byte) (*Record, error) {
	if len(b) > maxRecord {
		return nil, fmt.Errorf("ledger record of %d bytes, at most %d are read", len(b), maxRecord)
	}
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("ledger record: %.200w", err) // it quotes the record
	}
	if r.Version != Version {
		return nil, fmt.Errorf("ledger record of format %d, this program reads format %d", r.Version, Version)
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return &r, r.readEarlier(b)
}

// check returns an error if a reader could not rely on the record.
func (r *Record) check() error {
	if r.Window < 0 {
		return fmt.Errorf("ledger record of window %d", r.Window)
	}
	if r.Configuration != "" && r.Configuration.Hash() != r.Settings {
		return fmt.Errorf("ledger record of window %d: its configuration does not have the hash %.20q", r.Window, r.Settings)
	}
	if s := r.Scores; s != nil {
		bins, odds := s.Bins, []OddsBin(nil)
		for i := range s.Odds {
			odds = append(odds, s.Odds[i].Bins...)
		}
		if s.Cohorts != nil {
			for i := range s.Cohorts.List {
				bins, odds = append(bins[:len(bins):len(bins)], s.Cohorts.List[i].Bins...), append(odds, s.Cohorts.List[i].Odds...)
			}
		}
		for _, b := range bins {
			if b.Bin < 0 || b.Bin >= Bins {
				return fmt.Errorf("ledger record of window %d: scores in bin %d of %d", r.Window, b.Bin, Bins)
			}
		}
		for _, b := range odds {
			if !(b[0] >= 0 && b[0] < OddsBins) {
				return fmt.Errorf("ledger record of window %d: odds in bin %v of %d", r.Window, b[0], OddsBins)
			}
		}
	}
	if r.Epoch < 0 || r.Begins != nil && r.Configuration == "" || r.Epoch > 0 && r.Begins != nil && len(r.Ranges) > 0 ||
		r.Epoch == 0 && r.HasGap() {
		return fmt.Errorf("ledger record of window %d: epoch %d does not begin as it should, with its settings and "+
			"without records", r.Window, r.Epoch)
	}
	if o := r.Divided(); o.Predictions < 1 || o.DeadLetters < 1 {
		return fmt.Errorf("ledger record of window %d: its outputs have %d and %d partitions", r.Window, o.Predictions, o.DeadLetters)
	}
	for i := range r.Bases {
		if b := &r.Bases[i]; b.Name.Window < 1 || b.Name.Window > r.Window || b.Offset < 0 {
			return fmt.Errorf("ledger record of window %d: base of window %d, needed from offset %d", r.Window, b.Name.Window, b.Offset)
		}
	}
	named := r.Ranges
	if r.HasGap() {
		named = slices.Concat(r.Begins.Front, r.Begins.Tail)
	}
	if n := r.lost(); n < 0 || n > r.Window {
		return fmt.Errorf("ledger record of window %d: %d windows before it are lost", r.Window, n)
	}
	for _, g := range named {
		if g.Topic == "" || g.Partition < 0 || g.From < 0 || g.To <= g.From {
			return fmt.Errorf("ledger record of window %d: range %d to %d of %q partition %d", r.Window, g.From, g.To, g.Topic, g.Partition)
		}
	}
	return nil
}

// Ledger reads one partition of a ledger topic, forwards.
type Ledger struct {
	client *kafka.Client
	at     kafka.TopicPartition
	reader *kafka.Reader
	queue  []kafka.Record
	next   int64   // window expected next, -1 for any
	before *Record // the record returned last, nil before the first
	last   int64   // its offset, -1 before the first
}

// Open opens the ledger at its beginning, which must still be there.
func Open(ctx context.Context, c *kafka.Client, at kafka.TopicPartition) (*Ledger, error) {
	b, err := boundsOf(ctx, c, at)
	if err != nil {
		return nil, err
	}
	if b.First > 0 {
		return nil, fmt.Errorf("ledger topic %s begins at offset %d: its first records are gone, so nothing can be "+
			"proved or replayed without a checkpoint of it: give --state-dir with one (an audit takes --checkpoint, or "+
			"--from latest with --base), and set retention.ms=-1, so that no more are lost", at.Topic, b.First)
	}
	return open(c, at, 0, 0), nil
}

// OpenAt opens the ledger at the first record at or after the offset, of any window.
func OpenAt(ctx context.Context, c *kafka.Client, at kafka.TopicPartition, offset int64) (*Ledger, error) {
	b, err := boundsOf(ctx, c, at)
	if err != nil {
		return nil, err
	}
	return open(c, at, min(max(offset, b.First), b.End), -1), nil
}

func open(c *kafka.Client, at kafka.TopicPartition, offset, next int64) *Ledger {
	reader := c.NewReader(map[kafka.TopicPartition]int64{at: offset}, kafka.ReaderConfig{})
	return &Ledger{client: c, at: at, reader: reader, next: next, last: -1}
}

// boundsOf returns the bounds of the ledger's log, which must exist.
func boundsOf(ctx context.Context, c *kafka.Client, at kafka.TopicPartition) (kafka.Bounds, error) {
	bounds, err := c.Offsets(ctx, at.Topic)
	b, ok := bounds[at]
	if err == nil && !ok {
		err = fmt.Errorf("ledger topic %s does not exist: check --prefix, or restore it from a backup or a mirror", at.Topic)
	}
	return b, err
}

// OpenEnd opens the ledger behind its last record.
func OpenEnd(ctx context.Context, c *kafka.Client, at kafka.TopicPartition) (*Ledger, error) {
	return OpenAt(ctx, c, at, math.MaxInt64)
}

// Scan calls f with every committed record that the partition still has, up to its present
// end or until f returns false.
func Scan(ctx context.Context, c *kafka.Client, at kafka.TopicPartition, f func(*Record) bool) error {
	return ScanFrom(ctx, c, at, 0, f)
}

// ScanFrom is Scan of the records from an offset on.
func ScanFrom(ctx context.Context, c *kafka.Client, at kafka.TopicPartition, offset int64, f func(*Record) bool) error {
	l, err := OpenAt(ctx, c, at, offset)
	if err != nil {
		return err
	}
	for {
		r, err := l.Next(ctx)
		if r == nil || err != nil || !f(r) {
			return err
		}
	}
}

// FindSettings returns the terms of the first record that holds the settings of the hash, nil when none
// does.
func FindSettings(ctx context.Context, c *kafka.Client, at kafka.TopicPartition, hash string) (found *Terms, err error) {
	err = Scan(ctx, c, at, func(r *Record) bool {
		if r.Configuration != "" && r.Settings == hash {
			found = &r.Terms
		}
		return found == nil
	})
	return found, err
}

// Newest returns the last committed record, nil if the partition is empty.
func Newest(ctx context.Context, c *kafka.Client, at kafka.TopicPartition) (newest *Record, err error) {
	bounds, err := c.Offsets(ctx, at.Topic)
	if err != nil {
		return nil, err
	}
	b := bounds[at]
	// The last record is followed by transaction markers, and possibly by records of
	// aborted transactions, so search backwards in growing steps.
	for back, from := int64(64), b.End; newest == nil && from > b.First; back *= 8 {
		from = max(b.End-back, b.First)
		l := open(c, at, from, -1)
		for l.reader.Position(at) < b.End || len(l.queue) > 0 {
			r, err := l.Wait(ctx)
			if err != nil {
				return nil, err
			}
			newest = cmp.Or(r, newest)
		}
	}
	return newest, nil
}

// Next returns the next committed record, nil if there is none yet. It is a
// [kafka.OutOfRangeError] if the log ends before what was read of it, and has done so for a while.
func (l *Ledger) Next(ctx context.Context) (*Record, error) {
	for len(l.queue) == 0 {
		bounds, err := l.client.Offsets(ctx, l.at.Topic)
		if err != nil {
			return nil, err
		}
		if l.reader.Position(l.at) == bounds[l.at].End {
			return nil, nil
		}
		if l.queue, err = l.reader.Poll(ctx); err != nil {
			return nil, err
		}
	}
	return l.pop()
}

// Wait is Next, but waits briefly for a record before it returns nil.
func (l *Ledger) Wait(ctx context.Context) (*Record, error) {
	if len(l.queue) == 0 {
		var err error
		if l.queue, err = l.reader.Poll(ctx); err != nil || len(l.queue) == 0 {
			return nil, err
		}
	}
	return l.pop()
}

// pop decodes the next record of the queue, and checks that it follows the one before it.
func (l *Ledger) pop() (*Record, error) {
	raw := &l.queue[0]
	l.queue = l.queue[1:]
	r, err := Decode(raw.Value)
	if err != nil {
		return nil, fmt.Errorf("%s offset %d: %w", l.at.Topic, raw.Offset, err)
	}
	if l.next >= 0 && r.Window-r.lost() != l.next {
		return nil, fmt.Errorf("%s offset %d: window %d follows window %d: the ledger is not continuous", l.at.Topic,
			raw.Offset, r.Window, l.next-1)
	}
	if l.before != nil && !r.follows(l.before) {
		return nil, fmt.Errorf("%s offset %d: window %d is of epoch %d and settings %.20q, and follows epoch %d of "+
			"settings %.20q, which nothing ended", l.at.Topic, raw.Offset, r.Window, r.Epoch, r.Settings, l.before.Epoch, l.before.Settings)
	}
	r.Stepped = raw.Time
	l.next, l.before, l.last = r.Window+1, r, raw.Offset
	return r, nil
}

// follows reports whether the record is of the epoch of the one before it, or begins the
// next, or a later one if windows between the two are lost. Within an epoch the settings stay the
// same.
func (r *Record) follows(before *Record) bool {
	if r.Begins != nil {
		return r.Epoch == before.Epoch+1 || r.lost() > 0 && r.Epoch > before.Epoch
	}
	return r.Epoch == before.Epoch && r.Settings == before.Settings
}

// Last returns the offset of the record that was returned last, -1 before the first.
func (l *Ledger) Last() int64 { return l.last }

// Window returns the number of the window that was returned last, -1 before the first.
func (l *Ledger) Window() int64 {
	if l.before == nil {
		return -1
	}
	return l.before.Window
}
