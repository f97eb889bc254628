package structure

import (
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
)

// TestWatermarkDoesNotGoBack: producers that send what is old leave the time by which nodes leave where it was, by the
// median of events as by the rule of 1.0.0.
func TestWatermarkDoesNotGoBack(t *testing.T) {
	for _, median := range []bool{false, true} {
		k := newExpiry(Keep{Nodes: 1000, Median: median}, nil, nil, nil)
		tell := func(at int64) {
			events := make([]event.Node, leastEvents)
			for i := range events {
				events[i].Time = at
			}
			k.tell(events)
		}
		tell(5000)
		for range 2 * leastWindows {
			if tell(1000); k.watermark != 5000 {
				t.Fatalf("median %t: the watermark goes from 5000 to %d", median, k.watermark)
			}
		}
	}
}
