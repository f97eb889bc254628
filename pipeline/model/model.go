// Package model trains models (Phase 1) and reads and writes their files. A model is all
// that serving needs: the frozen encoder, the temperature head, the posterior (M*, Σ*)
// that the stream starts from and is anchored to, optionally a pool of heads, and the
// meaning of the numbers: class names in order, dimensions, normalisation of features. It
// is one safetensors file, with the encoder under PyTorch Geometric's state-dict names.
package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/keys"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Format is the version of the files written here.
const Format = 1

// metadataKey is the one entry of a file's metadata: Meta, as JSON.
const metadataKey = "gvbll"

// Model is a trained model. It is immutable and may be shared.
type Model struct {
	Meta
	ID          string // the first 16 hexadecimal digits of the file's SHA-256
	Encoder     gnn.Encoder
	Normalizer  *gnn.Normalizer
	Readout     *gnn.Readout           // of a model of graphs, or nil; Encoder is then the identity
	Prior       posterior.Gaussian     // (M*, Σ*), d_e × C
	Temperature *posterior.Temperature // nil: τ = 1
	PoolState   []byte                 // of the pool in Meta, after training
	trained     idSet                  // see TrainedOn
}

// Meta is the metadata of a model file.
type Meta struct {
	Format        int            `json:"format"`
	Encoder       gnn.Kind       `json:"encoder"`
	Activation    gnn.Activation `json:"activation,omitempty"`
	Classes       []string       `json:"classes"` // in the order of the probabilities
	Normalization string         `json:"normalization"`
	Training      Training       `json:"training"`
	Pool          *pool.Config   `json:"pool,omitempty"` // nil where there is none
	// Distributions are those of the normaliser, by feature, if it ranks.
	Distributions []gnn.Distribution `json:"distributions,omitempty"`
	// Schema makes features of named values; nil for a model of plain numbers.
	Schema *attributes.Schema `json:"schema,omitempty"`
	// Kinds are the kinds of edges that the encoder tells apart; nil if it does not.
	Kinds gnn.EdgeKinds `json:"kinds,omitempty"`
	// GraphSize is [gnn.Readout.Size] of a model that classifies graphs; 0 for one of nodes.
	GraphSize float32 `json:"graph_size,omitempty"`
}

// Training says how the model was trained.
type Training struct {
	DataSet      string  `json:"data_set"`
	Split        string  `json:"split"` // how the training nodes were chosen
	Seed         uint64  `json:"seed"`
	Settings     string  `json:"settings"` // Config.String, before defaults
	Nodes        int     `json:"nodes"`
	Epochs       int     `json:"epochs"`
	Samples      int     `json:"samples"`
	Hidden       []int   `json:"hidden"`
	LearningRate float64 `json:"learning_rate"`
	WeightDecay  float64 `json:"weight_decay"`
	Dropout      float64 `json:"dropout"`
	Completed    int     `json:"completed"` // isolated training nodes that got neighbours, see Data.Complete
	Loss         float64 `json:"loss"`      // negative ELBO of the last epoch, nats a node
	Accuracy     float64 `json:"accuracy"`
	// Labels are the numbers of training nodes by class; nil if the program that trained did not say.
	Labels []int `json:"labels,omitempty"`
	// Rare are the rarest classes of the training nodes, if the model has more than are watched.
	Rare []string `json:"rare,omitempty"`
	// Validation is of a model that was trained from a ledger.
	Validation *Validation `json:"validation,omitempty"`
}

// Validation is what a model's candidate, trained on the labels before a cut, scored on the
// nodes after it, beside the model that served then.
type Validation struct {
	Cut     int64                        `json:"cut"`     // first window after the cut
	Windows int64                        `json:"windows"` // of the ledger, when the model was trained
	Labels  int                          `json:"labels"`  // that were scored
	Serving string                       `json:"serving"` // id of the model that served, "" for none
	Scores  map[string]calibration.Means `json:"scores"`  // of the candidate, by head
	Served  map[string]calibration.Means `json:"served,omitempty"`
}

// SetValidation sets the validation in m's metadata. m's ID changes.
func (m *Model) SetValidation(v Validation) error {
	m.Training.Validation = &v
	return m.identify()
}

// Open reads and validates a model file. The error names the part that is invalid.
func Open(path string) (*Model, error) {
	f, err := safetensors.ReadFile(path)
	if err != nil {
		return nil, refused("model", path, err,
			"a model is what 'gvbll train --data DIR --out FILE' writes; one of PyTorch is given to it as --weights "+
				"(docs/pytorch-geometric.md)")
	}
	m, err := fromFile(f)
	if err != nil {
		return nil, fmt.Errorf("model %s: %s", path, brief(err))
	}
	return m, nil
}

