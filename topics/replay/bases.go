package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/base"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// Bases configures bases: states in a store, which the ledger names by hash. From then on nobody needs
// what was before the oldest one. The zero value has none.
type Bases struct {
	Store base.Store
	Every time.Duration // least time between two
	Keep  int           // how many of the newest are kept
	Purge bool          // the ledger's records before the oldest one are deleted
}

// Of returns the store that has a base.
func (b *Bases) Of(x *ledger.Base) base.Store {
	if x.Folder == "" {
		return b.Store
	}
	return b.Store.Beside(x.Folder)
}

// Check returns what is wrong with the bases that a ledger names, by name, and none whose store does not answer.
func (b *Bases) Check(ctx context.Context, named []ledger.Base) map[base.Name]error {
	lost := make(map[base.Name]error)
	for i := range named {
		if _, err := base.Whole(ctx, b.Of(&named[i]), named[i].Name); base.Useless(err) {
			lost[named[i].Name] = err
		}
	}
	return lost
}

// Owner returns what a ledger is to a store of bases.
func Owner(ctx context.Context, c *kafka.Client, n topics.Names) (o base.Owner, err error) {
	ids, err := c.TopicIDs(ctx, n.Ledger)
	if err != nil {
		return o, err
	}
	o.Cluster, err = c.ClusterID(ctx)
	o.Topic, o.Ledger = ids[n.Ledger], n.Own()
	return o, err
}

// stateFile is the file of a base that has the engine's state. Others have what it refers to.
const stateFile = "state"

// FindBase returns the base that the ledger's last record names so: by its name, by the window that begins
// it, or the newest as "latest".
func FindBase(ctx context.Context, c *kafka.Client, at kafka.TopicPartition, name string) (*ledger.Base, error) {
	newest, err := ledger.Newest(ctx, c, at)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range newest.BasesNamed() {
		b := &newest.Bases[i]
		if name == "latest" || name == b.Name.String() || name == fmt.Sprint(b.Name.Window) {
			return b, nil
		}
		names = append(names, b.Name.String())
	}
	if names == nil {
		return nil, fmt.Errorf("ledger %s names no base: check --prefix, or write one with 'gvbll work --base'", at.Topic)
	}
	return nil, fmt.Errorf("ledger %s names no base %.100q any more: give latest, or one of %s", at.Topic, name, strings.Join(names, ", "))
}

// ReadReached returns what a base's state has reached, as the record says that names it first.
func ReadReached(ctx context.Context, c *kafka.Client, l kafka.TopicPartition, b *ledger.Base) (at Reached, err error) {
	var reached json.RawMessage
	for _, from := range []int64{b.Offset, 0} { // a copy of the ledger has it earlier
		err := ledger.ScanFrom(ctx, c, l, from, func(r *ledger.Record) bool {
			if len(r.Bases) > 0 && r.Bases[0].Name == b.Name {
				reached = r.Bases[0].Reached
			}
			return reached == nil
		})
		if err != nil {
			return at, err
		}
		if reached != nil {
			return at, json.Unmarshal(reached, &at)
		}
	}
	return at, fmt.Errorf("the ledger %s does not have the record any more that says which windows are in "+
		"the base %s", l.Topic, b.Name)
}

// OpenBase opens the replayer after the last window of a base.
func (p *Replayer) OpenBase(ctx, fetching context.Context, b *ledger.Base) error {
	found, err := statesOf(p).loadBase(ctx, b)
	if err != nil {
		return err
	}
	return p.begin(fetching, found)
}

