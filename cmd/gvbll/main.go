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

	"github.com/gvbll/gvbll/pipeline/table"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the work could not be done
	exitUsage  = 2 // the command line is wrong
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// cli is the command line: every flag can also be given as an environment
// variable, GVBLL_ and its name in capitals.
type cli struct {
	LogLevel  slog.Level `help:"Least level that is logged: debug, info, warn or error." default:"info" placeholder:"info"`
	LogFormat string     `help:"Format of the log: text or json." enum:"text,json" default:"text" placeholder:"text"`

	Demo        demoCmd        `cmd:"" help:"Show the whole job: broker, training, stream, late labels, scores."`
	Train       trainCmd       `cmd:"" help:"Train a model from a data set (Phase 1) and save it."`
	Work        workCmd        `cmd:"" help:"Classify the nodes of a topic as they arrive."`
	Send        sendCmd        `cmd:"" help:"Stream a data set into the topics."`
	Tail        tailCmd        `cmd:"" help:"Print predictions as they are published."`
	Topics      topicsCmd      `cmd:"" help:"Show or create the topics."`
	Ledger      ledgerCmd      `cmd:"" help:"Print the ledger: where the windows were cut, and what came of them."`
	Audit       auditCmd       `cmd:"" help:"Prove from the logs that what was served is what the model says."`
	DeadLetters deadLettersCmd `cmd:"" help:"List what was refused and why, or send it again."`

	Table       tableCmd       `cmd:"" help:"Run the paper's Table I: twelve systems, measured, beside the paper's figures."`
	Bench       benchCmd       `cmd:"" help:"Measure what an arrival costs, beside the bars."`
	Sensitivity sensitivityCmd `cmd:"" help:"Show how the online update depends on its constants, batches and training nodes."`

	Version versionCmd `cmd:"" help:"Print the version."`
}

// streams are where a command writes: results to out, all else to err.
type streams struct {
	out, err io.Writer
}

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c cli
	exit := -1
	parser, err := kong.New(&c,
		kong.Name("gvbll"),
		kong.Description("Classifies the nodes of a growing graph as they arrive in Kafka, with probabilities that can be trusted.\n\nEvery flag can also be set as an environment variable: GVBLL_ and the flag's name in capitals, as GVBLL_BROKERS."),
		kong.DefaultEnvars("GVBLL"),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(streams{stdout, stderr}),
		kong.Vars{
			"default_http": "127.0.0.1:8473",
			"systems":      strings.Join(table.Systems, ", "),
			"benchmarks":   strings.Join(benchmarks(), ", "),
			"parameters":   strings.Join(table.Parameters, ", "),
		},
	)
	if err != nil {
		panic(err) // the grammar above is wrong
	}
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
