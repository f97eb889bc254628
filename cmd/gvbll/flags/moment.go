package flags

import (
	"fmt"
	"time"
)

// Moment is a time, or a duration before one that is known later.
type Moment struct {
	text string
	at   time.Time // zero for a duration
	ago  time.Duration
}

func (m Moment) String() string { return m.text }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Moment) UnmarshalText(text []byte) error {
	m.text = string(text)
	var err error
	if m.ago, err = time.ParseDuration(m.text); err == nil && m.ago >= 0 {
		return nil
	}
	if m.at, err = ParseTime(m.text); err == nil {
		return nil
	}
	return fmt.Errorf("%.40q: give a duration such as 24h, or a time such as 2026-11-22T10:00:00Z", m.text)
}

// ParseTime reads a time, or a date: its beginning in UTC.
func ParseTime(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	return time.Parse(time.DateOnly, text)
}

// Before returns the moment as a time.
func (m Moment) Before(end time.Time) time.Time {
	if m.at.IsZero() {
		return end.Add(-m.ago)
	}
	return m.at
}
