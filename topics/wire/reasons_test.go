package wire

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline/event"
)

func sampleReasons() *event.Causes {
	return &event.Causes{Class: "fraud", List: []event.Cause{
		{What: event.OfKey, Name: "card", Value: "7", Labelled: 3, OfClass: 2, By: 2.4},
		{What: event.OfAttribute, Name: "amount", Along: []string{"amount_eur"}, Value: "912", Usual: "12", By: 1.9},
		{What: event.OfNeighbour, Node: event.ID{Num: 17}, Labelled: 1, By: -.25},
		{What: event.OfLabels, By: .125},
	}}
}

// TestReasons: reasons are the same after encoding and decoding in both encodings, and have the documented JSON.
func TestReasons(t *testing.T) {
	p := samplePrediction()
	p.Reasons = sampleReasons()
	const want = `,"reasons_class":"fraud","reasons":[{"kind":"key","name":"card","value":"7","labelled":3,"of_class":2,"by":2.4},` +
		`{"kind":"attribute","name":"amount","with":["amount_eur"],"value":"912","usual":"12","by":1.9},` +
		`{"kind":"neighbour","node":17,"labelled":1,"of_class":0,"by":-0.25},{"kind":"labels","by":0.125}]}`
	plain := samplePrediction()
	text := JSON.AppendPrediction(nil, &plain)
	if got := string(JSON.AppendPrediction(nil, &p)); got != string(text[:len(text)-1])+want {
		t.Errorf("JSON %s, want %s", got, want)
	}
	for _, e := range []Encoding{MsgPack, JSON} {
		var got event.Prediction
		if err := DecodePrediction(e.AppendPrediction(nil, &p), &got); err != nil || !cmp.Equal(p.Reasons, got.Reasons) {
			t.Errorf("read as %+v (%v)", got.Reasons, err)
		}
		p := samplePrediction()
		p.Reasons = &event.Causes{Class: "fraud"} // nothing moved it
		if err := DecodePrediction(e.AppendPrediction(nil, &p), &got); err != nil || !cmp.Equal(p.Reasons, got.Reasons) {
			t.Errorf("read as %+v (%v)", got.Reasons, err)
		}
		p.Reasons.List = slices.Repeat(sampleReasons().List, maxCauses/4+1)
		if err := DecodePrediction(e.AppendPrediction(nil, &p), &got); err == nil {
			t.Errorf("%d reasons are read, %d are the most", len(p.Reasons.List), maxCauses)
		}
	}
	for _, text := range []string{
		`{"node":1,"reasons":{}}`, `{"node":1,"reasons":[1]}`, `{"node":1,"reasons":[{"by":"1"}]}`, `{"node":1,"reasons":[{"name":3}]}`,
		`{"node":1,"reasons":[{"labelled":1,"of_class":2}]}`, `{"node":1,"reasons":[{"of_class":-1}]}`,
		`{"node":1,"reasons":[{"labelled":4294967296}]}`, `{"node":1,"reasons":[{"by":1e99}]}`, `{"node":1,"reasons":[{"by":1,"by":2}]}`,
	} {
		var got event.Prediction
		if err := DecodePrediction([]byte(text), &got); err == nil {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}
