package bench

import (
	"bufio"
	"fmt"
	"os"
)

// availableMemory returns how many bytes programs may take before the system has to
// take some from others, or 0 where the system does not say.
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
