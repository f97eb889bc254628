package drift

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// golden is what Python recorded: streams of numbers, and the output of detectors on each
// of them.
type golden struct {
	streams map[string][]float64
	fires   map[string]map[string]json.RawMessage
}

// goldens reads the recorded streams. It skips the test if the file is not there.
func goldens(t *testing.T) (g golden) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "shared", "goldens", "drift.json"))
		if err == nil {
			var file struct {
				Streams map[string][]float64
				Fires   map[string]map[string]json.RawMessage
			}
			if err := json.Unmarshal(b, &file); err != nil {
				t.Fatal(err)
			}
			return golden{file.Streams, file.Fires}
		}
		if dir == filepath.Dir(dir) {
			t.Skip("no shared/goldens/drift.json above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}

// each runs check on every stream with the recorded output of the named detector or
// measurement.
func each[V any](t *testing.T, name string, check func(t *testing.T, stream []float64, want []V)) {
	t.Helper()
	g := goldens(t)
	for stream, fires := range g.fires {
		t.Run(strings.Join([]string{stream, name}, "/"), func(t *testing.T) {
			var want []V
			if err := json.Unmarshal(fires[name], &want); err != nil {
				t.Fatal(err)
			}
			check(t, g.streams[stream], want)
		})
	}
}

// fires returns the indices of the values at which d reports a drift, and calls at after
// each.
func fires(d *ADWIN, stream []float64, at func()) (index []int) {
	for i, x := range stream {
		if d.Add(x) {
			index = append(index, i)
			at()
		}
	}
	return index
}

// TestADWINLikeRiver: ADWIN fires at the same values as that of Python's river, and has the
// same window then.
func TestADWINLikeRiver(t *testing.T) {
	for name, change := range map[string]func(*adwinConfig){
		"adwin":            func(*adwinConfig) {},
		"adwin_delta_0.05": func(c *adwinConfig) { c.Delta = 0.05 },
		"adwin_clock_1":    func(c *adwinConfig) { c.Clock = 1 },
	} {
		cfg := DefaultADWIN()
		change(&cfg)
		each(t, name, func(t *testing.T, stream []float64, want []int) {
			if got := fires(NewADWIN(cfg), stream, func() {}); !slices.Equal(got, want) {
				t.Errorf("fires at %v, want %v", got, want)
			}
		})
		each(t, name+"_width_and_mean", func(t *testing.T, stream []float64, want [][2]float64) {
			a, i := NewADWIN(cfg), 0
			fires(a, stream, func() {
				if float64(a.Width()) != want[i][0] || math.Abs(a.Mean()-want[i][1]) > 1e-12 {
					t.Errorf("drift %d: width %d and mean %v, want width and mean %v", i, a.Width(), a.Mean(), want[i])
				}
				i++
			})
		})
	}
}
