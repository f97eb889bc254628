package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/gvbll/gvbll/cmd/gvbll/flags"
)

type completionCmd struct {
	Shell string `arg:"" help:"Shell: bash, zsh or fish." enum:"bash,zsh,fish"`
}

// Help is shown by gvbll completion --help.
func (completionCmd) Help() string {
	return "Prints a script that lets a shell complete commands, flags and their values.\n\n" +
		"bash: source <(gvbll completion bash)\n" +
		"zsh:  source <(gvbll completion zsh)\n" +
		"fish: gvbll completion fish | source"
}

// Run prints the script.
func (c completionCmd) Run(app *kong.Kong, p flags.Process) error {
	commands := app.Model.Leaves(true)
	switch c.Shell {
	case "fish":
		return fishCompletion(p.Out, commands)
	case "zsh":
		if _, err := fmt.Fprintf(p.Out, "autoload -Uz compinit bashcompinit\ncompinit\nbashcompinit\n"); err != nil {
			return err
		}
	}
	return bashCompletion(p.Out, commands)
}

// bashCompletion writes a completion function for bash. It works in zsh too.
func bashCompletion(w io.Writer, commands []*kong.Node) error {
	var names, flags, values strings.Builder
	for _, n := range commands {
		fmt.Fprintf(&names, " %s", n.Name)
		fmt.Fprintf(&flags, "\t\t%s) words=\"", n.Name)
		for _, f := range flagsOf(n) {
			fmt.Fprintf(&flags, "--%s ", f.Name)
			switch list := enumOf(f); {
			case f.IsBool():
			case len(list) > 0:
				fmt.Fprintf(&values, "\t\t%s/--%s) COMPREPLY=($(compgen -W %q -- \"$word\")); return ;;\n", n.Name, f.Name, strings.Join(list, " "))
			case isPath(f):
				fmt.Fprintf(&values, "\t\t%s/--%s) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n", n.Name, f.Name)
			default:
				fmt.Fprintf(&values, "\t\t%s/--%s) return ;;\n", n.Name, f.Name)
			}
		}
		for _, p := range n.Positional {
			fmt.Fprintf(&flags, "%s ", strings.ReplaceAll(p.Enum, ",", " "))
		}
		flags.WriteString("\" ;;\n")
	}
	_, err := fmt.Fprintf(w, `_gvbll() {
	local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="${COMP_WORDS[1]}" words=""
	if [ "$COMP_CWORD" -eq 1 ]; then
		COMPREPLY=($(compgen -W "%s" -- "$word"))
		return
	fi
	case "$command/$before" in
%s	esac
	case "$command" in
%s	esac
	COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _gvbll gvbll
`, strings.TrimSpace(names.String()), values.String(), flags.String())
	return err
}

func fishCompletion(w io.Writer, commands []*kong.Node) error {
	var b strings.Builder
	b.WriteString("complete -c gvbll -f\n")
	for _, n := range commands {
		fmt.Fprintf(&b, "complete -c gvbll -n __fish_use_subcommand -a %s -d %s\n", n.Name, fishQuote(n.Help))
		in := fmt.Sprintf("complete -c gvbll -n '__fish_seen_subcommand_from %s'", n.Name)
		for _, f := range flagsOf(n) {
			fmt.Fprintf(&b, "%s -l %s -d %s", in, f.Name, fishQuote(f.Help))
			switch list := enumOf(f); {
			case f.IsBool():
			case len(list) > 0:
				fmt.Fprintf(&b, " -x -a %s", fishQuote(strings.Join(list, " ")))
			case isPath(f):
				b.WriteString(" -r -F")
			default:
				b.WriteString(" -x")
			}
			b.WriteString("\n")
		}
		for _, p := range n.Positional {
			if p.Enum != "" {
				fmt.Fprintf(&b, "%s -a %s\n", in, fishQuote(strings.ReplaceAll(p.Enum, ",", " ")))
			} else {
				fmt.Fprintf(&b, "%s -F\n", in)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// flagsOf returns the flags of a command and those of every command.
func flagsOf(n *kong.Node) (flags []*kong.Flag) {
	for _, group := range n.AllFlags(true) {
		flags = append(flags, group...)
	}
	return flags
}

// enumOf returns the values of a flag with a fixed list of them, without the empty value
// of a flag that was left out.
func enumOf(f *kong.Flag) (list []string) {
	for _, v := range strings.Split(f.Enum, ",") {
		if v != "" {
			list = append(list, v)
		}
	}
	return list
}

func isPath(f *kong.Flag) bool {
	return f.Tag.Type == "path" || f.Tag.Type == "existingfile" || f.PlaceHolder == "FILE" || f.PlaceHolder == "DIR"
}

// fishQuote quotes the first sentence of a text for fish.
func fishQuote(s string) string {
	if first, _, cut := strings.Cut(s, ". "); cut {
		s = first
	}
	s = strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", " ").Replace(s)
	return "'" + s + "'"
}
