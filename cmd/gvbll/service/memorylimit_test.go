package service

import (
	"math"
	"testing"
	"testing/fstest"
)

// TestMemoryLimit: the least of all limits counts, in containers with control groups of
// either version, in groups within groups, and without any.
func TestMemoryLimit(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	machine := file("MemTotal:        1000 kB\nMemFree:  10 kB\n")
	for _, c := range []struct {
		name       string
		root       fstest.MapFS
		gomemlimit int64
		want       int64
		which      string
	}{
		{"nothing is known", fstest.MapFS{}, math.MaxInt64, math.MaxInt64, "no limit"},
		{"the machine", fstest.MapFS{"proc/meminfo": machine}, math.MaxInt64, 1000 << 10, "the machine's memory"},
		{"GOMEMLIMIT", fstest.MapFS{"proc/meminfo": machine}, 5, 5, "GOMEMLIMIT"},
		{"container, version 2", fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("4096\n"),
		}, 5000, 4096, "the limit of the control group"},
		{"groups within groups", fstest.MapFS{
			"proc/self/cgroup":             file("0::/a/b/c\n"),
			"sys/fs/cgroup/a/memory.max":   file("300\n"),
			"sys/fs/cgroup/a/b/memory.max": file("max\n"),
		}, math.MaxInt64, 300, "the limit of the control group"},
		{"version 1", fstest.MapFS{
			"proc/self/cgroup":                                    file("12:cpu:/\n4:memory:/docker/x\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          file("9223372036854771712\n"),
			"sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": file("777\n"),
		}, math.MaxInt64, 777, "the limit of the control group"},
	} {
		if got, which := memoryLimit(c.root, c.gomemlimit); got != c.want || which != c.which {
			t.Errorf("%s: %d by %s, want %d by %s", c.name, got, which, c.want, c.which)
		}
	}
}

// TestRoomForEngine: this process fits twice into the machine, and not into what it uses.
func TestRoomForEngine(t *testing.T) {
	if err := roomForEngine(); err != nil {
		t.Error(err)
	}
}
