package pipeline_test

import (
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/shards"
)

// TestTensorsAreDocumented: the tables in the comments of Snapshot, and of a shard's, list exactly
// the tensors that snapshots have, with their types.
func TestTensorsAreDocumented(t *testing.T) {
	line := regexp.MustCompile(`^//\t([a-z]+\.[A-Za-z]+) +([A-Z0-9]+|ids) `)
	documented := make(map[string]string)
	for _, file := range []string{"snapshot.go", "shards/shard.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for text := range strings.Lines(string(source)) {
			if m := line.FindStringSubmatch(strings.TrimSpace(text) + " "); m != nil {
				documented[m[1]] = m[2]
			}
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
	accounts := accountModel(t, rand.New(rand.NewPCG(1, 1)))
	for _, seed := range []uint64{0, 1, poolSeeds, poolSeeds + 1} {
		_, m, cfg, l := lived(t, seed, 0)
		cfg.Rescore, cfg.Act = pipeline.Rescoring{After: 1}, "class=b,capacity=3/s"
		if m.Pool != nil {
			cfg.LabelRates = pipeline.CountedRates
		}
		cfg.PendingMemory, cfg.Blocks = 1, pipelinetest.NewMemoryBlocks()
		e := pipelinetest.NewEngine(t, m, cfg)
		var windows []*event.Window
		for range 60 {
			windows = append(windows, l.Window())
			e.Step(windows[len(windows)-1])
		}
		note(snapshotOf(t, e, nil))
		note(snapshotOf(t, pipelinetest.NewEngine(t, accounts, pipeline.Config{PartialUpdates: true}), nil))
		for _, b := range shardTensors(t, m, windows) {
			note(b)
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

// shardTensors returns the snapshots of a graph's only shard, and of what learns for it, after some
// windows.
func shardTensors(t *testing.T, m *model.Model, windows []*event.Window) (files [][]byte) {
	cfg := pipeline.Config{LearnLag: 1, Coverage: pipeline.Coverage{Target: 0.9}}
	shard, err := shards.NewShard(m, cfg, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	lead, err := shards.NewTrainer(m, cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	var sent [][][]byte // by window
	for _, w := range windows {
		shard.Enter(w)
		var due [][]byte
		if i := len(sent) - 1 - cfg.LearnLag; i >= 0 {
			due = sent[i]
		}
		if err := shard.Hear(due); err != nil {
			t.Fatal(err)
		}
		if _, err := shard.Serve([][]float32{shard.Part(0)}, nil); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, [][]byte{shard.AppendServed(nil)})
		if _, _, err := lead.Learn([]*shards.Rows{shard.Rows()}); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*pipeline.Snapshot{shard.Snapshot(nil), lead.Snapshot(nil)} {
		b, err := io.ReadAll(s)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		files = append(files, b)
	}
	return files
}
