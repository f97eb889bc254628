package flags

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gvbll/gvbll/gnn/keys"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/setting"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/topics/wire"
)

// Engine are the flags of the engine's settings on which its predictions depend. The parts of the engine
// declare them, see [pipeline.Config.Declare].
type Engine struct {
	// Declared is a pointer to a struct that is made of the declarations, with a field for each flag.
	Declared any `embed:""`
}

// NewEngine returns the flags of these names, or all without names.
func NewEngine(names ...string) Engine {
	var fields []reflect.StructField
	for _, s := range new(pipeline.Config).Declare().Flags() {
		if len(names) > 0 && !slices.Contains(names, s.Name) {
			continue
		}
		tag := "name:" + strconv.Quote(s.Name) + " help:" + strconv.Quote(s.Help)
		add := func(key, value string) {
			if value != "" {
				tag += " " + key + ":" + strconv.Quote(value)
			}
		}
		add("group", s.Group)
		add("placeholder", s.Placeholder)
		if add("default", s.Default); s.Only != nil {
			add("enum", strings.Join(s.Only, ","))
			tag += " default:" + strconv.Quote(s.Default)
		}
		field := reflect.TypeFor[Text]()
		switch s.Value.(type) {
		case setting.NumberValue:
			field = reflect.TypeFor[float64]()
		case setting.IntegerValue:
			field = reflect.TypeFor[int]()
		case setting.SwitchValue:
			field = reflect.TypeFor[bool]()
		default:
			if s.Only == nil { // else the parser says what there is
				tag += ` type:"setting"`
			}
		}
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%d", len(fields)), Type: field, Tag: reflect.StructTag(tag)})
	}
	return Engine{reflect.New(reflect.StructOf(fields)).Interface()}
}

// Text is the text of a setting.
type Text string

// settingMapper reads the text of a setting, or that of the file it names, and refuses what the setting does.
type settingMapper struct{}

// Decode implements kong.Mapper.
func (settingMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("text", &text); err != nil {
		return err
	}
	for _, s := range new(pipeline.Config).Declare().Flags() {
		if s.Name != ctx.Value.Name {
			continue
		}
		if s.File {
			m, err := OpenMap(text)
			if err != nil {
				return err
			}
			text = m.Text
		}
		if err := s.Value.Set(text); err != nil {
			return err
		}
	}
	target.SetString(text)
	return nil
}

// each calls f with the name and the text of each flag.
func (f Engine) each(do func(name, text string) error) error {
	v := reflect.ValueOf(f.Declared).Elem()
	for i := range v.NumField() {
		if err := do(v.Type().Field(i).Tag.Get("name"), fmt.Sprint(v.Field(i).Interface())); err != nil {
			return err
		}
	}
	return nil
}

// bind returns the configuration of the flags, for a head if that is not one of them, and its settings by
// name.
func (f Engine) bind(head string) (*pipeline.Config, map[string]*setting.Setting, error) {
	c := &pipeline.Config{Head: head, Local: pipeline.Local{Run: Beside}, Update: posterior.DefaultConfig()}
	by := make(map[string]*setting.Setting)
	for _, s := range c.Declare().Flags() {
		by[s.Name] = s
	}
	err := f.each(func(name, text string) error {
		if err := by[name].Value.Set(text); err != nil {
			return Usagef("--%s %s: %w", name, text, err)
		}
		return nil
	})
	return c, by, err
}

// Settings returns the engine's configuration, for a head if that is not one of the flags. What has no
// effect is left out. [ValidSettings] checks it.
func (f Engine) Settings(head string) (pipeline.Config, error) {
	c, by, err := f.bind(head)
	if err != nil {
		return *c, err
	}
	err = f.each(func(name, _ string) error {
		if s := by[name]; s.Idle != nil && s.Idle() != "" && s.Default == "" {
			return s.Value.Set("")
		}
		return nil
	})
	return *c, err
}

// Check refuses flags that have no effect beside the others, whatever the model.
func (f Engine) Check(g Given, head string) error {
	_, by, err := f.bind(head)
	if err != nil {
		return err
	}
	return f.each(func(name, _ string) error {
		if s := by[name]; s.Idle != nil && s.Idle() != "" {
			return g.Check(NoEffect(true, s.Idle(), name))
		}
		return nil
	})
}

// checkModel refuses flags that have no effect on what the model serves with, and a map, as text, with keys that are not its own.
func checkModel(g Given, head string, m *model.Model, text string) error {
	if text != "" {
		t, err := wire.ParseMap(text)
		if err != nil {
			return err
		}
		declared, err := keys.Parse(t.Keys)
		if err != nil {
			return err
		}
		if t.Keys != nil && (m.Schema == nil || !declared.Equal(m.Schema.Keys)) {
			return Usagef("--map has keys that model %s was not trained with: leave them out there, as the model has its own, "+
				"or train it with them in dataset.json", m.ID)
		}
	}
	pooled := head == "" && m.Pool != nil
	return g.Check(
		NoEffect(m.Schema == nil, "no effect: model "+m.ID+" has no features by name: leave it out", "partial-updates"),
		NoEffect(pooled, "no effect: model "+m.ID+" serves with its pool of heads: leave it out, or add --head paper", PaperFlags...),
	)
}

// ValidSettings fills in defaults and returns an error for settings out of range.
func ValidSettings(c pipeline.Config) (pipeline.Config, error) {
	c, err := c.WithDefaults()
	return c, SettingError(err)
}

// UpdateFlags are the constants of the paper's Proposition 1, and PaperFlags all settings of the paper's
// head. A pool has none of them.
var (
	UpdateFlags = []string{"lambda", "eta", "beta", "clip", "batch", "gradient"}
	PaperFlags  = append([]string{"fallback"}, UpdateFlags...)
)

// OpenMap reads the file of a map. Its text begins with its hash, by which two are told apart.
func OpenMap(path string) (*wire.Map, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(b) > maxConfig {
		err = fmt.Errorf("%s has more than %d bytes: give the file of a map", path, maxConfig)
	}
	if err != nil {
		return nil, err
	}
	m, err := wire.ParseMap(string(b))
	if err == nil {
		m.Text = fmt.Sprintf("# %.8x\n%s", sha256.Sum256(b), b)
		_, err = keys.Parse(m.Keys)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// OrNone converts a flag's 0, which turns the thing off, to -1, which does so in
// configurations: there 0 stands for the default.
func OrNone(x float64) float64 {
	if x == 0 {
		return -1
	}
	return x
}

// Beside runs a job on a goroutine: it is the [pipeline.Config] Run of this program.
func Beside(job func()) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		job()
	}()
	return func() { <-done }
}

// ParseSettings returns a configuration of this program's engine, without those settings
// that have no effect on the models.
func ParseSettings(there event.Settings, models []*model.Model) (pipeline.Config, error) {
	cfg, err := pipeline.ParseSettings(there)
	cfg.Local.Unwatched, cfg.Local.Run = true, Beside
	return cfg.Effective(models...), err
}
