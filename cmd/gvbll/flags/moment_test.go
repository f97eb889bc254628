package flags

import (
	"testing"
	"time"
)

// TestMoments: a moment is a time or a duration before another.
func TestMoments(t *testing.T) {
	end := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"24h": "2026-11-21T12:00:00Z", "2026-11-20": "2026-11-20T00:00:00Z", "2026-11-20T10:00:00+01:00": "2026-11-20T09:00:00Z", "-1h": "", "yesterday": "",
	} {
		var m Moment
		err := m.UnmarshalText([]byte(text))
		if got := m.Before(end).UTC().Format(time.RFC3339); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%s is %s, error %v, want %s", text, got, err, want)
		}
	}
}
