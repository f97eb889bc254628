package page

import (
	"fmt"
	"net/url"

	"github.com/gvbll/gvbll/pipeline/event"
)

// maxID is the largest size of an id in bytes, as on the wire.
const maxID = 1024

// idsOf returns the ids that a text may stand for, in the order in which to look them
// up. A text that looks like an integer stands for the integer or, if there is no such
// node, for the string. The parameter type, integer or string, chooses one.
func idsOf(text string, query url.Values) ([]event.ID, *problem) {
	if text == "" || len(text) > maxID {
		return nil, badParameter.because(fmt.Sprintf("id: give 1 to %d bytes", maxID))
	}
	kind, given, p := parameter(query, "type")
	if p != nil {
		return nil, p
	}
	ids := event.IDsOf(text) // the string last
	switch {
	case !given:
		return ids, nil
	case kind == "integer" && len(ids) > 1:
		return ids[:1], nil
	case kind == "integer":
		return nil, badParameter.because(fmt.Sprintf("id: %.40q is not a 64-bit integer", text))
	case kind == "string":
		return ids[len(ids)-1:], nil
	}
	return nil, badParameter.because(fmt.Sprintf("type: %.40q is neither integer nor string", kind))
}

// parameter returns a query parameter that may be given once at most.
func parameter(query url.Values, name string) (value string, given bool, p *problem) {
	switch values := query[name]; len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	default:
		return "", false, badParameter.because(fmt.Sprintf("%s: given %d times, but only one is allowed", name, len(values)))
	}
}
