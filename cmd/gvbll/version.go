package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
)

// version is set when a release is built (-ldflags "-X main.version=…").
var version string

type versionCmd struct{}

// Run prints one line.
func (versionCmd) Run(p flags.Process) error {
	_, err := fmt.Fprintf(p.Out, "gvbll %s %s %s/%s\n", versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

func versionString() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}
