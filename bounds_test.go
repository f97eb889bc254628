package gvbll

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// crossed are bounds that a test goes far beyond by a value of its own, and that test.
var crossed = map[string]string{
	"charts/page.maxBodies":            "charts/page.TestSlowSenders",
	"charts/page.maxID":                "charts/page.TestAPIIsAsDescribed",
	"charts/page.maxNeighbours":        "charts/page.TestAPIIsAsDescribed",
	"charts/page.maxQuestions":         "charts/page.TestEngineIsBusy",
	"charts/metrics.maxClasses":        "charts/metrics.TestManyClasses",
	"charts/metrics.mostCellSeries":    "charts/metrics.TestCellSeries",
	"gnn/attributes.mostNameSize":      "gnn/attributes.TestUnknownNames",
	"gnn/attributes.mostNames":         "gnn/attributes.TestUnknownNames",
	"gnn/dataset.maxDim":               "gnn/dataset.TestHugeLines",
	"gnn/dataset.maxFields":            "gnn/dataset.TestHugeLines",
	"gnn/dataset.maxLine":              "gnn/dataset.TestHugeLines",
	"gnn/dataset.maxNodes":             "gnn/dataset.TestPackedBombs",
	"gnn/dataset.maxEdges":             "gnn/dataset.TestPackedBombs",
	"gnn/dataset.maxNumbers":           "gnn/dataset.TestHostileNPZ",
	"gnn/dataset.maxRatio":             "gnn/dataset.TestHostileNPZ",
	"gnn/keys.mostColumns":             "gnn/keys.TestParse",
	"gnn/safetensors.maxKeys":          "gnn/safetensors.TestManyKeys",
	"pipeline.maxHistoryClasses":       "pipeline.TestHistoryKeepsEveryClass",
	"pipeline/model.maxClass":          "pipeline/model.TestOpenRefuses",
	"pipeline/model.maxWeight":         "pipeline/model.TestOpenRefuses",
	"pipeline/parts.mostNamed":         "pipeline/parts.TestParseBy",
	"pipeline/parts.mostValueSize":     "pipeline/parts.TestValuesOfCohorts",
	"pipeline/structure.mostMoves":     "pipeline/structure.TestClockIsBounded",
	"pipeline/structure.mostTicks":     "pipeline/structure.TestClockIsBounded",
	"topics/base.maxList":              "topics/base.TestOversizedFiles",
	"topics/base.maxNames":             "topics/base.TestEndlessBucket",
	"topics/base.maxOwner":             "topics/base.TestHome",
	"topics/base.maxPage":              "topics/base.TestEndlessBucket",
	"topics/kafka.maxAnswer":           "topics/kafka.TestAnswerIsBounded",
	"topics/kafka.maxChecked":          "topics/kafka.TestAnswerIsBounded",
	"topics/kafka.maxWindow":           "topics/kafka.TestLyingLengths",
	"topics/registry.maxAll":           "topics/registry.TestBounds",
	"topics/registry.maxAnswer":        "topics/registry.TestClient",
	"topics/registry.maxFields":        "topics/registry.TestHostileSchemas",
	"topics/sender.maxLine":            "topics/sender.TestLines",
	"topics/wire.maxContentType":       "topics/wire.TestJSONAttacks",
	"topics/wire.maxDepth":             "topics/wire.TestAttacks",
	"topics/wire.maxDetail":            "topics/wire.TestDetailIsBounded",
	"topics/wire.maxHeader":            "topics/wire.TestDeadLetter",
	"cmd/gvbll/service.maxHTTPRequest": "cmd/gvbll/service.TestScrapesAreBounded",
	"cmd/gvbll/service.maxHTTPHeader":  "cmd/gvbll/service.TestHTTPServesNothingElse",
}

