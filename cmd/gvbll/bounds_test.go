package main

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
	"charts/metrics.maxClasses":       "charts/metrics.TestManyClasses",
	"charts/metrics.mostCellSeries":   "charts/metrics.TestCellSeries",
	"gnn/attributes.mostNameSize":     "gnn/attributes.TestUnknownNames",
	"gnn/attributes.mostNames":        "gnn/attributes.TestUnknownNames",
	"gnn/dataset.maxDim":              "gnn/dataset.TestHugeLines",
	"gnn/dataset.maxFields":           "gnn/dataset.TestHugeLines",
	"gnn/dataset.maxLine":             "gnn/dataset.TestHugeLines",
	"gnn/dataset.maxNodes":            "gnn/dataset.TestPackedBombs",
	"gnn/dataset.maxEdges":            "gnn/dataset.TestPackedBombs",
	"gnn/dataset.maxNumbers":          "gnn/dataset.TestHostileNPZ",
	"gnn/dataset.maxRatio":            "gnn/dataset.TestHostileNPZ",
	"gnn/safetensors.maxKeys":         "gnn/safetensors.TestManyKeys",
	"pipeline/parts.mostNamed":        "pipeline/parts.TestParseBy",
	"pipeline/parts.mostValueSize":    "pipeline/parts.TestValuesOfCohorts",
	"pipeline/structure.mostMoves":    "pipeline.TestClockIsBounded",
	"pipeline/structure.mostTicks":    "pipeline.TestClockIsBounded",
	"topics/kafka.maxAnswer":          "topics/kafka.TestAnswerIsBounded",
	"topics/kafka.maxChecked":         "topics/kafka.TestAnswerIsBounded",
	"topics/wire.maxContentType":      "topics/wire.TestJSONAttacks",
	"topics/wire.maxDepth":            "topics/wire.TestAttacks",
	"topics/wire.maxHeader":           "topics/wire.TestDeadLetter",
	"cmd/gvbll/service.maxHTTPHeader": "cmd/gvbll/service.TestHTTPServesNothingElse",
}

// ours are bounds that are not of what comes in from others, by why.
var ours = map[string][]string{
	"what an operator gives, whom one line refuses": {
		"cmd/gvbll.maxForgotten", "cmd/gvbll.maxCells", "cmd/gvbll.maxCommitInterval", "cmd/gvbll.mostNodes", "cmd/gvbll/flags.mostBases",
		"gnn/keys.largestMax", "pipeline.MostPending", "pipeline.MostLearnLag", "pipeline/event.maxAfter", "pipeline.maxInfluences",
		"pipeline/parts.mostReasons", "topics/publish.maxCopied", "topics/sender.maxBurst", "pipeline/model.maxProblem",
	},
	"what this program shows, whatever there is": {
		"charts/page.maxColumns", "charts/page.maxDetail", "charts/page.maxEvents", "charts/page.maxHeads", "charts/page.mostUnknown", "charts/metrics.maxSeriesName",
		"cmd/gvbll/look.mostPeriods", "pipeline/event.MostAttributes", "pipeline/event.maxDifferences", "gnn/dataset.maxNotes",
		"topics/ledger.MaxClasses", "topics/ledger.MaxUnknown",
	},
	"how this program computes": {
		"gnn/attributes.mostKnots", "gnn/attributes.maxDense", "gnn/attributes.maxDensity", "gnn/dataset.maxDensity", "gnn/dataset.mostOfLabel",
		"gnn/dataset.mostDoubted", "gnn/kernel.maxSegment", "gnn/kernel.maxClass", "gnn.maxModules", "gnn/snapshot.maxBlock",
		"pipeline/model.mostKindCounts", "pipeline/neighbourhood.maxLooks", "pipeline/parts.mostAttributes", "pipeline/parts.mostHeard",
		"pipeline/parts.mostLoss", "pipeline/parts.mostNeighbours", "posterior.mostMean", "posterior/drift.maxRows",
		"posterior/pool.maxDeviation", "posterior/pool.maxWork", "posterior/pool.mostDeviations", "posterior/pool.mostPasses",
		"posterior/pool.mostSweeps", "topics/intake.maxTrail", "topics/intake.mostPartitionBytes", "topics/replay.MaxAttempts",
		"topics/worker.mostAhead", "cmd/gvbll/service.maxConnections", "charts/page.maxWait", "topics/wire.maxNames", "topics/wire.maxEscapes",
	},
}

