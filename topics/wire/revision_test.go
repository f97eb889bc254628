package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline/event"
)

// TestRevision: what is predicted again says so; what is served first has the bytes
// that it always had.
func TestRevision(t *testing.T) {
	p := samplePrediction()
	if bytes.Contains(AppendPrediction(nil, &p), []byte("revision")) {
		t.Error("what is served first has a revision")
	}
	p.Revision = 3
	var got event.Prediction
	if err := DecodePrediction(AppendPrediction(nil, &p), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got); diff != "" {
		t.Error(diff)
	}
	if line := string(AppendPredictionJSON(nil, &p)); !strings.HasSuffix(line, `,"model":"cora-1","revision":3}`) {
		t.Error(line)
	}
	if err := DecodePrediction(pack(t, fields{"node": 1, "revision": -1}), &got); err == nil {
		t.Error("a negative revision is taken")
	}
}
