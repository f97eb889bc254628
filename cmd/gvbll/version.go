package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/base"
	"github.com/gvbll/gvbll/topics/ledger"
)

// version is set when a release is built (-ldflags "-X main.version=…").
var version string

type versionCmd struct {
	JSON bool `help:"Print JSON." name:"json"`
}

// formats are the versions of what outlives a program. A map is text in the ledger's configuration, a
// schema is in the model's metadata, and a checkpoint has the engine's version among its settings.
type formats struct {
	Ledger     int `json:"ledger"`
	Engine     int `json:"engine"`
	Checkpoint int `json:"checkpoint"`
	Base       int `json:"base"`
	Model      int `json:"model"`
	Schema     int `json:"schema"`
	Map        int `json:"map"`
}

// Run prints the version, and that of each format.
func (c versionCmd) Run(p flags.Process) error {
	v := struct {
		Version  string  `json:"version"`
		Commit   string  `json:"commit,omitempty"`
		Go       string  `json:"go"`
		Platform string  `json:"platform"`
		Formats  formats `json:"formats"`
	}{
		versionString(), commit(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH,
		formats{ledger.Version, pipeline.Version, pipeline.Version, base.Version, model.Format, model.Format, ledger.Version},
	}
	if c.JSON {
		return flags.PrintJSON(p.Out, v)
	}
	f := &v.Formats
	_, err := fmt.Fprintf(p.Out, "gvbll %s %s %s\ncommit %s\nformats: ledger %d, engine %d, checkpoint %d, base %d, "+
		"model %d, schema %d, map %d\n",
		v.Version, v.Go, v.Platform, cmp.Or(v.Commit, "unknown"), f.Ledger, f.Engine, f.Checkpoint, f.Base, f.Model, f.Schema, f.Map)
	return err
}

func versionString() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "dev"
}

// commit returns the commit that this program was built from, with + for one that was changed, and ""
// if it is not known, as after go install of a version.
func commit() (at string) {
	info, _ := debug.ReadBuildInfo()
	setting := func(key string) string {
		if i := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == key }); i >= 0 {
			return info.Settings[i].Value
		}
		return ""
	}
	if at = setting("vcs.revision"); setting("vcs.modified") == "true" {
		at += "+"
	}
	return at
}
