package pipeline

import (
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/snapshots"
)

// What callers of an engine get from the rooms below it.
type (
	// Blocks is [serve.Blocks].
	Blocks = serve.Blocks
	// Coverage is [parts.Coverage].
	Coverage = parts.Coverage
	// Rescoring is [parts.Rescoring].
	Rescoring = parts.Rescoring
	// Summary is [serve.Summary].
	Summary = serve.Summary
	// Cohorts is [serve.Cohorts].
	Cohorts = serve.Cohorts
	// Opinion is [serve.Opinion].
	Opinion = serve.Opinion
	// Pooled is [heads.Pooled].
	Pooled = heads.Pooled
)

// Errors of [RestorePair].
var (
	ErrDamaged  = snapshots.ErrDamaged
	ErrNotThere = snapshots.ErrNotThere
)
