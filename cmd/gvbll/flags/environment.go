package flags

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

const variablePrefix = "GVBLL_"

// variable is the name of a flag's environment variable.
func variable(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// environment takes the values of flags from variables. It is a kong.Resolver: kong itself
// knows no environment but the process's.
type environment struct{ Process }

// Resolve implements kong.Resolver.
func (e environment) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	name := variable(flag.Name)
	value, set := e.lookup(name)
	if !set || !settable(flag.Name) {
		return nil, nil
	}
	// It is parsed here alone so that the error can name the variable.
	if err := flag.Parse(kong.Scan().PushTyped(value, kong.FlagValueToken), reflect.New(flag.Target.Type()).Elem()); err != nil {
		return nil, fmt.Errorf("%w (from the environment variable %s)", err, name)
	}
	return value, nil
}

// nameConfig makes the file of flags that the environment names the default of --config, which
// is read before any other flag is resolved.
func (p Process) nameConfig(k *kong.Kong) error {
	for _, f := range k.Model.Flags {
		if file, set := p.lookup(variable(f.Name)); f.Name == "config" && set {
			f.Default, f.HasDefault = file, true
		}
	}
	return nil
}

// otherVariables are those that are no flags': the password, and what kernels, crash
// points and the tests of this repository read.
var otherVariables = []string{
	passwordVariable, "GVBLL_KERNEL", "GVBLL_CRASH",
	"GVBLL_KAFKA", "GVBLL_KAFKA_TOOL", "GVBLL_SCREENSHOTS", "GVBLL_TEST_AS_PROGRAM",
}

// connection matches the variables of a connection to Kafka.
var connection = regexp.MustCompile(`^GVBLL_(BROKERS|PREFIX|TLS\w*|SASL_\w+)$`)

// serviceVariable matches the variables that Kubernetes and Docker set for a service
// whose name begins with gvbll.
var serviceVariable = regexp.MustCompile(`_SERVICE_(HOST|PORT\w*)$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)

// Validate implements kong.Resolver. It refuses variables that begin as those of flags do and
// are none. Like an unknown key in a file of flags, such a variable is most likely misspelt.
func (e environment) Validate(app *kong.Application) error {
	known := slices.Clone(otherVariables)
	for _, n := range append(app.Leaves(false), app.Node) {
		for _, f := range n.Flags {
			if f.Name != "help" {
				known = append(known, variable(f.Name))
			}
		}
	}
	var wrong []string
	connects := slices.Contains(known, variable("brokers"))
	for _, entry := range e.Env {
		name, _, _ := strings.Cut(entry, "=")
		if !connects && connection.MatchString(name) { // exported for programs that do
			continue
		}
		if strings.HasPrefix(name, variablePrefix) && !slices.Contains(known, name) && !serviceVariable.MatchString(name) {
			wrong = append(wrong, name)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("no flag has the name of the environment variable %s: correct it, or unset it", strings.Join(wrong, ", "))
}
