package service

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// ModelFolder is a folder of model files, which workers look up by id when a command or the
// ledger names one. 'gvbll retrain' names the files after their ids; others are found by
// their contents. A model is in memory once, however many engines have it.
type ModelFolder struct {
	dir string

	mu     sync.Mutex
	models map[string]weak.Pointer[model.Model] // that were opened, by id
}

// NewModelFolder returns the folder of a path.
func NewModelFolder(dir string) *ModelFolder {
	return &ModelFolder{dir: dir, models: make(map[string]weak.Pointer[model.Model])}
}

var modelID = regexp.MustCompile(`^[0-9a-f]{16}$`)

// File returns the path of a model's file, as it is written here.
func (d *ModelFolder) File(id string) string { return filepath.Join(d.dir, id+".safetensors") }

// Open reads the model with an id.
func (d *ModelFolder) Open(id string) (*model.Model, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.models[id].Value(); m != nil {
		return m, nil
	}
	if !modelID.MatchString(id) {
		return nil, fmt.Errorf("%.40q is not the id of a model", id)
	}
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, fmt.Errorf("--models: %w", err)
	}
	files := []string{d.File(id)}
	for _, e := range entries {
		if name := filepath.Join(d.dir, e.Name()); strings.HasSuffix(name, ".safetensors") && name != files[0] {
			files = append(files, name)
		}
	}
	for _, file := range files {
		// Files that cannot be read are other models' matter.
		if m, err := model.Open(file); err == nil && m.ID == id {
			d.models[id] = weak.Make(m)
			return m, nil
		}
	}
	return nil, fmt.Errorf("--models %s: no file there is of model %s: put it there", d.dir, id)
}

// ofLedger returns the models that serve and are in the shadow at a ledger's end, from those
// given and from the folder. While the ledger is empty they are those given.
func (d *ModelFolder) ofLedger(names topics.Names, r *ledger.Record, given []*model.Model) ([]*model.Model, error) {
	if r == nil {
		return given, nil
	}
	ids := []string{r.Serves()}
	switch {
	case r.Promoted != "":
		ids = append(ids, r.Model)
	case r.Shadow != nil:
		ids = append(ids, r.Shadow.Model)
	}
	var models []*model.Model
	for i, id := range ids {
		at := slices.IndexFunc(given, func(m *model.Model) bool { return m.ID == id })
		if at >= 0 {
			models = append(models, given[at])
			continue
		}
		m, err := d.Open(id)
		switch {
		case err == nil:
			models = append(models, m)
		case i == 0:
			return nil, fmt.Errorf("model %s serves in ledger %s: %w", id, names.Ledger, err)
		}
	}
	return models, nil
}

// beside returns a function that makes engines at window 0 of the model with an id, to run beside
// the one that serves.
func (d *ModelFolder) beside(id string, serving *model.Model, cfg pipeline.Config) (func() (replay.Engine, error), error) {
	m, err := d.Open(id)
	if err != nil {
		return nil, err
	}
	if err := pipeline.Compatible(serving, m); err != nil {
		return nil, err
	}
	if (m.Pool == nil) != (serving.Pool == nil) {
		return nil, fmt.Errorf("model %s has a pool of heads and model %s has none, or the reverse: train it with the "+
			"same --head", m.ID, serving.ID)
	}
	return fresh(cfg, m), nil
}
