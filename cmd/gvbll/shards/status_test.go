package shards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
)

// TestShardsArePrinted: who owns what, who lags and who is waited for.
func TestShardsArePrinted(t *testing.T) {
	a, b := &look.Member{HTTP: "http://a:8473"}, &look.Member{Host: "b"}
	tasks := func(windows ...int64) (list []Task) {
		for i, n := range windows {
			list = append(list, Task{Task: i, Owner: a, Windows: n})
		}
		return list
	}
	s := Status{Cuts: 12, Tasks: tasks(0, 11, 10)}
	s.Tasks[2].Owner, s.Tasks[2].Standbys = b, []look.Member{*a}
	s.compare()
	var out strings.Builder
	s.Owners(&out)
	want := "lead\t  http://a:8473\nshard 1\t  http://a:8473  11 windows, lag 1\nshard 2\tb  10 windows, lag 2  standby http://a:8473  waited for\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}

	for name, c := range map[string]struct {
		change func(*Status)
		want   string
	}{
		"all is well":       {func(*Status) {}, ""},
		"a full window lag": {func(s *Status) { s.Tasks[1].Windows = 4 }, ""},
		"one lags":          {func(s *Status) { s.Tasks[1].Windows = 3 }, "GvbllLagGrowing: shard 1 is 9 windows behind the cuts"},
		"one has no owner":  {func(s *Status) { s.Tasks[1].Owner = nil }, "GvbllShardWithoutOwner: nobody owns shard 1, and every window waits for it: start a worker"},
		"none has an owner": {func(s *Status) { s.Tasks[0].Owner, s.Tasks[1].Owner, s.Tasks[2].Owner = nil, nil, nil }, "GvbllNoOwner: no worker runs: start 'gvbll work'"},
	} {
		s := Status{Cuts: 12, Tasks: tasks(0, 12, 12)}
		c.change(&s)
		s.compare()
		var got []string
		for _, f := range s.Findings() {
			got = append(got, fmt.Sprintf("%s: %s", f.Alert, f.What))
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestStatusBeside: in JSON the tasks are one field beside those of the graph's status.
func TestStatusBeside(t *testing.T) {
	graph := &look.Status{Prefix: "gvbll", Owner: &look.Member{Host: "a", Owner: true}, Tasks: &Status{Cuts: 3}}
	var out bytes.Buffer
	must(t, graph.PrintJSON(&out))
	var got struct {
		Prefix  string
		Windows *int64
		Shards  *Status
	}
	must(t, json.Unmarshal(out.Bytes(), &got))
	if got.Prefix != "gvbll" || got.Windows == nil || got.Shards == nil || got.Shards.Cuts != 3 {
		t.Errorf("the status is %s", out.String())
	}
	if bytes.Contains(out.Bytes(), []byte(`"Owner"`)) {
		t.Errorf("a field that is no part of the format: %s", out.String())
	}
}
