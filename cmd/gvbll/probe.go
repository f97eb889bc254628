package main

import (
	"context"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/service"
)

type probeCmd struct {
	HTTP service.HTTPFlags `embed:""`
}

// Help is shown by gvbll probe --help.
func (probeCmd) Help() string {
	return "Asks /healthz, with the worker's own flags or environment. It believes any certificate. Where clients " +
		"need certificates it fails."
}

// Run returns an error unless the worker answers.
func (c probeCmd) Run(ctx context.Context, p flags.Process) error { return c.HTTP.Probe(ctx, p) }
