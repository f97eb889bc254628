package trial

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
)

// Prepare builds the program, trains small models with the encoder, two of them if promote is set,
// makes as many nodes as the trial sends, and starts the cluster, as [newCluster] does.
func (s *Setup) Prepare(ctx context.Context, broker, tool string, encoder gnn.Kind, nodes int, promote bool) (err error) {
	defer catch(&err)
	s.Dir = need(os.MkdirTemp("", "gvbll-faults-"))
	s.Program, s.Model = filepath.Join(s.Dir, "gvbll"), filepath.Join(s.Dir, "model.safetensors")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "crashpoints", "-o", s.Program, "./cmd/gvbll")
	if out, err := build.CombinedOutput(); err != nil {
		fail("building the program: %w: %s", err, out)
	}
	s.makeNodes(ctx, encoder, nodes, promote)
	s.Cluster = newCluster(broker, tool, filepath.Join(s.Dir, "kafka"))
	s.connect(ctx)
	return nil
}

// connect connects to the cluster.
func (s *Setup) connect(ctx context.Context) {
	s.Brokers = s.Cluster.addresses()
	cfg := kafka.Config{Brokers: s.Brokers, ClientID: "faults"}
	if s.login != nil {
		cfg.SASL = need(kafka.SASL("plain", rootUser, func() (string, error) { return password, nil }))
	}
	s.Client = need(kafka.Dial(ctx, cfg))
}

// close ends the cluster.
func (s *Setup) close() {
	if s.Client != nil {
		s.Client.Close()
	}
	if s.Cluster != nil {
		s.Cluster.close()
	}
}

// End ends the cluster after a trial that ended with err, and then removes the folder, which brokers
// write to until they have ended. With an error the folder stays, for its logs.
func (s *Setup) End(err error) error {
	s.close()
	if err != nil {
		return fmt.Errorf("%w (logs are in %s)", err, s.Dir)
	}
	return os.RemoveAll(s.Dir)
}

// makeNodes trains the models on most of a data set, and sets the nodes to the others.
func (s *Setup) makeNodes(ctx context.Context, encoder gnn.Kind, nodes int, promote bool) {
	cfg := need(dataset.DriftPreset("moderate"))
	cfg.Nodes, cfg.Steps, cfg.Seed = 4*nodes+500, 10, s.Seed
	d, split, err := dataset.Drift(cfg)
	must(err)
	set := flags.DataSet{Dataset: d, Split: split}
	data := set.Training()
	set.Split = dataset.Stream{Steps: split.Steps} // the training nodes are not sent
	data.IDs = nil                                 // so that labels of the same ids are learned
	train := func(cfg model.Config, file string) string {
		if s.Small {
			cfg.Hidden, cfg.Embedding = []int{8}, 8
		}
		cfg.Epochs, cfg.Pool, cfg.Encoder = 20, s.Head == pipeline.HeadPool, cmp.Or(cfg.Encoder, encoder)
		must(need(model.Train(ctx, data, cfg, nil)).Save(file))
		return need(model.Open(file)).ID // the file's hash
	}
	train(model.Config{Seed: s.Seed}, s.Model)
	if promote {
		s.Shadow = filepath.Join(s.Dir, "shadow.safetensors")
		s.ShadowID = train(model.Config{Seed: s.Seed + 1, Encoder: gnn.KindGCN, Embedding: 8}, s.Shadow)
	}
	s.Items = slices.Concat(set.Stream().Steps...)
	if len(s.Items) < nodes {
		fail("the stream of the data set has %d nodes, and the trial needs %d", len(s.Items), nodes)
	}
	s.Items = s.Items[:nodes]
	for i := range s.Items {
		s.Items[i].Node.Time = 0 // set by those trials that need one
	}
}
