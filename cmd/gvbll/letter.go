package main

import (
	"encoding/json"
	"io"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/wire"
)

// deadLetter is a line of 'dead-letters --json', made to be edited by hand. A value that
// is a JSON object is that object.
type deadLetter struct {
	*wire.Letter
	SentAgain *time.Time `json:"sent_again,omitempty"`
}

// printLetter prints a dead letter as a line. again is when its record was sent again,
// zero for never.
func printLetter(w io.Writer, r *event.Refusal, truncated bool, again time.Time) error {
	d := deadLetter{Letter: wire.LetterOf(r)}
	d.Detail, d.Truncated = wire.Detail(r), truncated
	if v := r.Origin.Value; len(v) > 0 && v[0] == '{' && json.Valid(v) {
		d.Value, d.ValueBase64 = v, nil
	}
	if !again.IsZero() {
		again = again.UTC().Truncate(time.Second)
		d.SentAgain = &again
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(d)
}
