package snapshots_test

import (
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn/keys"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/structure"
)

// TestTensorsAreDocumented: the table in the comment of Snapshot lists exactly the tensors that
// snapshots have, with their types.
func TestTensorsAreDocumented(t *testing.T) {
	line := regexp.MustCompile(`^//\t([a-z]+\.[A-Za-z]+) +([A-Z0-9]+|ids) `)
	documented := make(map[string]string)
	source, err := os.ReadFile("../snapshot.go")
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(source)) {
		if m := line.FindStringSubmatch(strings.TrimSpace(text) + " "); m != nil {
			documented[m[1]] = m[2]
		}
	}

	written := make(map[string]string)
	note := func(b []byte) {
		file, err := safetensors.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		for name, tensor := range file.Tensors {
			part, rest, _ := strings.Cut(name, ".")
			dtype := string(tensor.DType)
			switch {
			case name == "checksums":
				continue
			case part == "heads", part == "drift" && rest != "found":
				name = part + ".NAME"
			case part == "keys" && rest != "nodes":
				name = part + ".NUMBER"
			case rest == "integers", rest == "text", rest == "lengths" && part != "features":
				name, dtype = part+".ID", "ids"
			}
			written[name] = dtype
		}
	}
	accounts := pipelinetest.AccountModel(t, rand.New(rand.NewPCG(1, 1)))
	accounts.Schema.Keys = keys.Declared{"place": {Link: &keys.Link{Last: 1}}}
	for _, seed := range []uint64{0, 1, pipelinetest.PoolSeeds, pipelinetest.PoolSeeds + 1} {
		_, m, cfg, l := pipelinetest.Lived(t, seed, 0)
		cfg.Rescore, cfg.Act = pipeline.Rescoring{After: 1}, "class=b,capacity=3/s"
		if m.Pool != nil {
			cfg.LabelRates = pipeline.CountedRates
		}
		cfg.Local.PendingMemory, cfg.Local.Blocks = 1, pipelinetest.NewMemoryBlocks()
		e := pipelinetest.NewEngine(t, m, cfg)
		for range 60 {
			e.Step(l.Window())
		}
		note(pipelinetest.SnapshotOf(t, e, nil))
		note(pipelinetest.SnapshotOf(t, pipelinetest.NewEngine(t, accounts, pipeline.Config{Reading: structure.Reading{Partial: true}}), nil))
	}
	for name, dtype := range written {
		if documented[name] != dtype {
			t.Errorf("tensor %s has type %s, documented as %q", name, dtype, documented[name])
		}
	}
	for name := range documented {
		if written[name] == "" {
			t.Errorf("tensor %s is documented, but no snapshot has it", name)
		}
	}
}
