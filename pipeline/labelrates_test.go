package pipeline_test

import (
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// TestParseLabelRates: texts have one form, and what is no rate is refused.
func TestParseLabelRates(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "counted": "counted", "ok=0.10": "ok=0.1", "b=1,a=2": "a=2,b=1", "a=b=0.5": "a=b=0.5",
	} {
		if got, err := pipeline.ParseLabelRates(text); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"ok", "=1", "ok=0", "ok=-1", "ok=NaN", "ok=Inf", "ok=1,ok=2", "ok=1,", ","} {
		if got, err := pipeline.ParseLabelRates(text); err == nil {
			t.Errorf("%q: %q, want an error", text, got)
		}
	}
	m := pipelinetest.SmallModel(t)
	pipelinetest.AddPool(t, m, false)
	for want, cfg := range map[string]pipeline.Config{
		"not one of the model's":      {LabelRates: "nobody=0.1"},
		"the paper's head knows none": {LabelRates: "counted", Head: pipeline.HeadPaper},
		"CLASS=RATE":                  {LabelRates: "x"},
	} {
		if _, err := pipeline.New(m, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
}
