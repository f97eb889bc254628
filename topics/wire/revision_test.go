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
	if bytes.Contains(MsgPack.AppendPrediction(nil, &p), []byte("revision")) {
		t.Error("a first prediction has the field revision")
	}
	p.Revision = 3
	var got event.Prediction
	if err := DecodePrediction(MsgPack.AppendPrediction(nil, &p), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got, unnamed); diff != "" {
		t.Errorf("decoded again, -want +got\n%s", diff)
	}
	if line := string(JSON.AppendPrediction(nil, &p)); !strings.HasSuffix(line, `,"model":"cora-1","revision":3}`) {
		t.Errorf("the JSON is %s, want it to end with the model and revision 3", line)
	}
	if err := DecodePrediction(pack(t, fields{"node": 1, "revision": -1}), &got); err == nil {
		t.Error("a negative revision is accepted")
	}
}

// TestAsked: a prediction of a node whose label is asked for has the probability with which it was, in
// both encodings. Others have no such field.
func TestAsked(t *testing.T) {
	p := samplePrediction()
	if bytes.Contains(MsgPack.AppendPrediction(nil, &p), []byte("asked")) || bytes.Contains(JSON.AppendPrediction(nil, &p), []byte("asked")) {
		t.Error("a prediction of a node whose label is not asked for has the field asked")
	}
	p.Asked = 0.25
	for _, value := range [][]byte{MsgPack.AppendPrediction(nil, &p), JSON.AppendPrediction(nil, &p)} {
		var got event.Prediction
		if err := DecodePrediction(value, &got); err != nil || got.Asked != p.Asked {
			t.Errorf("decoded again as %v with error %v, want %v", got.Asked, err, p.Asked)
		}
	}
	var got event.Prediction
	for _, value := range [][]byte{pack(t, fields{"node": 1, "asked": float32(1.5)}), []byte(`{"node":1,"asked":-0.5}`)} {
		if err := DecodePrediction(value, &got); err == nil {
			t.Errorf("a probability of %v is accepted", got.Asked)
		}
	}
}
