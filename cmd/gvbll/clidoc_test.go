package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/gvbll/gvbll/cmd/gvbll/flags"
)

var update = flag.Bool("update", false, "write docs/cli.md, and the settings of the chart")

// TestCommandLineIsDocumented: docs/cli.md, which is generated from the grammar of the
// command line, is up to date.
func TestCommandLineIsDocumented(t *testing.T) {
	const file = "../../docs/cli.md"
	var c cli
	var out lines
	want := commandLine(program(&c).Parser(t.Context(), new(flags.Global), (&shell{t: t}).process(&out, &out), func(int) {}))
	if *update {
		must(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got, err := os.ReadFile(file)
	must(t, err)
	if string(got) != want {
		t.Errorf("%s is out of date: go test ./cmd/gvbll -run TestCommandLineIsDocumented -update", file)
	}
}

// inChart are the definitions of the chart's schema for kinds of values; "text" for any other.
var inChart = map[string]string{"DURATION": "duration", "NUMBER": "number", "INTEGER": "number"}

// TestChartKnowsTheFlags: the chart's values take the flags of 'gvbll work' and no others, except
// for those that have values of their own.
func TestChartKnowsTheFlags(t *testing.T) {
	const file = "../../charts/gvbll/values.schema.json"
	b, err := os.ReadFile(file)
	must(t, err)
	var schema struct {
		Properties struct {
			Settings struct {
				Properties map[string]any
			}
		}
	}
	must(t, json.Unmarshal(b, &schema))
	own := []string{
		"help", "config", "map", "brokers", "prefix", "model", "http", "http-config", "create-topics", "state-dir", "rebase", "checkpoints",
		"tls", "tls-ca", "tls-cert", "tls-key", "tls-server-name", "sasl-mechanism", "sasl-user", "sasl-password-file",
		"sasl-token-file", "sasl-token-url", "sasl-token-scope",
	}
	var c cli
	var out lines
	k := program(&c).Parser(t.Context(), new(flags.Global), (&shell{t: t}).process(&out, &out), func(int) {})
	want := make(map[string]string) // kinds of values
	for _, n := range append(k.Model.Leaves(true), k.Model.Node) {
		for _, f := range n.Flags {
			if (n == k.Model.Node || n.Name == "work") && !slices.Contains(own, f.Name) {
				want[f.Name] = cmp.Or(inChart[kindOf(f.Target.Type())], "text")
			}
		}
	}
	if *update {
		var list []string
		for _, name := range slices.Sorted(maps.Keys(want)) {
			list = append(list, fmt.Sprintf(`     "%s": {"$ref": "#/definitions/%s"}`, name, want[name]))
		}
		names := regexp.MustCompile(`(?s)("settings": \{\n[^{]*"properties": \{\n).*?(\n {3}\},\n {3}"additionalProperties": false)`)
		must(t, os.WriteFile(file, names.ReplaceAllFunc(b, func(found []byte) []byte {
			parts := names.FindSubmatch(found)
			return slices.Concat(parts[1], []byte(strings.Join(list, ",\n")), parts[2])
		}), 0o644))
		return
	}
	kinds := make(map[string]any)
	for name, kind := range want {
		kinds[name] = map[string]any{"$ref": "#/definitions/" + kind}
	}
	if got := schema.Properties.Settings.Properties; !reflect.DeepEqual(got, kinds) {
		t.Errorf("%s takes the settings %v, want %v", file, got, kinds)
	}
}

// commandLine returns the text of docs/cli.md.
func commandLine(k *kong.Kong) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Command line

The flags of every command, made of the program's own help, which says more of what each does (`+"`gvbll help COMMAND`"+`):
`+"`go test ./cmd/gvbll -run TestCommandLineIsDocumented -update`"+`.

**Where a flag comes from.** In this order: the command line; the environment, as `+"`GVBLL_LOG_FORMAT`"+` for `+"`--log-format`"+`; the YAML file
that `+"`--config`"+` names, there a command's section before the rest; the default. A password has no flag (docs/security.md). A variable
`+"`GVBLL_…`"+` or a key of the file that is no flag's name is an error.

`+"```yaml"+`
brokers: [kafka-1:9092, kafka-2:9092]
log-format: json
work:
  window: 1000
  linger: 50ms
`+"```"+`

**Exit codes**

| code | meaning |
|---|---|
| %d | done; `+"`work`"+` and `+"`tail`"+` ended by a signal, with everything in order |
| %d | failed or interrupted; one line on standard error says why |
| %d | the command line, the environment or the file of flags is wrong; nothing was done |

A flag that has no effect beside the others, or with the model, is an error (%[3]d) on the command line. From
the environment or the file, which commands may share, it is a warning.

Commands on a graph in Kafka take what says which one, `+"`--brokers`, `--prefix`, `--cell`"+`, where they read inputs
`+"`--inputs-prefix`, `--nodes-topic`, `--labels-topic`"+`, and [Kafka's security](#security-of-the-connections-to-kafka), as
`+"`work` and `train`"+` have them; these lists leave them out.

Results go to standard output, everything else to standard error. Colours are left out with NO_COLOR in the environment.

## For every command

`, exitOK, exitFailed, exitUsage)
	flagLists(&b, "", k.Model.Flags, nil)
	homes := make(map[string]string)
	commands := k.Model.Leaves(true)
	for _, home := range []string{"train", "work"} {
		for _, f := range commands[slices.IndexFunc(commands, func(n *kong.Node) bool { return n.Name == home })].Flags {
			homes[flagItem(f)] = home
		}
	}
	for _, n := range commands {
		fmt.Fprintf(&b, "\n## gvbll %s\n\n%s\n", n.Name, n.Help)
		if len(n.Positional) > 0 {
			b.WriteString("\n")
			for _, p := range n.Positional {
				fmt.Fprintf(&b, "- `%s`: %s\n", p.Name, p.Help)
			}
		}
		if len(n.Flags) > 0 {
			b.WriteString("\n")
			flagLists(&b, n.Name, n.Flags, homes)
		}
	}
	return b.String()
}

// ofGraphs are flags that say which graph in Kafka a command is for: the page names them once.
var ofGraphs = []string{"brokers", "prefix", "inputs-prefix", "nodes-topic", "labels-topic", "cell"}

// flagLists writes a list for each group of a command's flags, in the order of --help. Those whose
// item stands at another command, their home, are only named.
func flagLists(b *strings.Builder, command string, list []*kong.Flag, homes map[string]string) {
	flags.ByGroup(list)
	elsewhere := make(map[string][]string)
	begun, group := false, 0
	for _, f := range list {
		item := flagItem(f)
		if home, ok := homes[item]; ok && home != command {
			if f.Group != nil && f.Group.Key == "security" || slices.Contains(ofGraphs, f.Name) {
				continue
			}
			name := "`--" + f.Name + "`"
			if !slices.Contains(elsewhere[home], name) {
				elsewhere[home] = append(elsewhere[home], name)
			}
			continue
		}
		if i := flags.GroupIndex(f); !begun || i != group {
			if begun {
				b.WriteString("\n")
			}
			begun, group = true, i
			if f.Group != nil && f.Group.Key != "global" {
				fmt.Fprintf(b, "### %s\n\n", strings.TrimSuffix(f.Group.Title, ":"))
			}
		}
		b.WriteString(item)
	}
	for i, home := range slices.Sorted(maps.Keys(elsewhere)) {
		if i > 0 || begun {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "As in [gvbll %s](#gvbll-%[1]s): %s.\n", home, strings.Join(elsewhere[home], ", "))
	}
}

// flagItem returns the item of a flag: its name with the default, or with the kind of its values, and its help.
func flagItem(f *kong.Flag) string {
	name := "--" + f.Name
	switch {
	case f.Tag.Negatable != "":
		name = "--[no-]" + f.Name
	case f.IsBool():
	case f.Default != "":
		name += "=" + f.Default
	default:
		kind := kindOf(f.Target.Type())
		words := []string{"FILE", "DIR", "PATH", "ADDR", "NAME", "USER", "KIND", "SHARE", "RATE", "SIZE", "POWER", "RADIANS"}
		if slices.Contains(words, f.PlaceHolder) || kind == "VALUE" && f.PlaceHolder != "" {
			kind = f.PlaceHolder
		}
		name += " " + kind
	}
	if f.Short != 0 {
		name += fmt.Sprintf(", -%c", f.Short)
	}
	item := "- `" + name + "`"
	switch {
	case f.Required:
		item += " (required)"
	case f.Tag.Negatable != "" && f.Default == "true":
		item += " (on)"
	}
	return item + ": " + strings.ReplaceAll(f.Help, "\n", " ") + "\n"
}

// kindOf names the values of a flag's type: VALUE if the type reads its own text.
func kindOf(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "DURATION"
	case reflect.TypeFor[flags.Text]():
		return "VALUE"
	case reflect.TypeFor[slog.Level]():
		return "LEVEL"
	case reflect.TypeFor[flags.Size]():
		return "SIZE"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Slice:
		return "LIST"
	case reflect.Float64, reflect.Float32:
		return "NUMBER"
	case reflect.String:
		return "TEXT"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return "INTEGER"
	default:
		return "VALUE"
	}
}
