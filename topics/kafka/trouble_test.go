package kafka

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestGivenUpIsNotAnswered: an operation that is given up, at its end or its caller's, has
// not been answered. That everything is answered again is said at the next answer.
func TestGivenUpIsNotAnswered(t *testing.T) {
	const tried, answered = "still trying", "everything is answered again"
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		c := &Client{cfg: Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Timeout: time.Second}}
		silent := func(context.Context) error { return io.ErrUnexpectedEOF }
		if err := c.retry(t.Context(), 5*time.Second, silent); err == nil || c.Trouble() != "" {
			t.Errorf("given up with error %v and trouble %q, want an error and no trouble", err, c.Trouble())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := c.retry(ctx, forever, silent); err == nil {
			t.Error("no error after the context has ended")
		}
		if got := log.String(); !strings.Contains(got, tried) || strings.Contains(got, answered) {
			t.Errorf("the log is %q, want %q and not %q", got, tried, answered)
		}
		if err := c.retry(t.Context(), 5*time.Second, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), answered); got != 1 {
			t.Errorf("the log says %d times %q, want once", got, answered)
		}
	})
}
