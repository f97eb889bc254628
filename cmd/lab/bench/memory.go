package bench

import (
	"bufio"
	"fmt"
	"os"
)

// availableMemory returns how many bytes can be allocated without swapping, or 0 if the
// system does not report it.
func availableMemory() (bytes int64) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &bytes); err == nil {
			return bytes << 10
		}
	}
	return 0
}
