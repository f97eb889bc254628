package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// settings are the settings of a ledger, in the forms that its records have.
type settings struct {
	all  event.Settings // as in the first record
	hash string         // of all, as in every record
	line string         // as in the records of format 1; "" if none was read
}

// settingsToWrite returns the settings for the ledger and for checkpoints: the
// ledger's own or, while it is empty, the engine's.
func (p *replayer) settingsToWrite() settings {
	if p.settings.all == "" {
		p.settings = settings{all: p.cfg.Settings, hash: p.cfg.Settings.Hash()}
	}
	return p.settings
}

// checkSettings returns an error that names the differences if the record was written
// with other settings than the engine's.
func (p *replayer) checkSettings(ctx context.Context, r *ledger.Record) error {
	known := r.Settings == p.settings.hash
	if r.Version == 1 {
		known = r.Settings == p.settings.line
	}
	if known && r.Settings != "" {
		return nil
	}
	written := p.cfg.Settings
	if r.Version == 1 || r.Settings != written.Hash() {
		var err error
		if written, err = settingsOf(ctx, p.client, p.cfg, r); err != nil {
			return err
		}
	}
	effective := written
	if p.cfg.Effective != nil && written != "" {
		effective = p.cfg.Effective(written)
	}
	if effective != p.cfg.Settings {
		return settingsError(p.cfg, r, effective)
	}
	p.settings.all, p.settings.hash = written, written.Hash()
	if r.Version == 1 {
		p.settings.line = r.Settings
	}
	return nil
}

// settingsOf returns the settings that the record was written with, "" if the ledger no
// longer has them.
func settingsOf(ctx context.Context, c *kafka.Client, cfg *Config, r *ledger.Record) (event.Settings, error) {
	switch {
	case r.Configuration != "":
		return r.Configuration, nil
	case r.Version > 1:
		return ledger.FindSettings(ctx, c, cfg.Names.Ledger, r.Settings)
	case cfg.SettingsOfLine != nil:
		return cfg.SettingsOfLine(r.Settings), nil
	}
	return "", nil
}

// settingsError returns the error for a record that was written with other settings than
// the engine's, "" if they are unknown. Its remedy keeps the ledger and the inputs.
func settingsError(cfg *Config, r *ledger.Record, written event.Settings) error {
	if written == "" {
		return fmt.Errorf("ledger %s was written with settings %s, and these are %s: start with the settings that the ledger was begun with", cfg.Names.Ledger, r.Settings, cfg.Settings.Hash())
	}
	differ := event.Diff(written, cfg.Settings)
	remedy := "start with the ledger's settings"
	if slices.ContainsFunc(differ, func(d event.Difference) bool { return d.Name == "engine" }) {
		remedy = "start the program of the ledger's engine, with the ledger's settings"
	}
	return fmt.Errorf("ledger %s was written with other settings: %s; %s", cfg.Names.Ledger, event.Describe(differ), remedy)
}

// LedgerSettings returns the settings that a ledger was begun with, for an audit: from
// its first record or, if that is gone, from a checkpoint's meta, which may be nil. They
// are "" if the ledger is empty. Of cfg it uses Names and SettingsOfLine.
func LedgerSettings(ctx context.Context, c *kafka.Client, cfg Config, meta map[string]string) (event.Settings, error) {
	r, err := ledger.First(ctx, c, cfg.Names.Ledger)
	if r == nil || err != nil {
		return "", err
	}
	written, err := settingsOf(ctx, c, &cfg, r)
	if err != nil || written != "" {
		return written, err
	}
	at, err := positionOf(meta)
	if err != nil || at.Settings == "" {
		return "", fmt.Errorf("the first records of ledger %s are gone, and its settings with them: begin at a checkpoint, which has the settings", cfg.Names.Ledger)
	}
	return at.Settings, nil
}
