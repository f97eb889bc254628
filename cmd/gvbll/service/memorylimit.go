package service

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
)

// roomForEngine returns an error unless a second engine fits into the memory beside the
// first. It takes what is live in the heap now, nearly all of which is the first one; files
// of pending predictions count for neither.
func roomForEngine() error {
	used := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(used)
	live, mapped := int64(used[0].Value.Uint64()), int64(used[1].Value.Uint64()-used[2].Value.Uint64())
	limit, which := memoryLimit(os.DirFS("/"), debug.SetMemoryLimit(-1))
	if mapped+live > limit {
		return fmt.Errorf("it takes %d MiB, and %d of %d MiB are in use (%s)", live>>20, mapped>>20, limit>>20, which)
	}
	return nil
}

// memoryLimit returns the memory that the process may use, and what limits it: the least of
// GOMEMLIMIT, the limits of its control groups, and what the machine has. root is the root
// of the file system.
func memoryLimit(root fs.FS, gomemlimit int64) (bytes int64, which string) {
	bytes, which = math.MaxInt64, "no limit"
	least := func(limit int64, name string) {
		if limit < bytes {
			bytes, which = limit, name
		}
	}
	least(gomemlimit, "GOMEMLIMIT")
	least(cgroupLimit(root), "the limit of the control group")
	least(machineMemory(root), "the machine's memory")
	return bytes, which
}

// cgroupLimit returns the least memory limit of the control groups that the process is in,
// of version 2 or 1: a group is bound by the groups that it is in. Without one it is the
// largest integer.
func cgroupLimit(root fs.FS) int64 {
	least := int64(math.MaxInt64)
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return least // not Linux
	}
	for lines := bufio.NewScanner(bytes.NewReader(groups)); lines.Scan(); {
		fields := strings.SplitN(lines.Text(), ":", 3) // hierarchy:controllers:path
		if len(fields) < 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		if fields[1] != "" {
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		for group := path.Clean(fields[2]); ; group = path.Dir(group) {
			if limit, ok := number(root, path.Join(mount, group, file)); ok {
				least = min(least, limit)
			}
			if len(group) <= 1 {
				break
			}
		}
	}
	return least
}

// number returns the integer that a file consists of.
func number(root fs.FS, name string) (int64, bool) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil // it may be "max"
}

// machineMemory returns the memory of the machine, the largest integer if it is not known.
func machineMemory(root fs.FS) int64 {
	info, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return math.MaxInt64
	}
	var kilobytes int64
	for lines := bufio.NewScanner(bytes.NewReader(info)); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kilobytes); err == nil {
			return kilobytes << 10
		}
	}
	return math.MaxInt64
}
