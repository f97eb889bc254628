package worker

import (
	"context"
	"fmt"
	"strings"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// settings are those of a ledger, as its records name them.
type settings struct {
	all  ledger.Settings
	hash string
	line string // in format 1, "" where no record of it was read
}

// settingsToWrite returns the settings for the ledger and for checkpoints: the
// ledger's own or, while it is empty, the engine's.
func (p *replayer) settingsToWrite() settings {
	if p.settings.all == "" {
		p.settings = settings{all: p.cfg.Settings, hash: p.cfg.Settings.Hash()}
	}
	return p.settings
}

// checkSettings returns an error when the record was written with settings that are
// not the engine's. It names those that differ.
func (p *replayer) checkSettings(ctx context.Context, r *ledger.Record) error {
	known := r.Settings == p.settings.hash
	if r.Version == 1 {
		known = r.Settings == p.settings.line
	}
	if known && r.Settings != "" {
		return nil
	}
	there := p.cfg.Settings
	if r.Version == 1 || r.Settings != there.Hash() {
		var err error
		if there, err = settingsOf(ctx, p.client, p.cfg, r); err != nil {
			return err
		}
	}
	effective := there
	if p.cfg.Effective != nil && there != "" {
		effective = p.cfg.Effective(there)
	}
	if effective != p.cfg.Settings {
		return differ(p.cfg, r, effective)
	}
	p.settings.all, p.settings.hash = there, there.Hash()
	if r.Version == 1 {
		p.settings.line = r.Settings
	}
	return nil
}

// settingsOf returns the settings that the record was written with, "" when the
// ledger does not hold them any more.
func settingsOf(ctx context.Context, c *kafka.Client, cfg *Config, r *ledger.Record) (ledger.Settings, error) {
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

// differ says how the record's settings differ from the engine's. The remedy keeps
// the ledger and the inputs as they are.
func differ(cfg *Config, r *ledger.Record, there ledger.Settings) error {
	if there == "" {
		return fmt.Errorf("ledger %s was written with settings %s, and these are %s: start with the settings that it was begun with", cfg.Names.Ledger, r.Settings, cfg.Settings.Hash())
	}
	remedy := "start with the ledger's settings"
	var names []string
	for _, d := range ledger.Diff(there, cfg.Settings) {
		names = append(names, d.String())
		if d.Name == "engine" {
			remedy = "start the program of the ledger's engine, with the ledger's settings"
		}
	}
	return fmt.Errorf("ledger %s was written with other settings: %s; %s", cfg.Names.Ledger, strings.Join(names, ", "), remedy)
}

// LedgerSettings returns the settings that a ledger was begun with, for an audit that
// has no others: from its first record or, when that is gone, from a checkpoint's meta,
// which may be nil. They are "" when the ledger is empty. Of cfg it uses the names and
// SettingsOfLine.
func LedgerSettings(ctx context.Context, c *kafka.Client, cfg Config, meta map[string]string) (ledger.Settings, error) {
	r, err := ledger.First(ctx, c, cfg.Names.Ledger)
	if r == nil || err != nil {
		return "", err
	}
	there, err := settingsOf(ctx, c, &cfg, r)
	if err != nil || there != "" {
		return there, err
	}
	at, err := positionOf(meta)
	if err != nil || at.Settings == "" {
		return "", fmt.Errorf("the first records of ledger %s are gone, and with them the settings that it was written with: begin at a checkpoint, which has them", cfg.Names.Ledger)
	}
	return at.Settings, nil
}
