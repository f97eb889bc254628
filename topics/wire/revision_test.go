package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline/event"
)

// TestRevision: a revised prediction has its revision number. A first prediction has no such
// field.
func TestRevision(t *testing.T) {
	p := samplePrediction()
	if bytes.Contains(AppendPrediction(nil, &p), []byte("revision")) {
		t.Error("a first prediction has the field revision")
	}
	p.Revision = 3
	var got event.Prediction
	if err := DecodePrediction(AppendPrediction(nil, &p), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got, unnamed); diff != "" {
		t.Errorf("decoded again, -want +got\n%s", diff)
	}
	if line := string(AppendPredictionJSON(nil, &p)); !strings.HasSuffix(line, `,"model":"cora-1","revision":3}`) {
		t.Errorf("the JSON is %s, want it to end with the model and revision 3", line)
	}
	if err := DecodePrediction(pack(t, fields{"node": 1, "revision": -1}), &got); err == nil {
		t.Error("a negative revision is accepted")
	}
}
