package replay

import (
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

// SettingsToWrite returns the settings for the ledger and for checkpoints: the
// ledger's own or, if it is empty or of other settings, the engine's.
func (p *Replayer) SettingsToWrite() Settings {
	if !p.settings.Own {
		p.settings = Settings{All: p.cfg.Terms.Settings, Hash: p.cfg.Terms.Settings.Hash(), program: p.cfg.Terms.Program, Own: true}
	}
	return p.settings
}

// ReadSettings reads the settings of a record or a cut.
func (p *Replayer) ReadSettings(ctx context.Context, t *ledger.Terms) error {
	if t.Settings == p.settings.Hash && t.Settings != "" {
		return nil
	}
	s := Settings{Hash: t.Settings}
	if t.Settings == p.cfg.Terms.Settings.Hash() {
		s.All = p.cfg.Terms.Settings
	} else {
		first, err := p.firstWith(ctx, t)
		if err != nil {
			return err
		}
		if first != nil {
			s.All = first.Configuration
			if first.Begins != nil {
				s.program = first.Begins.Program
			}
		}
	}
	s.Own = p.cfg.Terms.isOwn(s.All)
	p.settings = s
	return nil
}

// firstWith returns the terms that hold the settings of others, nil if their record is gone.
func (p *Replayer) firstWith(ctx context.Context, t *ledger.Terms) (*ledger.Terms, error) {
	if t.Configuration != "" {
		return t, nil
	}
	return ledger.FindSettings(ctx, p.client, p.cfg.Terms.Names.LedgerAt(), t.Settings)
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

// CompareTerms returns how the terms of a record and those of this worker differ, nil if
// they do not. It is an error if the model has another role there, which is a matter of
// commands and not of epochs.
func (p *Replayer) CompareTerms(ctx context.Context, r *ledger.Record) (*mismatch, error) {
	if err := p.cfg.Terms.checkRole(r); err != nil {
		return nil, err
	}
	if err := p.ReadSettings(ctx, &r.Terms); err != nil {
		return nil, err
	}
	name, serves := p.cfg.Terms.Names.Ledger, r.Serves()
	var changes []string
	if s := p.settings; !s.Own {
		if s.All == "" {
			return nil, fmt.Errorf("ledger %s was written with settings %.20q, and %w", name, s.Hash, ErrSettingsGone)
		}
		for _, d := range event.Diff(p.cfg.Terms.effective(s.All), p.cfg.Terms.Settings) {
			changes = append(changes, d.Change())
		}
	}
	if !p.cfg.Terms.Has(serves) {
		changes = append(changes, fmt.Sprintf("model %s to %s", serves, p.cfg.Terms.Model))
	}
	switch {
	case len(changes) == 0:
		return nil, nil
	case !p.cfg.Terms.Has(serves) && p.settings.Own:
		return &mismatch{changes[0], fmt.Sprintf("ledger %s belongs to model %s, and this is model %s: start the other "+
			"model with --shadow beside the first, or begin an epoch of it with --rebase (docs/upgrade.md)", name, serves,
			p.cfg.Terms.Model)}, nil
	}
	return &mismatch{strings.Join(changes, ", "), p.settings.differ(p.cfg.Terms)}, nil
}

// differ returns the error for a ledger of other settings than the engine's. Its remedy
// keeps the ledger and the inputs.
func (s Settings) differ(t *Terms) string {
	differ := event.Diff(t.effective(s.All), t.Settings)
	i := slices.IndexFunc(differ, func(d event.Difference) bool { return d.Name == engineSetting })
	if i < 0 {
		return fmt.Sprintf("ledger %s was written with other settings: %s; start with the ledger's settings, or begin "+
			"an epoch of these with --rebase (docs/upgrade.md)", t.Names.Ledger, event.Describe(differ))
	}
	return fmt.Sprintf("ledger %s was written by %s, and this is %s: begin an epoch of this one with --rebase "+
		"(docs/upgrade.md), or start the program that wrote it",
		t.Names.Ledger, nameProgram(s.program, differ[i].A), nameProgram(t.Program, differ[i].B))
}

// engineSetting is the name of the setting that holds the engine's version.
const engineSetting = "engine"

func nameProgram(version, engine string) string {
	if version == "" {
		return "a program of engine " + engine
	}
	return fmt.Sprintf("gvbll %.60q (engine %s)", version, engine)
}

// Epoch is an epoch of a ledger.
type Epoch struct {
	Number   int64
	First    int64          // its first window that the ledger has
	Settings event.Settings // "" if no record holds them any more
	Models   []string       // that served, or were in the shadow
}

// Epochs returns the epochs of a ledger, as far as it has them.
func Epochs(ctx context.Context, c *kafka.Client, names topics.Names) (list []Epoch, err error) {
	p := New(c, Config{Terms: &Terms{Names: names}}, nil)
	wrong := ledger.Scan(ctx, c, names.LedgerAt(), func(r *ledger.Record) bool {
		if n := len(list); n == 0 || list[n-1].Number != r.Epoch {
			if err = p.ReadSettings(ctx, &r.Terms); err != nil {
				return false
			}
			list = append(list, Epoch{Number: r.Epoch, First: r.Window, Settings: p.settings.All})
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
