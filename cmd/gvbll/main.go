// Command gvbll classifies the nodes of a growing graph as they arrive in
// Kafka, with calibrated probabilities. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/gvbll/gvbll/cmd/lab/table"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the command failed, or was interrupted
	exitUsage  = 2 // the command line, the environment or the file of flags is wrong
)

func main() {
	boundGarbage()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], process{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ()})
	stop()
	os.Exit(code)
}

// cli is the command line. Every flag can also be given as an environment
// variable, GVBLL_ and its name in capitals, and in a file of flags.
type cli struct {
	Config    kong.ConfigFlag `help:"Read flags from this YAML file, such as 'brokers: [kafka:9092]'. The command line and the environment take precedence." type:"path" placeholder:"FILE" group:"global"`
	LogLevel  slog.Level      `help:"Log messages of this level and above: debug, info, warn or error." default:"info" placeholder:"info" group:"global"`
	LogFormat string          `help:"Format of the log: text or json." enum:"text,json" default:"text" placeholder:"text" group:"global"`

	Demo     demoCmd     `cmd:"" help:"Run everything once on this machine: broker, training, stream, late labels, scores." group:"serve"`
	Generate generateCmd `cmd:"" help:"Write a synthetic graph that drifts as a data set." group:"serve"`
	Train    trainCmd    `cmd:"" help:"Train a model on a data set and save it (Phase 1)." group:"serve"`
	Work     workCmd     `cmd:"" help:"Classify the nodes of a topic as they arrive, and learn from their labels (Phase 2)." group:"serve"`
	Retrain  retrainCmd  `cmd:"" help:"Train a model on what a graph's ledger has, and try it beside the one that serves." group:"serve"`
	Export   exportCmd   `cmd:"" help:"Write the graph that a ledger has as a data set." group:"serve"`
	Send     sendCmd     `cmd:"" help:"Send a data set, or a file of events, to the input topics." group:"serve"`
	Tail     tailCmd     `cmd:"" help:"Print predictions as they are published." group:"serve"`

	Status      statusCmd      `cmd:"" help:"Say how a graph is doing: workers, lag, labels, scores, and what is wrong." group:"operate"`
	Report      reportCmd      `cmd:"" help:"Write how a graph did over a time as one HTML file." group:"operate"`
	Topics      topicsCmd      `cmd:"" help:"List the topics, or create them." group:"operate"`
	Ledger      ledgerCmd      `cmd:"" help:"Print the ledger: where each window was cut, and its result." group:"operate"`
	Audit       auditCmd       `cmd:"" help:"Replay the ledger and prove that what was published is what the model predicts." group:"operate"`
	Rebase      rebaseCmd      `cmd:"" help:"Begin an epoch of the ledger, of another program, model or settings." group:"operate"`
	Size        sizeCmd        `cmd:"" help:"Compute the memory of a graph, and what its shards exchange, before there is one." group:"operate"`
	Inspect     inspectCmd     `cmd:"" help:"Describe a model file." group:"operate"`
	DeadLetters deadLettersCmd `cmd:"" help:"List the records that were refused, and why, or send them again." group:"operate"`
	Promote     promoteCmd     `cmd:"" help:"Let the shadow model serve." group:"operate"`
	Forget      forgetCmd      `cmd:"" help:"Erase nodes exactly, by replaying the stream without them." group:"operate"`

	Table       tableCmd       `cmd:"" help:"Run the paper's comparison (Table I): twelve systems on the same streams." group:"measure"`
	Coverage    coverageCmd    `cmd:"" help:"Measure how sets of classes keep their coverage under drift and with late labels." group:"measure"`
	Sensitivity sensitivityCmd `cmd:"" help:"Measure how the online update depends on its constants, batch size and training nodes." group:"measure"`
	Bench       benchCmd       `cmd:"" help:"Measure the cost of an arrival in the graph, the engine and a broker." group:"measure"`

	Completion completionCmd `cmd:"" help:"Print a completion script for a shell." group:"other"`
	Version    versionCmd    `cmd:"" help:"Print the version." group:"other"`
}