// refused returns the error of a file that cannot be read, with the remedy if it is of another format.
func refused(what, path string, err error, remedy string) error {
	if errors.Is(err, safetensors.ErrForeign) {
		return fmt.Errorf("%s %s is %w: %s", what, path, err, remedy)
	}
	return fmt.Errorf("%s %s: %w", what, path, err)
}

// maxProblem bounds what Open quotes from a file, in bytes. A name in its metadata can be
// of any length.
const maxProblem = 500

// brief returns the first problem that err reports, as one line of bounded length. A
// damaged file can have a problem in each of thousands of heads.
func brief(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	if len(first) > maxProblem {
		return strings.ToValidUTF8(first[:maxProblem], "") + " …"
	}
	return first
}

// Save writes the model file atomically. A model that Open would not read as this one is refused, and the file
// stays as it was.
func (m *Model) Save(path string) error {
	f := m.file()
	b, err := f.Encode()
	if err != nil {
		return fmt.Errorf("%s is not written: %w", path, err)
	}
	read, err := safetensors.Decode(b)
	var again *Model
	if err == nil {
		again, err = fromFile(read)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s is not written, because it could not be opened: %s", path, brief(err))
	case !slices.Equal(again.Classes, m.Classes):
		return fmt.Errorf("%s is not written, because it would be opened with other classes: %.200q", path, again.Classes)
	}
	return safetensors.WriteFile(path, f)
}

func (m *Model) file() *safetensors.File {
	meta, err := json.Marshal(m.Meta)
	if err != nil {
		panic(err) // strings and numbers only
	}
	t := m.NodeEncoder().Tensors()
	d, c := m.Prior.Dim, m.Prior.Classes
	t["head.mean"] = safetensors.Of(m.Prior.Mean, d, c)
	t["head.precision"] = safetensors.Of(m.Prior.Precision, d, c)
	if h := m.Temperature; h != nil {
		// As torch.nn.Sequential(Linear, ReLU, Linear) names and lays them out.
		t["temperature.0.weight"] = safetensors.Of(transpose(h.W1, h.Dim, h.Hidden), h.Hidden, h.Dim)
		t["temperature.0.bias"] = safetensors.Of(h.B1, h.Hidden)
		t["temperature.2.weight"] = safetensors.Of(h.W2, 1, h.Hidden)
		t["temperature.2.bias"] = safetensors.Of([]float64{h.B2}, 1)
	}
	n := m.Normalizer
	if m.Readout != nil {
		n = m.Readout.Normalizer
	}
	if n.Mean != nil {
		t["normalization.mean"] = safetensors.Of(n.Mean, len(n.Mean))
		t["normalization.std"] = safetensors.Of(n.Std, len(n.Std))
	}
	if len(m.trained) > 0 {
		t[trainedTensor] = safetensors.Of(m.trained, len(m.trained))
	}
	if m.Pool != nil {
		t["pool.state"] = safetensors.Of(m.PoolState, len(m.PoolState))
	}
	return &safetensors.File{Metadata: map[string]string{metadataKey: string(meta)}, Tensors: t}
}

func fromFile(f *safetensors.File) (*Model, error) {
	text, ok := f.Metadata[metadataKey]
	if !ok {
		return nil, fmt.Errorf("its metadata has no entry %q: make a model with 'gvbll train'", metadataKey)
	}
	m := &Model{}
	if err := json.Unmarshal([]byte(text), &m.Meta); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	if m.Format != Format {
		return nil, fmt.Errorf("format %d, this program reads format %d", m.Format, Format)
	}
	var err error
	convs := make(map[string]safetensors.Tensor)
	for name, t := range f.Tensors {
		if strings.HasPrefix(name, "convs.") {
			convs[name] = t
		}
	}
	if m.Encoder, err = gnn.Load(m.Meta.Encoder, m.Meta.Activation, convs); err != nil {
		return nil, err
	}
	if err := m.loadKinds(); err != nil {
		return nil, err
	}
	if err := m.loadNormalizer(f.Tensors); err != nil {
		return nil, err
	}
	if m.GraphSize != 0 {
		if err := m.readGraphs(); err != nil {
			return nil, err
		}
	}
	if err := m.loadHead(f.Tensors); err != nil {
		return nil, err
	}
	if err := m.loadTrained(f.Tensors); err != nil {
		return nil, err
	}
	if m.Schema != nil {
		if err := m.Schema.Check(); err != nil {
			return nil, fmt.Errorf("schema: %w", err)
		}
		if w := m.Schema.Width(); w != m.Encoder.In() {
			return nil, fmt.Errorf("a schema of %d columns, and an encoder of %d", w, m.Encoder.In())
		}
		if m.Schema.Keys != nil {
			if _, err := keys.New(m.Schema.Keys, m.Classes); err != nil {
				return nil, fmt.Errorf("schema: %w", err)
			}
		}
	}
	if m.Pool != nil {
		if m.PoolState, err = safetensors.Values[uint8](f.Tensors["pool.state"]); err != nil {
			return nil, fmt.Errorf("pool.state: %w", err)
		}
		if _, err := m.NewPool(); err != nil {
			return nil, err
		}
	}
	return m, m.identify()
}

