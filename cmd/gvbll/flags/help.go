package flags

import (
	"slices"

	"github.com/alecthomas/kong"
)

// groups are the headings of --help, in their order, with the keys that struct tags
// name. Flags and commands without a group come first.
var groups = []kong.Group{
	{Key: "serve", Title: "Train and serve:"},
	{Key: "operate", Title: "Look into a graph, and operate it:"},
	{Key: "other", Title: "Other:"},

	{Key: "data", Title: "Data:"},
	{Key: "citations", Title: "Citations:"},
	{Key: "log", Title: "Training from the log of a graph:"},
	{Key: "training", Title: "Training:"},
	{Key: "encoder", Title: "Encoder:"},
	{Key: "kafka", Title: "Kafka:"},
	{Key: "http", Title: "HTTP:"},
	{Key: "windows", Title: "Windows:"},
	{Key: "state", Title: "State:"},
	{Key: "sets", Title: "Sets of classes, and what to act on:"},
	{Key: "revisions", Title: "Drift, and predicting again:"},
	{Key: "paper", Title: "The paper's head (--head paper):"},
	{Key: "update", Title: "Online update:"},
	{Key: "machine", Title: "Memory and threads:"},
	{Key: "security", Title: "Security of the connections to Kafka:"},
	{
		Key: "global", Title: "For every command:",
		Description: "Each flag of a command can also be set in the environment, as GVBLL_LOG_LEVEL, and in a file of flags.",
	},
}

// GroupIndex returns the index of a flag's group in groups, -1 if it has none.
func GroupIndex(f *kong.Flag) int {
	if f.Group == nil {
		return -1
	}
	return slices.IndexFunc(groups, func(g kong.Group) bool { return g.Key == f.Group.Key })
}

// hidden are groups of flags that the help of a command leaves out: docs/cli.md has them. Those
// for TLS and passwords are those of the commands that serve and operate.
var hidden = map[string]string{"train": "security", "work": "update", "rebase": "update", "demo": "update"}

// hideGroups leaves groups of flags out of the help of commands.
func hideGroups(k *kong.Kong) error {
	for _, n := range k.Model.Leaves(false) {
		for _, f := range n.Flags {
			if f.Group != nil && f.Group.Key == hidden[n.Name] {
				f.Hidden = true
			}
		}
	}
	return nil
}

// placeHelp puts --help at the end, among the flags of every command.
func placeHelp(k *kong.Kong) error {
	k.Model.HelpFlag.Help = "Print this help."
	k.Model.HelpFlag.Group = &groups[len(groups)-1]
	return nil
}

// ByGroup sorts flags by their groups.
func ByGroup(flags []*kong.Flag) {
	slices.SortStableFunc(flags, func(a, b *kong.Flag) int { return GroupIndex(a) - GroupIndex(b) })
}

// printHelp prints the help of a command with its flags by their groups, and those
// that every command has at the end. The program ends after it.
func printHelp(o kong.HelpOptions, k *kong.Context) error {
	if n := k.Selected(); n != nil {
		n.Flags = append(n.Flags, k.Model.Flags...)
		k.Model.Flags = nil
		ByGroup(n.Flags)
	}
	return kong.DefaultHelpPrinter(o, k)
}
