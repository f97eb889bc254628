package pipeline_test

import (
	"bufio"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// TestTensorsAreDocumented: the table in the comment of Snapshot lists exactly the tensors
// that snapshots have, with their types.
func TestTensorsAreDocumented(t *testing.T) {
	source, err := os.Open("snapshot.go")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	line := regexp.MustCompile(`^//\t([a-z]+\.[A-Za-z]+) +([A-Z0-9]+|ids) `)
	documented := make(map[string]string)
	for lines := bufio.NewScanner(source); lines.Scan(); {
		if m := line.FindStringSubmatch(lines.Text() + " "); m != nil {
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
			case part == "heads" && rest != "serve", part == "drift" && rest != "found":
				name = part + ".NAME"
			case rest == "integers", rest == "text", rest == "lengths" && part != "features":
				name, dtype = part+".ID", "ids"
			}
			written[name] = dtype
		}
	}
	for _, seed := range []uint64{0, 1, poolSeeds, poolSeeds + 1} {
		_, m, cfg, l := lived(t, seed, 0)
		cfg.Rescore = pipeline.Rescoring{After: 1}
		cfg.PendingMemory, cfg.Blocks = 1, newMemoryBlocks()
		e := newEngine(t, m, cfg)
		var windows []*event.Window
		for range 60 {
			windows = append(windows, l.window())
			e.Step(windows[len(windows)-1])
		}
		note(snapshotOf(t, e, nil))
		sharded := newSharded(t, m, pipeline.Config{LearnLag: 1, Coverage: pipeline.Coverage{Target: 0.9}}, 2, 1)
		for _, w := range windows {
			sharded.Step(w)
		}
		for _, open := range sharded.Save().Files {
			note(readAll(t, open))
		}
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
