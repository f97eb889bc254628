package flags

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestWithDisk: a full disk is named with its folder, and another error stays as it is.
func TestWithDisk(t *testing.T) {
	dir, other := t.TempDir(), errors.New("the broker is away")
	full := WithDisk(dir, fmt.Errorf("write: %w", syscall.ENOSPC))
	if !errors.Is(full, syscall.ENOSPC) || !strings.HasPrefix(full.Error(), "the disk of "+dir+" is full, ") {
		t.Errorf("a full disk is said as %v", full)
	}
	for _, dir := range []string{dir, "", filepath.Join(dir, "none")} {
		if got := WithDisk(dir, other); got != other {
			t.Errorf("in %q the error is %v, want %v", dir, got, other)
		}
	}
	if got := WithDisk(dir, nil); got != nil {
		t.Errorf("no error is %v", got)
	}
}