// ours are bounds that are not of what comes in from others, by why.
var ours = map[string][]string{
	"what an operator gives, whom one line refuses": {
		"cmd/gvbll.maxForgotten", "cmd/gvbll.maxCells", "cmd/gvbll.maxCommitInterval", "cmd/gvbll.mostNodes", "cmd/gvbll/flags.mostBases",
		"gnn/keys.largestMax", "pipeline.MostPending", "pipeline.MostLearnLag", "pipeline/event.maxAfter", "pipeline.maxInfluences",
		"pipeline/parts.mostReasons", "topics/publish.maxCopied", "topics/sender.maxBurst", "pipeline/model.maxProblem",
	},
	"what this program shows, whatever there is": {
		"charts/page.maxDetail", "charts/page.maxEvents", "charts/page.maxHeads", "charts/page.mostUnknown",
		"charts/metrics.maxSeriesName",
		"cmd/gvbll/look.mostPeriods", "pipeline/event.MostAttributes", "pipeline/event.maxDifferences", "gnn/dataset.maxNotes",
		"topics/ledger.MaxClasses", "topics/ledger.MaxUnknown",
	},
	"how this program computes": {
		"gnn.mostKnots", "gnn/attributes.maxDense", "gnn/attributes.maxDensity", "gnn/dataset.maxDensity", "gnn/dataset.mostOfLabel",
		"gnn/dataset.mostDoubted", "gnn/dataset.mostLate", "gnn/kernel.maxSegment", "gnn/kernel.maxClass", "gnn.maxModules", "gnn/snapshot.maxBlock",
		"pipeline/model.mostKindCounts", "pipeline/neighbourhood.maxLooks", "pipeline/parts.mostAttributes", "pipeline/parts.mostHeard",
		"pipeline/parts.mostLoss", "pipeline/parts.mostNeighbours", "posterior.mostMean", "posterior/drift.maxRows",
		"posterior/pool.maxDeviation", "posterior/pool.maxWork", "posterior/pool.mostDeviations", "posterior/pool.mostPasses",
		"posterior/pool.mostSweeps", "topics/base.mostChunks", "topics/intake.maxTrail", "topics/intake.mostPartitionBytes", "topics/replay.MaxAttempts",
		"topics/worker.mostAhead", "cmd/gvbll/service.maxConnections", "charts/page.maxWait", "topics/wire.maxNames", "topics/wire.maxEscapes",
	},
}

// TestBounds: every constant whose name says that it bounds something is exceeded by a test, which multiplies it or adds to it, is crossed
// by one that this file names, or is not of what comes in from others.
func TestBounds(t *testing.T) {
	bound := regexp.MustCompile(`^(most|max|Most|Max|largest)[A-Z]`)
	bounds, beyond, tests := map[string]bool{}, map[string]bool{}, map[string]bool{}
	must(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || strings.HasPrefix(name, ".") && name != "." || strings.HasSuffix(name, "test") ||
			name == "faults" || name == "lab" || name == "gen"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || name == "bounds_test.go":
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		must(t, err)
		dir := filepath.Dir(file)
		if strings.HasSuffix(name, "_test.go") {
			from := map[string]string{}
			for _, i := range f.Imports {
				full := strings.Trim(i.Path.Value, `"`)
				from[path.Base(full)] = strings.TrimPrefix(full, "github.com/gvbll/gvbll/")
			}
			for _, decl := range f.Decls {
				test, is := decl.(*ast.FuncDecl)
				if !is || !strings.HasPrefix(test.Name.Name, "Test") {
					continue
				}
				tests[dir+"."+test.Name.Name] = true
				ast.Inspect(test, func(n ast.Node) bool {
					sum, is := n.(*ast.BinaryExpr)
					if !is || sum.Op != token.ADD && sum.Op != token.MUL {
						return true
					}
					ast.Inspect(sum, func(n ast.Node) bool {
						switch n := n.(type) {
						case *ast.SelectorExpr:
							if x, is := n.X.(*ast.Ident); is {
								beyond[from[x.Name]+"."+n.Sel.Name] = true
							}
						case *ast.Ident:
							beyond[dir+"."+n.Name] = true
						}
						return true
					})
					return true
				})
			}
			return nil
		}
		for _, decl := range f.Decls {
			if c, is := decl.(*ast.GenDecl); is && c.Tok == token.CONST {
				for _, s := range c.Specs {
					for _, id := range s.(*ast.ValueSpec).Names {
						if bound.MatchString(id.Name) {
							bounds[dir+"."+id.Name] = true
						}
					}
				}
			}
		}
		return nil
	}))
	listed := map[string]bool{}
	list := func(b string) {
		if listed[b] || !bounds[b] {
			t.Errorf("%s is listed twice, or is no bound", b)
		}
		listed[b] = true
	}
	for b, test := range crossed {
		if list(b); !tests[test] {
			t.Errorf("%s is to be crossed by %s, which there is not", b, test)
		}
	}
	for _, of := range ours {
		for _, b := range of {
			list(b)
		}
	}
	for b := range bounds {
		if !beyond[b] && !listed[b] {
			t.Errorf("no test goes beyond %s: write one that does, at once and one by one", b)
		}
	}
}
