// Command gvbll classifies the nodes of a growing graph as they arrive in
// Kafka, with calibrated probabilities. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/gvbll/gvbll/cmd/gvbll/table"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the work could not be done, or was interrupted
	exitUsage  = 2 // the command line, the environment or the file of flags is wrong
)

func main() {
	boundGarbage()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// cli is the command line: every flag can also be given as an environment
// variable, GVBLL_ and its name in capitals, and in a file.
type cli struct {
	Config    kong.ConfigFlag `help:"YAML file of flags, for what neither the command line nor the environment says: 'brokers: [kafka:9092]', or under a command's name for that alone." type:"path" placeholder:"FILE"`
	LogLevel  slog.Level      `help:"Least level that is logged: debug, info, warn or error." default:"info" placeholder:"info"`
	LogFormat string          `help:"Format of the log: text or json." enum:"text,json" default:"text" placeholder:"text"`

	Demo        demoCmd        `cmd:"" help:"Show the whole job: broker, training, stream, late labels, scores."`
	Train       trainCmd       `cmd:"" help:"Train a model from a data set (Phase 1) and save it."`
	Work        workCmd        `cmd:"" help:"Classify the nodes of a topic as they arrive."`
	Inspect     inspectCmd     `cmd:"" help:"Tell what is in a model file."`
	Send        sendCmd        `cmd:"" help:"Stream a data set into the topics."`
	Tail        tailCmd        `cmd:"" help:"Print predictions as they are published."`
	Topics      topicsCmd      `cmd:"" help:"Show or create the topics."`
	Ledger      ledgerCmd      `cmd:"" help:"Print the ledger: where the windows were cut, and what came of them."`
	Promote     promoteCmd     `cmd:"" help:"Let the model in the shadow serve."`
	Audit       auditCmd       `cmd:"" help:"Prove from the logs that what was served is what the model says."`
	Forget      forgetCmd      `cmd:"" help:"Have nodes never have come: exactly, by a replay without them."`
	DeadLetters deadLettersCmd `cmd:"" help:"List what was refused and why, or send it again."`

	Table       tableCmd       `cmd:"" help:"Run the paper's Table I: twelve systems, measured, beside the paper's figures."`
	Coverage    coverageCmd    `cmd:"" help:"Measure how sets of classes keep their coverage, under drift and with late labels."`
	Bench       benchCmd       `cmd:"" help:"Measure what an arrival costs, beside the bars."`
	Sensitivity sensitivityCmd `cmd:"" help:"Show how the online update depends on its constants, batches and training nodes."`

	Completion completionCmd `cmd:"" help:"Print a script that lets a shell complete commands and flags."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}

// streams are where a command writes: results to out, all else to err.
type streams struct {
	out, err io.Writer
}

// newParser returns the parser of the command line into c. exit is called where
// the program is to end at once, as --help has it.
func newParser(ctx context.Context, c *cli, s streams, exit func(int)) *kong.Kong {
	parser, err := kong.New(c,
		kong.Name("gvbll"),
		kong.Description("Classifies the nodes of a growing graph as they arrive in Kafka, with probabilities that can be trusted.\n\n"+
			"Every flag can also be set as an environment variable: GVBLL_ and the flag's name in capitals, as GVBLL_BROKERS; and in the file that --config names. The command line goes before the environment, and that before the file.\n\n"+
			"Exit codes: 0 done, 1 failed or interrupted, 2 wrong command line."),
		kong.DefaultEnvars("GVBLL"),
		kong.Configuration(loadConfig),
		kong.Writers(s.out, s.err),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
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

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c cli
	exit := -1
	parser := newParser(ctx, &c, streams{stdout, stderr}, func(code int) { exit = code })
	if len(args) == 0 {
		args = []string{"--help"}
	}
	k, err := parser.Parse(args)
	if exit >= 0 { // --help was answered
		return exit
	}
	if err != nil {
		fmt.Fprintf(stderr, "gvbll: %v (see gvbll --help)\n", err)
		return exitUsage
	}
	options := &slog.HandlerOptions{Level: c.LogLevel}
	var handler slog.Handler = slog.NewTextHandler(stderr, options)
	if c.LogFormat == "json" {
		handler = slog.NewJSONHandler(stderr, options)
	}
	slog.SetDefault(slog.New(handler))
	err = k.Run()
	if err == nil {
		return exitOK
	}
	line := strings.ReplaceAll(err.Error(), "\n", "; ")
	var usage usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "gvbll: %s (see gvbll %s --help)\n", line, k.Command())
		return exitUsage
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		line = "interrupted"
	}
	fmt.Fprintf(stderr, "gvbll: %s\n", line)
	return exitFailed
}

// usageError is a command line that parses and still makes no sense.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