// newParser returns the parser of the command line into c. It calls exit when the
// program should end at once, as after --help.
func newParser(ctx context.Context, c *cli, p process, exit func(int)) *kong.Kong {
	parser, err := kong.New(c,
		kong.Name("gvbll"),
		kong.Description("Classifies the nodes of a growing graph as they arrive in Kafka, with probabilities that can be trusted. Start with 'gvbll demo'.\n\n"+
			"A flag can also be set in the environment, as GVBLL_ and its name in capitals (--log-level as GVBLL_LOG_LEVEL), and in the file that --config names. The command line overrides the environment, and the environment the file.\n\n"+
			"Exit codes: 0 done, 1 failed or interrupted, 2 wrong command line."),
		kong.PostBuild(placeHelp),
		kong.PostBuild(p.nameConfig),
		kong.PostBuild(hideSecurity),
		kong.Configuration(configLoader(p)),
		kong.Resolvers(environment{p}),
		kong.Writers(p.Out, p.Err),
		kong.Exit(exit),
		kong.ExplicitGroups(groups),
		kong.Help(printHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.ValueFormatter(func(v *kong.Value) string { return v.Help }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Vars{
			"default_http": "127.0.0.1:8473",
			"systems":      strings.Join(table.Known, ", "),
			"benchmarks":   strings.Join(benchmarkNames(), ", "),
			"parameters":   strings.Join(table.Parameters, ", "),
		},
	)
	if err != nil {
		panic(err) // the grammar above is wrong
	}
	return parser
}

// run runs a command line and returns the exit code. Tests call it instead of main.
func run(ctx context.Context, args []string, p process) int {
	var c cli
	exit := -1
	parser := newParser(ctx, &c, p, func(code int) { exit = code })
	k, err := parser.Parse(usualForms(args))
	if exit >= 0 { // --help was answered
		return exit
	}
	if err != nil {
		fmt.Fprintf(p.Err, "gvbll: %v (see gvbll --help)\n", err)
		return exitUsage
	}
	options := &slog.HandlerOptions{Level: c.LogLevel}
	p.Log = slog.New(slog.NewTextHandler(p.Err, options))
	if c.LogFormat == "json" {
		p.Log = slog.New(slog.NewJSONHandler(p.Err, options))
	}
	err = k.Run(p, flagsGiven(k, p))
	if err == nil {
		return exitOK
	}
	line := strings.ReplaceAll(err.Error(), "\n", "; ")
	var usage usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(p.Err, "gvbll: %s (see gvbll %s --help)\n", line, k.Command())
		return exitUsage
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		line = "interrupted"
	}
	fmt.Fprintf(p.Err, "gvbll: %s\n", line)
	return exitFailed
}

// usualForms rewrites command lines that work with many programs, no arguments, 'help
// COMMAND' and --version, in the form that the parser knows.
func usualForms(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(args[1:len(args):len(args)], "--help")
	case slices.Contains(args, "--version"):
		return []string{"version"}
	}
	return args
}

// usageError is an error of a command line whose flags parse, but whose values or
// combination are wrong.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// setting matches the beginning of a line about a setting that is out of range.
var setting = regexp.MustCompile(`(?m)^[a-z-]+ \S+: `)

// settingError turns an error about settings, "lambda 2: give …", into a usage error
// about the flags of the same names, "--lambda 2: give …".
func settingError(err error) error {
	if err == nil {
		return nil
	}
	line := ofUpdate.ReplaceAllString(err.Error(), "update $1=$2: ")
	return usageError{errors.New(setting.ReplaceAllString(line, "--$0"))}
}

// ofUpdate matches the same for a setting that is a part of --update.
var ofUpdate = regexp.MustCompile(`(?m)^(eta|beta|clip|walk|batch) (\S+): `)
