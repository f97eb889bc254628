package main

import (
	"fmt"
	"os"
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

// nameVariables names the environment variable of every flag: GVBLL_ and the
// flag's name in capitals, with _ for -.
func nameVariables(k *kong.Kong) error {
	for _, n := range append(k.Model.Leaves(false), k.Model.Node) {
		for _, f := range n.Flags {
			if f.Name != "help" {
				f.Envs = []string{variable(f.Name)}
				f.Tag.Envs = f.Envs
			}
		}
	}
	k.Model.HelpFlag.Help = "Print this help."
	k.Model.HelpFlag.Group = &groups[len(groups)-1]
	return nil
}

// otherVariables are those that are no flags': the password, and what kernels, crash
// points and the tests of this repository read.
var otherVariables = []string{
	passwordVariable, "GVBLL_KERNEL", "GVBLL_CRASH",
	"GVBLL_KAFKA", "GVBLL_KAFKA_TOOL", "GVBLL_SCREENSHOTS", "GVBLL_TEST_AS_PROGRAM",
}

// serviceVariable matches the variables that Kubernetes and Docker set for a service
// whose name begins with gvbll.
var serviceVariable = regexp.MustCompile(`_SERVICE_(HOST|PORT\w*)$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)

// checkEnvironment refuses variables that begin as those of flags do and are none. Like
// an unknown key in a file of flags, such a variable is most likely misspelt.
func checkEnvironment(app *kong.Application) error {
	known := slices.Clone(otherVariables)
	for _, n := range append(app.Leaves(false), app.Node) {
		for _, f := range n.Flags {
			known = append(known, f.Envs...)
		}
	}
	var wrong []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
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
