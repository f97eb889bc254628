package gvbll

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/gvbll/gvbll/"

// listed is a package as go list -json describes it.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string // for this operating system and processor
	Imports    []string
	Standard   bool
}

// listDeps returns the packages of the patterns and all packages that they import,
// directly or through others, without those of the standard library.
func listDeps(t *testing.T, patterns ...string) (packages []listed) {
	t.Helper()
	args := []string{"list", "-deps", "-json=ImportPath,Dir,GoFiles,Imports,Standard"}
	for _, p := range patterns {
		args = append(args, modulePath+p)
	}
	out, err := exec.Command("go", args...).Output()
	must(t, err)
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p listed
		must(t, d.Decode(&p))
		if !p.Standard {
			packages = append(packages, p)
		}
	}
	return packages
}

// TestRooms checks the last column of ARCHITECTURE.md's table of folders: which packages
// a folder (here a room) must not import, directly or through others.
func TestRooms(t *testing.T) {
	t.Parallel()
	const kafka, embedded = "github.com/segmentio/kafka-go", "github.com/twmb/franz-go"
	// The values of this package pass between topics and the engine.
	const values, figures, settings = "pipeline/event", "pipeline/figure", "pipeline/setting"
	// How their texts are read.
	const spelling = "gnn/spelling"
	// How metrics are registered, which knows nothing else: a worker has some, and the engine's outcomes have others.
	const meter = "topics/meter"
	packages := make(map[string]listed)
	for _, p := range listDeps(t, "...") {
		packages[strings.TrimPrefix(p.ImportPath, modulePath)] = p
	}
	for _, room := range []struct {
		name   string
		absent []string
		except []string // packages of the absent rooms
	}{
		{"topics", []string{"gnn", "posterior", "pipeline", "charts", "cmd"}, []string{values, figures, spelling}},
		// The rooms of a worker, from the ground up.
		{"topics/replay", []string{"topics/publish", "topics/audit", "topics/worker"}, nil},
		{"topics/publish", []string{"topics/audit", "topics/worker"}, nil},
		{"topics/audit", []string{"topics/publish", "topics/worker"}, nil},
		{"topics/worker", []string{"topics/audit"}, nil},
		{"topics/intake", []string{"topics/worker"}, nil},
		{"topics/ledger", []string{"topics/intake", "topics/replay"}, nil},
		{"pipeline", []string{"topics", "charts", "cmd", kafka, embedded}, nil},
		// What enters does not depend on what is served.
		{"pipeline/structure", []string{"topics", "charts", "cmd", "posterior", "pipeline"}, []string{values, figures, settings, "pipeline/store", "pipeline/structure"}},
		{"pipeline/serve", []string{"pipeline/parts"}, nil},
		{"gnn", []string{"topics", "posterior", "pipeline", "charts", "cmd", kafka, embedded}, nil},
		// The kernels know no graph.
		{"posterior", []string{"topics", "gnn", "pipeline", "charts", "cmd", kafka, embedded}, []string{"gnn/kernel", "gnn/kernel/double", "gnn/kernel/level"}},
		{"charts", []string{"topics", "cmd", kafka, embedded}, []string{meter}},
		{"cmd/gvbll", []string{"cmd/lab"}, nil},
		{"cmd/gvbll/flags", []string{"cmd/gvbll/look", "cmd/gvbll/service", "cmd/gvbll/backtest"}, nil},
		{"cmd/gvbll/backtest", []string{"cmd/gvbll/look", "cmd/gvbll/service", "cmd/lab"}, nil},
		{"cmd/gvbll/look", []string{"cmd/gvbll/service"}, nil},
	} {
		seen := make(map[string]bool)
		var follow func(path, from string)
		follow = func(path, from string) {
			if seen[path] {
				return
			}
			seen[path] = true
			for _, a := range room.absent {
				if within(path, a) && !slices.Contains(room.except, path) {
					t.Errorf("%s imports %s, which %s must not know", from, path, room.name)
				}
			}
			for _, next := range packages[path].Imports {
				follow(strings.TrimPrefix(next, modulePath), path)
			}
		}
		for path := range packages {
			if within(path, room.name) && path != room.name+"/workertest" { // the worker's fixture audits what a test has left
				follow(path, "")
			}
		}
	}
}

// within reports whether a package is the room or below it.
func within(path, room string) bool { return path == room || strings.HasPrefix(path, room+"/") }

