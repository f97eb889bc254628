package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// The terms of a stretch of a ledger are the engine's version, its settings, and the model
// that serves. A replay steps windows of any terms. It compares hashes where the terms
// are its own: elsewhere its engine has other bits by right.

// Settings are the settings of a stretch of a ledger.
type Settings struct {
	All     event.Settings // as in the first record; "" if no record holds them any more
	Hash    string         // of all, as in every record
	program string         // version of the program that wrote the first record, "" if unknown
	Own     bool           // they are the engine's, except for some that have no effect on it
}

// stretch is the stretch of a ledger that a reader is in: that of the record read last.
type stretch struct {
	client   *kafka.Client
	terms    *Terms
	settings Settings
}

// NewStretch returns one before the ledger's beginning, for a reader with an engine of these terms.
func NewStretch(c *kafka.Client, t *Terms) *stretch { return &stretch{client: c, terms: t} }

// Settings returns the settings of the record that was read last.
func (s *stretch) Settings() Settings { return s.settings }

// ToWrite returns the settings for the ledger and for checkpoints: the
// ledger's own or, if it is empty or of other settings, the engine's.
func (s *stretch) ToWrite() Settings {
	if t := s.terms; !s.settings.Own {
		s.settings = Settings{All: t.Settings, Hash: t.Settings.Hash(), program: t.Program, Own: true}
	}
	return s.settings
}

// begin begins with the settings that a checkpoint has.
func (s *stretch) begin(all event.Settings) {
	s.settings = Settings{All: all, Hash: all.Hash(), Own: s.terms.isOwn(all)}
}

// Read reads the settings of a record or a cut.
func (s *stretch) Read(ctx context.Context, t *ledger.Terms) error {
	if t.Settings == s.settings.Hash && t.Settings != "" {
		return nil
	}
	read := Settings{Hash: t.Settings}
	if t.Settings == s.terms.Settings.Hash() {
		read.All = s.terms.Settings
	} else {
		first, err := s.firstWith(ctx, t)
		if err != nil {
			return err
		}
		if first != nil {
			read.All = first.Configuration
			if first.Begins != nil {
				read.program = first.Begins.Program
			}
		}
	}
	read.Own = s.terms.isOwn(read.All)
	s.settings = read
	return nil
}

// firstWith returns the terms that hold the settings of others, nil if their record is gone.
func (s *stretch) firstWith(ctx context.Context, t *ledger.Terms) (*ledger.Terms, error) {
	if t.Configuration != "" {
		return t, nil
	}
	return ledger.FindSettings(ctx, s.client, s.terms.Names.LedgerAt(), t.Settings)
}

// Beginning returns what the first record of an epoch of these terms says of it.
func (t *Terms) Beginning(why string) *ledger.Beginning {
	return &ledger.Beginning{Why: why, Program: t.Program, Features: t.Features}
}

// isOwn reports whether the settings are the engine's, except for some that have no effect
// on its models.
func (t *Terms) isOwn(written event.Settings) bool {
	return written != "" && t.effective(written) == t.Settings
}

func (t *Terms) effective(written event.Settings) event.Settings {
	if t.Effective == nil {
		return written
	}
	return t.Effective(written)
}

// mismatch is how the terms of a ledger and those of a worker differ.
type mismatch struct {
	Why  string // the changes from the ledger's terms, for the record of the epoch that begins with them
	Line string // the same as an error, with the remedy
}

// ErrSettingsGone says that no record holds the settings any more.
var ErrSettingsGone = errors.New("the record that had them is gone: give --state-dir with a checkpoint of this ledger")

