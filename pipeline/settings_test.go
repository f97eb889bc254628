package pipeline_test

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/structure"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// everything is a configuration with all optional parts on.
func everything(t *testing.T) pipeline.Config {
	t.Helper()
	cfg, err := pipeline.Config{
		Update:   posterior.Config{Lambda: 0.9, Eta: 0.5, Beta: 0.01, Clip: 0.3, Epsilon: 1e-7, Batch: 20},
		Coverage: pipeline.Coverage{Target: 0.9, MinConfidence: 0.3, MaxSize: 4},
		Rescore:  pipeline.Rescoring{After: 3, Confidence: 0.4, Limit: 50},
		Keep:     structure.Keep{Nodes: 1000},
		Ask:      parts.Asking{Budget: 100, Per: parts.Hour, Random: 0.1},
	}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// leaves calls f for every field of a struct, and of the structs in it, that is not a
// struct itself.
func leaves(v reflect.Value, path string, f func(path string, v reflect.Value)) {
	for i := range v.NumField() {
		name := strings.TrimPrefix(path+"."+v.Type().Field(i).Name, ".")
		if v.Field(i).Kind() == reflect.Struct {
			leaves(v.Field(i), name, f)
			continue
		}
		f(name, v.Field(i))
	}
}

// TestSettingsHoldEveryField: every field of Config is in the settings and is read back
// from them, except for those that outcomes do not depend on. An audit rebuilds the
// configuration from the settings in the ledger.
func TestSettingsHoldEveryField(t *testing.T) {
	base := everything(t)
	cfg := base
	leaves(reflect.ValueOf(&cfg).Elem(), "", func(path string, v reflect.Value) {
		cfg = base
		switch v.Kind() {
		case reflect.String:
			v.SetString(map[string]string{"Act": "class=a,cost=2:1", "LabelRates": "rare=0.1", "Reasons": "3,a>0.2", "By": "country,values=3,class=a"}[path])
			if v.String() == "" {
				v.SetString(pipeline.HeadPaper)
			}
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int, reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.Func:
			v.Set(reflect.ValueOf(func(job func()) (wait func()) { return job }))
		case reflect.Interface:
			v.Set(reflect.ValueOf(pipelinetest.NewMemoryBlocks()))
		case reflect.Uint8:
			v.SetUint(v.Uint() + 1)
		case reflect.Float64:
			v.SetFloat(cmp.Or(v.Float()*1.0625, 0.25)) // 0 of a part that is off
		default:
			t.Fatalf("field %s is a %s: add how to change it to this test", path, v.Kind())
		}
		same := string(cfg.Settings()) == string(base.Settings())
		if same != strings.HasPrefix(path, "Local.") {
			t.Errorf("changing %s leaves the settings as they are: %v, want %v\n%s", path, same, !same, cfg.Settings())
		}
		want := cfg
		want.Local = base.Local
		if got, err := pipeline.ParseSettings(cfg.Settings()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: ParseSettings = %+v, %v\nwant %+v", path, got, err, want)
		}
	})
}

// TestEffective: if only pools serve, the constants of the paper's head are not part of the
// effective configuration.
func TestEffective(t *testing.T) {
	pooled, bare := &model.Model{Meta: model.Meta{Pool: &pool.Config{}}}, &model.Model{}
	set, plain := everything(t), everything(t)
	plain.Update, plain.Fallback = posterior.DefaultConfig(), 20
	paper := set
	paper.Head = pipeline.HeadPaper
	for name, c := range map[string]struct {
		cfg    pipeline.Config
		models []*model.Model
		want   pipeline.Config
	}{
		"a pool":             {set, []*model.Model{pooled}, plain},
		"two":                {set, []*model.Model{pooled, pooled}, plain},
		"no pool":            {set, []*model.Model{bare}, set},
		"one of two":         {set, []*model.Model{pooled, bare}, set},
		"a pool, not served": {paper, []*model.Model{pooled}, paper},
	} {
		if got := c.cfg.Effective(c.models...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: Effective = %+v\nwant %+v", name, got, c.want)
		}
	}
}

// TestParseSettingsRefuses: the error for settings that are not those of a Config says what
// is wrong.
func TestParseSettingsRefuses(t *testing.T) {
	whole := string(everything(t).Settings())
	for want, damage := range map[string]func(string) string{
		"unexpected": func(s string) string { return s[:len(s)-1] },
		"use the program that wrote it": func(s string) string {
			return strings.Replace(s, fmt.Sprintf(`"engine":%d`, pipeline.Version), fmt.Sprintf(`"engine":%d`, pipeline.Version+1), 1)
		},
		"eta is missing":     func(s string) string { return strings.Replace(s, `"eta":0.5,`, "", 1) },
		"theta is unknown":   func(s string) string { return strings.Replace(s, "{", `{"theta":3,`, 1) },
		`"other" is unknown`: func(s string) string { return strings.Replace(s, `"none"`, `"other"`, 1) },
		"lambda 7":           func(s string) string { return strings.Replace(s, `"lambda":0.9`, `"lambda":7`, 1) },
		"bins":               func(s string) string { return strings.Replace(s, `"bins":10`, `"bins":[]`, 1) },
		"1.0.0 serves such":  func(s string) string { return strings.Replace(s, `"shards":1`, `"shards":4`, 1) },
	} {
		if _, err := pipeline.ParseSettings(event.Settings(damage(whole))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