// TestDeterministicRooms checks that neither the engine nor any package below it uses what
// could make two replays of a ledger differ: clocks, the network, files, goroutines,
// randomness without a seed, and functions whose last bit depends on the processor. Each exception says why it cannot change a bit of the state.
// An exception that is not needed any more is an error.
func TestDeterministicRooms(t *testing.T) {
	t.Parallel()
	type exception struct {
		path string
		uses []string // see usesOf
		why  string
	}
	const own = modulePath
	exceptions := []exception{
		{own + "gnn", []string{"go statement", "sync", "sync/atomic"}, "helpers share rows, and each row is computed whole by one of them"},
		{own + "gnn/attributes", []string{"time"}, "has units of time, and no clock"},
		{own + "gnn/spelling", []string{"time"}, "reads dates, and no clock"},
		{own + "gnn/kernel", []string{"go statement", "syscall"}, "the next block of zeros is made ready ahead, in large pages"},
		{own + "gnn/kernel/level", []string{"os"}, "the environment chooses among kernels with the same bits"},
		{own + "gnn/safetensors", []string{"os", "path/filepath", "sync", "sync/atomic"}, "opens and writes model files and checkpoints for their owners; goroutines read a file's parts, each into its own memory"},
		{own + "gnn/dataset", []string{"inexact normals", "io/fs", "os", "path/filepath"}, "loads and generates data sets; nothing of the engine imports it"},
		{own + "pipeline/pipelinetest", []string{"inexact normals"}, "for tests of the engine; no program imports it"},
		{own + "posterior", []string{"inexact normals", "sync"}, "normals begin a training; a sync.Pool of buffers that are written before they are read"},
		{own + "posterior/pool", []string{"sync"}, "parts of an update wait for the one that predicts first"},
		{own + "posterior/calibration", []string{"sync"}, "a sync.Pool of buffers that are written before they are read"},

		{"golang.org/x/text/unicode/norm", []string{"sync"}, "its table of compositions is made once"},
		{"golang.org/x/sys/cpu", []string{"os"}, "asks what the processor has, for the choice of kernels"},
	}
	needed := make(map[string]bool)
	for _, p := range listDeps(t, "pipeline/...", "posterior/...", "gnn/...") {
		var allowed []string
		if i := slices.IndexFunc(exceptions, func(e exception) bool { return e.path == p.ImportPath }); i >= 0 {
			allowed = exceptions[i].uses
		}
		for _, use := range usesOf(t, p) {
			if !slices.Contains(allowed, use) {
				t.Errorf("%s uses %s", p.ImportPath, use)
			}
			needed[p.ImportPath+" "+use] = true
		}
	}
	for _, e := range exceptions {
		for _, use := range e.uses {
			if !needed[e.path+" "+use] {
				t.Errorf("%s does not use %s any more: remove the exception", e.path, use)
			}
		}
	}
}

// usesOf returns what a package itself uses of clocks, network, files, goroutines and
// randomness: the packages of the standard library that it imports for them; "go
// statement" if it has one; and "unseeded randomness" if it draws from the source that
// math/rand seeds by itself. In the project's own packages it also finds what has other
// bits on other processors, because it is assembly on some, or the compiler fuses its
// products and sums: "inexact math", most functions of package math; "inexact normals",
// which rand draws with them; and "gonum".
func usesOf(t *testing.T, p listed) (uses []string) {
	t.Helper()
	own := strings.HasPrefix(p.ImportPath, modulePath)
	for _, path := range p.Imports {
		switch first, _, _ := strings.Cut(path, "/"); {
		case first == "time", first == "net", first == "os", first == "sync", first == "syscall",
			path == "io/fs", path == "io/ioutil", path == "path/filepath", path == "crypto/rand":
			uses = append(uses, path)
		case own && strings.HasPrefix(path, "gonum.org/"):
			uses = append(uses, "gonum")
		}
	}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		must(t, err)
		random := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
			path, _ := strconv.Unquote(i.Path.Value)
			return path == "math/rand" || path == "math/rand/v2"
		})
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				uses = append(uses, "go statement")
			case *ast.SelectorExpr:
				from, ok := n.X.(*ast.Ident)
				switch {
				case ok && random && from.Name == "rand" && drawsUnseeded(n.Sel.Name):
					uses = append(uses, "unseeded randomness")
				case ok && own && from.Name == "math" && inexact(n.Sel.Name):
					uses = append(uses, "inexact math")
				case own && (n.Sel.Name == "NormFloat64" || n.Sel.Name == "ExpFloat64"):
					uses = append(uses, "inexact normals")
				}
			}
			return true
		})
	}
	slices.Sort(uses)
	return slices.Compact(uses)
}

// drawsUnseeded reports whether a function of math/rand draws from the package's own
// source. All do but the constructors; types are not functions.
func drawsUnseeded(name string) bool {
	switch name {
	case "Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf", "New", "NewSource", "NewPCG", "NewChaCha8", "NewZipf":
		return false
	}
	return true
}

// inexact reports whether the result of a function of package math may differ between
// processors in its last bit. Those that IEEE 754 defines, or that only look at bits, do
// not.
func inexact(name string) bool {
	switch name {
	case "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "Cbrt", "Cos", "Cosh", "Erf", "Erfc", "Erfcinv", "Erfinv",
		"Exp", "Exp2", "Expm1", "Gamma", "Hypot", "J0", "J1", "Jn", "Lgamma", "Log", "Log10", "Log1p", "Log2", "Pow", "Pow10",
		"Sin", "Sincos", "Sinh", "Tan", "Tanh", "Y0", "Y1", "Yn":
		return true
	}
	return false
}
