// Command gvbll classifies the nodes of a growing graph as they arrive in
// Kafka, with calibrated probabilities. See README.md.
package main

import (
	"slices"

	"github.com/alecthomas/kong"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
)

func main() { program(new(cli)).Main(versionString()) }

// cli is the command line. Every flag can also be given as an environment
// variable, GVBLL_ and its name in capitals, and in a file of flags.
type cli struct {
	Demo     demoCmd     `cmd:"" help:"Run everything once on this machine: broker, training, stream, late labels, scores." group:"serve"`
	Backtest backtestCmd `cmd:"" help:"Say how a model would have done on a table with dates and late labels, beside rivals." group:"serve"`
	Train    trainCmd    `cmd:"" help:"Train a model on a data set and save it (Phase 1)." group:"serve"`
	Work     workCmd     `cmd:"" help:"Classify the nodes of a topic as they arrive, and learn from their labels (Phase 2)." group:"serve"`
	Retrain  retrainCmd  `cmd:"" help:"Train a model on what a graph's ledger has, and try it beside the one that serves." group:"serve"`
	Export   exportCmd   `cmd:"" help:"Write the graph that a ledger has as a data set." group:"serve"`
	Send     sendCmd     `cmd:"" help:"Send a data set, or a file of events, to the input topics." group:"serve"`
	Tail     tailCmd     `cmd:"" help:"Print predictions as they are published." group:"serve"`

	Status      statusCmd      `cmd:"" help:"Say how a graph is doing: workers, lag, labels, scores, and what is wrong." group:"operate"`
	Report      reportCmd      `cmd:"" help:"Write how a graph did over a time as one HTML file." group:"operate"`
	Map         mapCmd         `cmd:"" help:"Show what a map makes of the records of a topic." group:"operate"`
	Topics      topicsCmd      `cmd:"" help:"List the topics, or create them." group:"operate"`
	Ledger      ledgerCmd      `cmd:"" help:"Print the ledger: where each window was cut, and its result." group:"operate"`
	Audit       auditCmd       `cmd:"" help:"@cli_audit" group:"operate"`
	Rebase      rebaseCmd      `cmd:"" help:"Begin an epoch of the ledger, of another program, model or settings." group:"operate"`
	Inspect     inspectCmd     `cmd:"" help:"Describe a model file." group:"operate"`
	Size        sizeCmd        `cmd:"" help:"Compute what a graph takes: memory by part, disk, network." group:"operate"`
	DeadLetters deadLettersCmd `cmd:"" help:"List the records that were refused, and why, or send them again." group:"operate"`
	Promote     promoteCmd     `cmd:"" help:"Let the shadow model serve." group:"operate"`
	Forget      forgetCmd      `cmd:"" help:"Erase nodes exactly, by replaying the stream without them." group:"operate"`

	Probe   probeCmd   `cmd:"" help:"Say by the exit code whether a worker on this machine answers." group:"other"`
	Version versionCmd `cmd:"" help:"Print the version, the commit, and the formats that are read and written." group:"other"`
}

var cliHelp = flags.Texts{
	"cli_audit": "Replay the ledger and prove that what was published is what the model predicts.",
}

// program returns the program with the commands c.
func program(c *cli) flags.Program {
	c.Work.Engine, c.Rebase.Engine = flags.NewEngine(), flags.NewEngine()
	c.Demo.Engine = flags.NewEngine(append(flags.PaperFlags, "coverage", "abstain", "act", "learn-lag")...)
	c.Backtest.Engine = flags.NewEngine(slices.Concat(flags.PaperFlags, []string{"learn-lag"})...)
	return flags.Program{
		Name: "gvbll", Commands: c,
		Description: "Classifies the nodes of a growing graph as they arrive in Kafka, with probabilities that can " +
			"be trusted. Start with 'gvbll demo'.",
		Vars: kong.Vars{"default_http": "127.0.0.1:8473"},
		Help: []flags.Texts{
			cliHelp, auditHelp, backtestHelp, deadLettersHelp, demoHelp, exportHelp, forgetHelp, rebaseHelp, reportHelp,
			retrainHelp, sendHelp, tailHelp, topicsHelp, trainHelp, modelHelp, logHelp, workHelp, windowHelp,
		},
	}
}