// Compare returns how the terms of a record and those of this worker differ, nil if
// they do not. It is an error if the model has another role there, which is a matter of
// commands and not of epochs.
func (s *stretch) Compare(ctx context.Context, r *ledger.Record) (*mismatch, error) {
	if err := s.terms.checkRole(r); err != nil {
		return nil, err
	}
	if err := s.Read(ctx, &r.Terms); err != nil {
		return nil, err
	}
	name, serves, t := s.terms.Names.Ledger, r.Serves(), s.terms
	var changes []string
	if read := s.settings; !read.Own {
		if read.All == "" {
			return nil, fmt.Errorf("ledger %s was written with settings %.20q, and %w", name, read.Hash, ErrSettingsGone)
		}
		for _, d := range event.Diff(t.effective(read.All), t.Settings) {
			changes = append(changes, d.Change())
		}
	}
	if !t.Has(serves) {
		changes = append(changes, fmt.Sprintf("model %s to %s", serves, t.Model))
	}
	switch {
	case len(changes) == 0:
		return nil, nil
	case !t.Has(serves) && s.settings.Own:
		return &mismatch{changes[0], fmt.Sprintf("ledger %s belongs to model %s, and this is model %s: %s", name, serves, t.Model,
			cmp.Or(t.Remedy, "start the other model with --shadow beside the first, or begin an epoch of it with --rebase "+
				"(docs/upgrade.md)"))}, nil
	}
	return &mismatch{strings.Join(changes, ", "), s.settings.differ(t)}, nil
}

// differ returns the error for a ledger of other settings than the engine's. Its remedy
// keeps the ledger and the inputs.
func (s Settings) differ(t *Terms) string {
	differ := event.Diff(t.effective(s.All), t.Settings)
	i := slices.IndexFunc(differ, func(d event.Difference) bool { return d.Name == engineSetting })
	if i < 0 {
		return fmt.Sprintf("ledger %s was written with other settings: %s; start with the ledger's settings, or %s", t.Names.Ledger,
			event.Describe(differ), cmp.Or(t.Remedy, "begin an epoch of these with --rebase (docs/upgrade.md)"))
	}
	return fmt.Sprintf("ledger %s was written by %s, and this is %s: %s, or start the program that wrote it", t.Names.Ledger,
		nameProgram(s.program, differ[i].A), nameProgram(t.Program, differ[i].B),
		cmp.Or(t.Remedy, "begin an epoch of this one with --rebase (docs/upgrade.md)"))
}

// engineSetting is the name of the setting that holds the engine's version.
const engineSetting = "engine"

func nameProgram(version, engine string) string {
	if version == "" {
		return "a program of engine " + engine
	}
	return fmt.Sprintf("gvbll %.60q (engine %s)", version, engine)
}

// epoch is an epoch of a ledger.
type epoch struct {
	Number   int64
	First    int64          // its first window that the ledger has
	Settings event.Settings // "" if no record holds them any more
	Models   []string       // that served, or were in the shadow
}

// Epochs returns the epochs of a ledger, as far as it has them.
func Epochs(ctx context.Context, c *kafka.Client, names topics.Names) (list []epoch, err error) {
	s := NewStretch(c, &Terms{Names: names})
	wrong := ledger.Scan(ctx, c, names.LedgerAt(), func(r *ledger.Record) bool {
		if n := len(list); n == 0 || list[n-1].Number != r.Epoch {
			if err = s.Read(ctx, &r.Terms); err != nil {
				return false
			}
			list = append(list, epoch{Number: r.Epoch, First: r.Window, Settings: s.settings.All})
		}
		e := &list[len(list)-1]
		models := []string{r.Model, r.Promoted}
		if r.Shadow != nil {
			models = append(models, r.Shadow.Model)
		}
		for _, m := range models {
			if m != "" && !slices.Contains(e.Models, m) {
				e.Models = append(e.Models, m)
			}
		}
		return true
	})
	return list, errors.Join(err, wrong)
}

// CheckpointSettings returns the settings of the engine in a checkpoint with this meta, ""
// if it does not have them.
func CheckpointSettings(meta map[string]string) (event.Settings, error) {
	at, err := positionOf(meta)
	return at.Settings, err
}