// loadBase returns the state of a base. State and chain are compared with what the ledger has of it.
func (s *states) loadBase(ctx context.Context, b *ledger.Base) (*found, error) {
	began := time.Now()
	at, err := ReadReached(ctx, s.client, s.cfg.Terms.Names.LedgerAt(), b)
	if err != nil {
		return nil, err
	}
	if at.Chain != b.Chain || at.Window != b.Name.Window {
		return nil, fmt.Errorf("the ledger has %s for window %d, and the base is of window %d with %s", b.Chain,
			b.Name.Window-1, at.Window-1, at.Chain)
	}
	if has := s.cfg.Terms.Has; !s.cfg.Terms.isOwn(at.Settings) || !has(at.Model) && (at.Shadow == nil || !has(at.Shadow.Model)) {
		return nil, errOtherTerms
	}
	stored, err := base.Find(ctx, s.cfg.Checkpoints.Bases.Of(b), b.Name)
	if err != nil {
		return nil, err
	}
	folder, err := s.scratch(ctx)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	if err := stored.Fetch(ctx, folder); err != nil {
		return nil, err
	}
	if err := copyBlocks(stored, folder); err != nil {
		return nil, err
	}
	r, size, err := stored.Open(stateFile)
	if err != nil {
		return nil, err
	}
	e, _, err := s.cfg.Checkpoints.Restore(r, size, folder)
	if err != nil {
		return nil, err
	}
	found, err := s.find(ctx, e, &at, "")
	if err != nil {
		return nil, err
	}
	s.cfg.Logger.Info("read a base", "name", b.Name, "window", at.Window, "megabytes", size>>20, "took",
		time.Since(began).Round(time.Millisecond))
	return found, nil
}

// errOtherTerms says that a base is of other settings, or of other models.
var errOtherTerms = errors.New("it is of other settings or another model")

// noBase returns the error of a start that could only begin from a base, and why none can be used.
func (s *states) noBase(unusable []error) error {
	var why []string
	remedy := "restore them where --base says, or give --state-dir with a checkpoint of this ledger"
	for _, err := range unusable {
		why = append(why, err.Error())
		if errors.Is(err, errOtherTerms) {
			remedy = "no other terms can take its state over, and what they would replay is gone: start with the " +
				"ledger's own settings and model, or begin a graph of the new ones beside it, with another --prefix (docs/upgrade.md)"
		}
	}
	return fmt.Errorf("ledger %s: records of before its oldest base are gone, and none of its bases can be used (%s): %s",
		s.cfg.Terms.Names.Ledger, strings.Join(why, "; "), remedy)
}

// scratch makes a folder for what is fetched of a base, beside the checkpoints if there are any: what a killed
// process leaves is removed with what else is left of bases there.
func (s *states) scratch(ctx context.Context) (string, error) {
	dir := s.cfg.Checkpoints.Dir
	if dir != "" {
		names := s.cfg.Terms.Names
		ids, err := s.client.TopicIDs(ctx, names.Ledger)
		if err != nil {
			return "", err
		}
		dir = checkpoint.Folder(dir, names.Own(), ids[names.Ledger])
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
	}
	folder, err := os.MkdirTemp(dir, "base-fetched-")
	if err != nil {
		err = fmt.Errorf("%w: give --state-dir, a folder that has room for it", err)
	}
	return folder, err
}

// copyBlocks copies the files of a base that the state refers to into a folder.
func copyBlocks(b *base.Base, folder string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range b.Files() {
		if f.Name == stateFile {
			continue
		}
		if err := b.Copy(f.Name, root); err != nil {
			return err
		}
	}
	return nil
}

// candidate is a state that a start may go on from.
type candidate struct {
	window int64
	file   string       // of a checkpoint
	base   *ledger.Base // or nil
}

// candidates returns the checkpoints, and the bases that the ledger names, the newest first. A checkpoint comes before a base of
// the same window.
func (s *states) candidates(ctx context.Context) (list []candidate, err error) {
	files, err := s.cfg.Checkpoints.Find(s.cfg.Terms.Names.Own())
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		list = append(list, candidate{window: f.Window, file: f.Path})
	}
	newest, err := ledger.Newest(ctx, s.client, s.cfg.Terms.Names.LedgerAt())
	if err != nil {
		return nil, err
	}
	for i := range newest.BasesNamed() {
		list = append(list, candidate{window: newest.Bases[i].Name.Window, base: &newest.Bases[i]})
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return int(b.window - a.window) })
	return list, nil
}

// load returns the state of a candidate.
func (s *states) load(ctx context.Context, c candidate) (*found, error) {
	switch {
	case c.base == nil:
		return s.loadCheckpoint(ctx, c.file)
	case s.cfg.Checkpoints.Bases.Store == nil:
		return nil, errors.New("nothing says where it is: give --base")
	}
	return s.loadBase(ctx, c.base)
}