func (m *Model) loadHead(tensors map[string]safetensors.Tensor) error {
	d, c := m.Encoder.Out(), len(m.Classes)
	if err := checkClasses(m.Classes); err != nil {
		return err
	}
	m.Prior = posterior.Gaussian{Dim: d, Classes: c}
	r := reader{tensors: tensors}
	m.Prior.Mean = r.floats("head.mean", d, c)
	m.Prior.Precision = r.floats("head.precision", d, c)
	if t, ok := tensors["temperature.0.weight"]; ok {
		hidden := 0
		if len(t.Shape) == 2 {
			hidden = t.Shape[0]
		}
		h := &posterior.Temperature{Dim: d, Hidden: hidden}
		h.W1 = r.floats("temperature.0.weight", hidden, d)
		h.B1 = r.floats("temperature.0.bias", hidden)
		h.W2 = r.floats("temperature.2.weight", 1, hidden)
		if b := r.floats("temperature.2.bias", 1); len(b) == 1 {
			h.B2 = b[0]
		}
		if r.err == nil {
			h.W1 = transpose(h.W1, hidden, d)
		}
		m.Temperature = h
	}
	if r.err != nil {
		return r.err
	}
	if err := m.Temperature.Validate(); err != nil {
		return err
	}
	return m.Prior.Validate()
}

// maxClass bounds the length of a class's name, in bytes, as the wire does.
const maxClass = 1024

// checkClasses makes sure that a name identifies one class, since labels have names.
func checkClasses(classes []string) error {
	if len(classes) < 2 {
		return fmt.Errorf("%d classes, at least 2 are needed", len(classes))
	}
	seen := make(map[string]bool, len(classes))
	for i, name := range classes {
		switch {
		case name == "":
			return fmt.Errorf("class %d has no name", i)
		case len(name) > maxClass:
			return fmt.Errorf("class %d has a name of %d bytes, at most %d are allowed", i, len(name), maxClass)
		case seen[name]:
			return fmt.Errorf("class %q is listed twice", name)
		}
		seen[name] = true
	}
	return nil
}

func (m *Model) loadNormalizer(tensors map[string]safetensors.Tensor) error {
	m.Normalizer = &gnn.Normalizer{Kind: gnn.Normalization(m.Normalization), Of: m.Distributions}
	if k := m.Normalizer.Kind; k == gnn.NormalizeStandard || k == gnn.NormalizeRanks {
		r := reader{tensors: tensors}
		m.Normalizer.Mean = r.singles("normalization.mean", m.Encoder.In())
		m.Normalizer.Std = r.singles("normalization.std", m.Encoder.In())
		if r.err != nil {
			return r.err
		}
	}
	return m.Normalizer.Validate(m.Encoder.In())
}

// identify sets the ID from the bytes that Save would write.
func (m *Model) identify() error {
	b, err := m.file().Encode()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	m.ID = hex.EncodeToString(sum[:8])
	return nil
}

// reader reads tensors of given shapes. err is the first error.
type reader struct {
	tensors map[string]safetensors.Tensor
	err     error
}

// maxWeight bounds the numbers of the head and the temperature. With float32 embeddings,
// neither a logit nor the temperature's three products can then overflow float64.
const maxWeight = 1e80

func (r *reader) floats(name string, shape ...int) []float64 {
	v := values[float64](r, name, shape)
	for _, x := range v {
		if !(math.Abs(x) <= maxWeight) && r.err == nil {
			r.err = fmt.Errorf("tensor %s holds %v, numbers up to ±%v are expected", name, x, maxWeight)
		}
	}
	return v
}

func (r *reader) singles(name string, shape ...int) []float32 {
	return values[float32](r, name, shape)
}

func values[T safetensors.Element](r *reader, name string, shape []int) []T {
	t, ok := r.tensors[name]
	if !ok || fmt.Sprint(t.Shape) != fmt.Sprint(shape) {
		if r.err == nil {
			r.err = fmt.Errorf("tensor %s has shape %v, %v is expected", name, t.Shape, shape)
		}
		return nil
	}
	v, err := safetensors.Values[T](t)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("tensor %s: %w", name, err)
	}
	return v
}

func transpose(a []float64, rows, cols int) []float64 {
	t := make([]float64, len(a))
	for i := range rows {
		for j := range cols {
			t[j*rows+i] = a[i*cols+j]
		}
	}
	return t
}
