// Package flags reads the command line, the environment and the file of flags of a program of
// commands, and has the flags that several commands share.
package flags

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1 // the command failed, or was interrupted
	ExitUsage  = 2 // the command line, the environment or the file of flags is wrong
)

// Program is a program of several commands.
type Program struct {
	Name, Description string
	Commands          any       // a pointer to a struct with a field for each command
	Vars              kong.Vars // values that tags name
	Help              []Texts
}

// Texts are help texts by the names that tags have of them, as in help:"@work_window".
type Texts map[string]string

// placeTexts puts texts in the place of their names. A name without a text is a fault of the grammar.
func placeTexts(all []Texts) kong.Option {
	place := func(help *string) error {
		name, is := strings.CutPrefix(*help, "@")
		if !is {
			return nil
		}
		for _, texts := range all {
			if text, found := texts[name]; found {
				*help = text
				return nil
			}
		}
		return fmt.Errorf("there is no help text %s", name)
	}
	return kong.PostBuild(func(k *kong.Kong) error {
		return kong.Visit(k.Model, func(at kong.Visitable, next kong.Next) error {
			var err error
			switch at := at.(type) {
			case *kong.Node:
				err = place(&at.Help)
			case *kong.Flag:
				err = place(&at.Help)
			case *kong.Value:
				err = place(&at.Help)
			}
			return next(err)
		})
	})
}

// Global are the flags of every command.
type Global struct {
	Config    kong.ConfigFlag `help:"@global_config" type:"path" placeholder:"FILE" group:"global"`
	LogLevel  slog.Level      `help:"@global_log_level" default:"info" placeholder:"info" group:"global"`
	LogFormat string          `help:"Format of the log: text or json." enum:"text,json" default:"text" placeholder:"text" group:"global"`
}

var globalHelp = Texts{
	"global_config": "Read flags from this YAML file, such as 'brokers: [kafka:9092]'. The command line and the environment " +
		"take precedence.",
	"global_log_level": "Log messages of this level and above: debug, info, warn or error.",
}

// Parser returns the parser of the command line into the commands and the global flags. It calls
// exit when the program should end at once, as after --help.
func (c Program) Parser(ctx context.Context, global *Global, p Process, exit func(int)) *kong.Kong {
	options := []kong.Option{
		kong.Embed(global),
		kong.Name(c.Name),
		kong.Description(c.Description + "\n\n" +
			"A flag can also be set in the environment, as GVBLL_ and its name in capitals (--log-level as " +
			"GVBLL_LOG_LEVEL), and in the file that --config names. The command line overrides the environment, " +
			"and the environment the file.\n\n" +
			"Exit codes: 0 done, 1 failed or interrupted, 2 wrong command line."),
		kong.NamedMapper("setting", settingMapper{}),
		kong.PostBuild(placeHelp),
		kong.PostBuild(p.nameConfig),
		kong.PostBuild(hideGroups),
		kong.Configuration(func(r io.Reader) (kong.Resolver, error) { return loadConfig(r, p) }),
		kong.Resolvers(environment{p}),
		kong.Writers(p.Out, p.Err),
		kong.Exit(exit),
		kong.ExplicitGroups(groups),
		kong.Help(printHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.ValueFormatter(func(v *kong.Value) string { return v.Help }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		c.Vars,
		placeTexts(append([]Texts{globalHelp, graphHelp, stateHelp, dataHelp, inputsHelp, securityHelp}, c.Help...)),
	}
	parser, err := kong.New(c.Commands, options...)
	if err != nil {
		panic(err) // the grammar of the commands is wrong
	}
	return parser
}

// Main runs the command line of this process until it ends or a signal comes, and exits.
func (c Program) Main(version string) {
	boundGarbage()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := c.Run(ctx, os.Args[1:], Process{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ(), Version: version})
	stop()
	os.Exit(code)
}

// withUnit returns durations as texts with a unit, as in the log for people: JSON would have nanoseconds.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// Run runs a command line and returns the exit code.
func (c Program) Run(ctx context.Context, args []string, p Process) int {
	var global Global
	exit := -1
	parser := c.Parser(ctx, &global, p, func(code int) { exit = code })
	k, err := parser.Parse(usualForms(args))
	if exit >= 0 { // --help was answered
		return exit
	}
	if err != nil {
		command := c.Name
		if parse := (*kong.ParseError)(nil); errors.As(err, &parse) && parse.Context.Selected() != nil {
			command = parse.Context.Selected().FullPath()
		}
		fmt.Fprintf(p.Err, "%s: %s (see %s --help)\n", c.Name, plainly(oneLine(err)), command)
		return ExitUsage
	}
	options := &slog.HandlerOptions{Level: global.LogLevel}
	p.Log = slog.New(slog.NewTextHandler(p.Err, options))
	if global.LogFormat == "json" {
		options.ReplaceAttr = withUnit
		p.Log = slog.New(slog.NewJSONHandler(p.Err, options))
	}
	p.Command = strings.Fields(k.Command())[0]
	err = k.Run(p, givenOf(k, p))
	if err == nil {
		return ExitOK
	}
	line := oneLine(err)
	if IsTerminal(p.Err) {
		fmt.Fprint(p.Err, "\r\x1b[K") // what is left of a progress that did not end
	}
	var usage usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(p.Err, "%s: %s (see %s --help)\n", c.Name, line, k.Selected().FullPath())
		return ExitUsage
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		line = "interrupted"
	}
	fmt.Fprintf(p.Err, "%s: %s\n", c.Name, line)
	return ExitFailed
}

// oneLine returns the text of an error without line ends, which joined errors and those of YAML have.
func oneLine(err error) string {
	return strings.NewReplacer(":\n  ", ": ", "\n", "; ", ` but got "EOL" (<EOL>)`, " behind it").Replace(err.Error())
}

// parsers are what parsers of values say, and what a user can do with.
var parsers = []struct {
	said  *regexp.Regexp
	plain string
}{
	{regexp.MustCompile(`expected a valid \d+ bit u?int but got (".*")`), "$1 is not a whole number"},
	{regexp.MustCompile(`expected a float but got (".*") \(string\)`), "$1 is not a number"},
	{regexp.MustCompile(`expected duration but got (".*"): time: .*`), "$1 is not a duration such as 5m or 100ms"},
	{regexp.MustCompile(`expected \w+ value but got (".*") \(\w+ flag\); perhaps try (\S+)\?`), "$1 is a flag, or a value if it is written as $2"},
	{regexp.MustCompile(`slog: level string (".*"): unknown name`), "$1 is none: give debug, info, warn or error"},
	{regexp.MustCompile(`must be one of "",`), "must be one of "},
}

// plainly returns an error of the command line without what parsers say to programmers.
func plainly(line string) string {
	for _, p := range parsers {
		line = p.said.ReplaceAllString(line, p.plain)
	}
	return line
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