// Need is from where on a partition of the inputs or of the ledger is needed.
type Need struct {
	kafka.TopicPartition
	Offset int64
	Since  time.Time // of the first record there, zero if there is none
}

// Needs returns from where on the oldest base that the ledger names needs the topics, and the newest one; nil
// if the ledger names none.
func Needs(ctx context.Context, c *kafka.Client, l kafka.TopicPartition, newest *ledger.Record) (needs []Need, err error) {
	bases := newest.BasesNamed()
	if len(bases) == 0 {
		return nil, nil
	}
	oldest := &bases[len(bases)-1]
	at, err := ReadReached(ctx, c, l, oldest)
	if err != nil {
		return nil, err
	}
	needs = []Need{{TopicPartition: l, Offset: oldest.Offset}}
	seen := map[kafka.TopicPartition]bool{}
	for _, g := range at.Consumed {
		if p := (kafka.TopicPartition{Topic: g.Topic, Partition: g.Partition}); !seen[p] {
			seen[p] = true // the first range is that from the beginning
			needs = append(needs, Need{TopicPartition: p, Offset: g.To})
		}
	}
	for i := range needs {
		n := &needs[i]
		bounds, err := c.Offsets(ctx, n.Topic)
		if err != nil {
			return nil, err
		}
		from := map[kafka.TopicPartition]int64{n.TopicPartition: max(n.Offset, bounds[n.TopicPartition].First)}
		only := map[kafka.TopicPartition]kafka.Bounds{n.TopicPartition: bounds[n.TopicPartition]}
		if err := c.ReadTo(ctx, from, only, func(r *kafka.Record) bool { n.Since = r.Time; return false }); err != nil {
			return nil, err
		}
	}
	return needs, nil
}

// Since returns the time of the oldest record of each topic that is needed, and has one.
func Since(needs []Need) map[string]time.Time {
	oldest := make(map[string]time.Time)
	for _, n := range needs {
		if t := oldest[n.Topic]; !n.Since.IsZero() && (t.IsZero() || n.Since.Before(t)) {
			oldest[n.Topic] = n.Since
		}
	}
	return oldest
}

// BaseIn returns the name of a base that the store has, whichever the ledger names, "" if there is none, or if they are of another
// cluster's ledger. It waits for a store that does not answer.
func (c *Checkpoints) BaseIn(ctx context.Context, cluster string, log *slog.Logger, events func(Event)) (name string, err error) {
	objects, err := c.Bases.Store.List(ctx)
	for away := (*base.AwayError)(nil); errors.As(err, &away); objects, err = c.Bases.Store.List(ctx) {
		log.Warn("this start waits for the store of bases: the ledger is empty, and there may be a base of a graph "+
			"whose ledger is lost (--begin-again begins without looking)", "err", away)
		events(Waiting{"waiting for the store of bases: " + away.Error()})
		if err := kafka.Sleep(ctx, storePause); err != nil {
			return "", err
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if owner, err := base.OwnerOf(ctx, c.Bases.Store); err != nil || owner != nil && owner.Cluster != cluster {
		return "", err
	}
	for _, o := range objects {
		var n base.Name
		if n.UnmarshalText([]byte(o)) == nil {
			name = o
		}
	}
	return name, nil
}

// SourcesOf returns the files of a state in a file, to be stored, and a function that closes them.
func SourcesOf(path string) (files []base.Source, closeAll func(), err error) {
	var open []*os.File
	closeAll = func() {
		for _, f := range open {
			_ = f.Close()
		}
	}
	add := func(name, path string) error {
		f, size, err := checkpoint.OpenFile(path)
		if err == nil {
			open = append(open, f)
			files = append(files, base.Source{File: base.File{Name: name, Bytes: size}, Reader: f})
		}
		return err
	}
	if err := add(stateFile, path); err != nil {
		return nil, closeAll, err
	}
	blocks, err := os.ReadDir(checkpoint.Blocks(path))
	if errors.Is(err, fs.ErrNotExist) {
		return files, closeAll, nil
	}
	for _, b := range blocks {
		err = errors.Join(err, add("blocks/"+b.Name(), filepath.Join(checkpoint.Blocks(path), b.Name())))
	}
	return files, closeAll, err
}