// uncrossed are bounds of what comes in from others that no test goes beyond by itself: fuzz tests may. None is to be added.
var uncrossed = []string{
	"charts/page.maxBodies", "charts/page.maxID", "charts/page.maxNeighbours", "charts/page.maxQuestions",
	"cmd/gvbll/look.maxNoteKey", "cmd/gvbll/parquet.maxHeader", "cmd/gvbll/parquet.maxNesting", "cmd/gvbll/parquet.maxScale",
	"cmd/gvbll/service.maxHTTPBody", "cmd/gvbll/service.maxHTTPRequest", "cmd/gvbll/service.maxScrapes", "cmd/gvbll/service.mostAnswers",
	"gnn.MaxMeans", "gnn.maxWeight", "gnn/attributes.maxAttributes", "gnn/attributes.maxName", "gnn/attributes.maxValues", "gnn/attributes.maxWidth",
	"gnn/dataset.maxClasses", "gnn/dataset.maxHeader", "gnn/dataset.largestWeight", "gnn/dataset.maxKind",
	"gnn/keys.mostColumns", "gnn/keys.mostKeys", "gnn/keys.mostLast", "gnn/keys.mostOthers", "gnn/keys.mostSpans",
	"gnn/safetensors.maxDims", "gnn/safetensors.maxFile", "gnn/safetensors.maxName",
	"pipeline.maxHistoryClasses", "pipeline/model.maxClass", "pipeline/model.maxWeight", "pipeline/parts.mostState", "pipeline/serve.maxBlockBytes",
	"posterior/conformal.maxScores", "posterior/pool.maxInteractions", "posterior/internal/words.maxNumber", "posterior/pool.maxRows",
	"posterior/pool.maxStart", "posterior/pool.maxStrengths",
	"topics/base.maxList", "topics/base.maxNames", "topics/base.maxOwner", "topics/base.maxPage", "topics/base.mostChunks",
	"topics/publish.maxCopiedValue", "topics/registry.maxAnswer", "topics/registry.maxDepth", "topics/registry.maxFields",
	"topics/registry.maxJSON", "topics/registry.maxProtobuf", "topics/sender.maxLine",
}

// TestBounds: every constant whose name says that it bounds something is named by a test of its room, is crossed by one that this file
// names, or is not of what comes in from others.
func TestBounds(t *testing.T) {
	const root = "../../"
	bound := regexp.MustCompile(`^(most|max|Most|Max|largest)[A-Z]`)
	bounds, named, tests := map[string]bool{}, map[string]bool{}, map[string]bool{}
	must(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || strings.HasPrefix(name, ".") && name != ".." || strings.HasSuffix(name, "test") ||
			name == "faults" || name == "lab" || name == "gen"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || name == "bounds_test.go":
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		must(t, err)
		dir := strings.TrimPrefix(filepath.Dir(file), root)
		if strings.HasSuffix(name, "_test.go") {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					tests[dir+"."+n.Name.Name] = true
				case *ast.SelectorExpr:
					if x, is := n.X.(*ast.Ident); is {
						named["*"+x.Name+"."+n.Sel.Name] = true
					}
				case *ast.Ident:
					named[dir+"."+n.Name] = true
				}
				return true
			})
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
	byTest := func(b string) bool { return named[b] || named["*"+path.Base(b)] }
	for _, b := range uncrossed {
		if list(b); byTest(b) {
			t.Errorf("%s is named by a test now: take it off the list", b)
		}
	}
	for b := range bounds {
		if !byTest(b) && !listed[b] {
			t.Errorf("no test goes beyond %s: write one that does, at once and one by one", b)
		}
	}
}
