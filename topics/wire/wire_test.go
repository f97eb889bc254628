package wire

import "github.com/gvbll/gvbll/pipeline/event"

// asJSON are the headers of a record whose value is JSON.
var asJSON = []event.Header{{Key: ContentType, Value: []byte(JSON)}}
