package spelling

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

// TestMistake: what is wrong in JSON is said with line and field, in words of who wrote it. Where two lines have the field, none is named.
func TestMistake(t *testing.T) {
	type size struct {
		Width  *int           `json:"width"`
		Colour string         `json:"colour"`
		Names  map[string]int `json:"names"`
		Sizes  []size         `json:"sizes"`
	}
	for text, want := range map[string]string{
		"{\n\"with\": 1}": `line 2, there is no field "with": did you mean "width"?`,
		`{"depth": 1}`:    `line 1, there is no field "depth": give colour, names, sizes, width`,
		"{\"colour\": \"red\",\n\"width\": \"3\"}": `line 2, "width": a text where a whole number is needed`,
		`{"width": 0.5}`:                         `line 1, "width": a number where a whole number is needed`,
		`{"colour": true}`:                       `line 1, "colour": true or false where a text is needed`,
		`{"names": ["a"]}`:                       `line 1, "names": a list where names with their values are needed`,
		`{"sizes": {}}`:                          `line 1, "sizes": fields where a list is needed`,
		`{"width": 1, "sizes": [{"width": []}]}`: `"width": a list where a whole number is needed`,
		`[]`:                                     `a list where fields are needed: width, colour, names, sizes`,
		"{\n\"width\": 1,}":                      `line 2: this is no JSON: invalid character '}' looking for beginning of object key string`,
		`{"width": 1`:                            `line 1: this is no JSON: it ends before its last } or ]`,
	} {
		var into size
		r := json.NewDecoder(bytes.NewReader([]byte(text)))
		r.DisallowUnknownFields()
		err := json.Unmarshal([]byte(text), &into)
		if err == nil {
			err = r.Decode(&into)
		}
		if got := Mistake([]byte(text), err, into).Error(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if got := Mistake(nil, errors.New("yaml: line 3: did not find expected key"), size{}).Error(); got != "line 3: did not find expected key" {
		t.Errorf("of YAML: %s", got)
	}
}
