// Package crash kills the process at named points, to test recovery from what is left
// behind. Without the build tag crashpoints a point does nothing and is compiled
// away.
package crash

// Points lists the names of all points, in the order in which a worker passes them:
// taking over, beginning an epoch, committing a window, writing a checkpoint, forgetting
// nodes.
var Points = []string{
	BeforeFence, AfterFence, Recovered, BeforeEpoch, InEpoch,
	BeforeAdd, AfterAdd, BeforeProduce, AfterProduce, BeforeOffsets, AfterOffsets, BeforeEnd, AfterEnd, Committed,
	BeforeCheckpoint, InCheckpoint, BeforeSync, AfterSync, BeforeRename, AfterRename, AfterDirSync, AfterPrune,
	BeforeForget, InForget, AfterForget,
}

// OfBases lists the names of the further points of a worker that writes bases.
var OfBases = []string{BeforeBase, InBase, AfterBase, NamedBase, InSweep, BeforePurge, AfterPurge}

// The names of the points, in groups: taking over a graph, beginning an epoch, committing a
// transaction, writing a checkpoint, forgetting nodes.
const (
	BeforeFence = "before-fence" // elected, and the former owner not fenced yet
	AfterFence  = "after-fence"
	Recovered   = "recovered" // the ledger is replayed to its end

	BeforeEpoch = "before-epoch" // on other terms than the ledger's, which is replayed to its end
	InEpoch     = "in-epoch"     // the epoch's first window is stepped, and not committed yet

	BeforeAdd     = "before-add-partitions"
	AfterAdd      = "after-add-partitions"
	BeforeProduce = "before-produce"
	AfterProduce  = "after-produce"
	BeforeOffsets = "before-add-offsets"
	AfterOffsets  = "after-add-offsets"
	BeforeEnd     = "before-end"
	AfterEnd      = "after-end" // the broker has answered that it is committed
	Committed     = "committed" // the worker's loop has received the outcome

	BeforeCheckpoint = "before-checkpoint"
	InCheckpoint     = "in-checkpoint" // some of the file is written
	BeforeSync       = "before-fsync"
	AfterSync        = "after-fsync"
	BeforeRename     = "before-rename"
	AfterRename      = "after-rename"
	AfterDirSync     = "after-directory-fsync"
	AfterPrune       = "after-prune" // the oldest checkpoints are removed

	BeforeBase  = "before-base" // its state is in a file, and nothing in the store
	InSweep     = "in-sweep"    // some of what no base needs is deleted
	InBase      = "in-base"     // an object of it is to be stored, the list last
	AfterBase   = "after-base"  // it is stored whole, and no ledger record names it
	NamedBase   = "named-base"  // a record that is committed names it
	BeforePurge = "before-purge"
	AfterPurge  = "after-purge" // the ledger's records before the oldest base are deleted

	BeforeForget = "before-forget" // all windows before are committed
	InForget     = "in-forget"     // some windows are replayed without the nodes
	AfterForget  = "after-forget"  // the engine is replaced, and the command's window not committed yet
)
