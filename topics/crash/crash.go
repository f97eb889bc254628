// Package crash has the process killed at named points, for tests of what is
// left behind. Without the build tag crashpoints its points are nothing, and
// compiled away.
package crash

// Points lists the names of all points, in the order in which a worker that
// commits a window and keeps a checkpoint passes them.
var Points = []string{
	BeforeFence, AfterFence, Recovered,
	BeforeAdd, AfterAdd, BeforeProduce, AfterProduce, BeforeOffsets, AfterOffsets, BeforeEnd, AfterEnd, Committed,
	BeforeCheckpoint, InCheckpoint, BeforeSync, AfterSync, BeforeRename, AfterRename, AfterDirSync, AfterPrune,
	BeforeForget, InForget, AfterForget,
}

// The points: of taking over, of a transaction, of a checkpoint, and of forgetting
// nodes.
const (
	BeforeFence = "before-fence" // elected, and the former owner not fenced
	AfterFence  = "after-fence"
	Recovered   = "recovered" // the ledger is replayed to its end

	BeforeAdd     = "before-add-partitions"
	AfterAdd      = "after-add-partitions"
	BeforeProduce = "before-produce"
	AfterProduce  = "after-produce"
	BeforeOffsets = "before-add-offsets"
	AfterOffsets  = "after-add-offsets"
	BeforeEnd     = "before-end"
	AfterEnd      = "after-end" // the broker has said that it is committed
	Committed     = "committed" // and the worker's loop has heard of it

	BeforeCheckpoint = "before-checkpoint"
	InCheckpoint     = "in-checkpoint" // a part of the file is written
	BeforeSync       = "before-fsync"
	AfterSync        = "after-fsync"
	BeforeRename     = "before-rename"
	AfterRename      = "after-rename"
	AfterDirSync     = "after-directory-fsync"
	AfterPrune       = "after-prune" // older checkpoints are removed

	BeforeForget = "before-forget" // what was stepped is committed
	InForget     = "in-forget"     // a window was replayed without the nodes
	AfterForget  = "after-forget"  // the engines are exchanged, and nothing of it is committed
)
