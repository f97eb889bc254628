package main

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestSeries: what a worker exports is bounded: with ten classes and the default pool, an owner that has scored labels has 900 series at
// most, and a standby, which counts nothing, 150. With a class that is acted on, there are no more.
func TestSeries(t *testing.T) {
	for name, args := range map[string][]string{"default": nil, "acting": {"--act", "class=class-3,cost=5:1", "--coverage", "0.9"}} {
		t.Run(name, func(t *testing.T) {
			file := tenClasses(t)
			onKFake(t, func(t *testing.T, sh *shell) {
				g := sh.graph("gvbll", 128)
				worker := append([]string{"--model", file}, args...)
				sh.gvbll("topics", "--create", "--brokers", sh.addr)
				defer g.work(worker...)()
				g.awaitOwner()
				defer g.work(worker...)()
				g.send(100)
				g.awaitLearned()
				var st look.Status
				kafkatest.Await(t, "an owner and a standby", func() bool {
					st = g.status()
					return st.Owner != nil && len(st.Standbys) == 1
				})
				for url, most := range map[string]int{st.Owner.HTTP: 900, st.Standbys[0].HTTP: 150} {
					series := make(map[string]int)
					all := 0
					for line := range strings.Lines(sh.get(url + "/metrics")) {
						if m := regexp.MustCompile(`^(\w+)[{ ]`).FindStringSubmatch(line); m != nil && strings.HasPrefix(m[1], "gvbll_") {
							series[m[1]]++
							all++
						}
					}
					t.Logf("%d series, at most %d", all, most)
					if all > most {
						names := slices.SortedFunc(maps.Keys(series), func(a, b string) int { return series[b] - series[a] })
						t.Errorf("%d series, want %d at most:", all, most)
						for _, n := range names[:40] {
							t.Logf("%5d %s", series[n], n)
						}
					}
				}
			})
		})
	}
}

// status returns what gvbll status says.
func (g *testGraph) status() (s look.Status) {
	g.t.Helper()
	_, out, _ := g.command("status", "--json")
	must(g.t, json.Unmarshal([]byte(out), &s))
	return s
}
