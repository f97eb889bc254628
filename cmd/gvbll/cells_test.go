package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/ledger"
)

// cellOf returns the graph of a cell.
func cellOf(t *testing.T, sh *shell, prefix string, dim, number int) *testGraph {
	t.Helper()
	g := sh.graph(prefix, dim)
	names, err := topics.Divided(t.Context(), g.client, g.names)
	must(t, err)
	g.client, g.names = g.client.Cell(int32(number)), names.Of(int32(number))
	return g
}

// TestCells: two workers serve a graph of three cells, and every command works on them: on all, or on the one that it is about.
func TestCells(t *testing.T) { onKFake(t, testCells) }

func testCells(t *testing.T, sh *shell) {
	file := threeClasses(t)
	m, err := model.Open(file)
	must(t, err)
	dim := m.Encoder.In()
	if out := sh.gvbll("topics", "--create", "--cells", "3", "--brokers", sh.addr); strings.Count(out, " 3 ") != 7 {
		t.Fatalf("gvbll topics prints\n%s, want seven topics of 3 partitions", out)
	}
	for want, args := range map[string][]string{
		"its graph has 3 cells, and a demo is of one: give another": smallDemo(t, "--brokers", sh.addr),
		"--cell-by tenant: the nodes have no such attribute":        {"send", "--cell-by", "tenant", "--brokers", sh.addr},
	} {
		if code, _, errs := sh.command(args...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, want %d: %s", args, code, exitUsage, errs)
		}
	}
	sh.gvbll("topics", "--create", "--prefix", "three", "--partitions", "3", "--brokers", sh.addr)
	code, out, errs := sh.command("topics", "--create", "--prefix", "three", "--partitions", "5", "--brokers", sh.addr)
	if want := "--partitions 5: topic three.nodes is there with 3, and stays so"; code != exitUsage || !strings.Contains(errs, want) {
		t.Errorf("topics of other partitions: exit code %d and\n%s%s", code, out, errs)
	}
	var cells []*testGraph
	for number := range 3 {
		cells = append(cells, cellOf(t, sh, "gvbll", dim, number))
	}
	stop := cells[0].work("--model", file, "--decide", "--state-dir", t.TempDir())
	cells[0].send(30)
	cells[2].send(40)
	cells[0].awaitLearned()
	cells[2].awaitLearned()
	second := cells[1].work("--model", file, "--decide", "--state-dir", t.TempDir())
	cells[1].send(20)
	cells[1].awaitLearned()
	kafkatest.Await(t, "the second worker stands by", func() bool {
		_, out, _ := sh.command("status", "--brokers", sh.addr)
		return !strings.Contains(out, "no worker")
	})

	// All cells.
	code, out, errs = sh.command("status", "--brokers", sh.addr)
	if found := regexp.MustCompile(`(?m)^ *all +\d+ +90 +90 +90 +0 `).FindString(out); code != exitOK || found == "" {
		t.Errorf("status: exit code %d\n%s%s, want a sum of 90 nodes, predictions and labels", code, out, errs)
	}
	var status struct {
		Cells []struct {
			Last struct{ Predictions int }
		}
	}
	must(t, json.Unmarshal([]byte(sh.gvbll("status", "--json", "--brokers", sh.addr)), &status))
	if len(status.Cells) != 3 || status.Cells[1].Last.Predictions != 20 {
		t.Errorf("status --json has %+v, want three cells, and 20 predictions of cell 1", status)
	}
	if out := sh.gvbll("tail", "--no-follow", "--json", "--brokers", sh.addr); strings.Count(out, "\n") != 90 || strings.Count(out, `"class"`) != 90 {
		t.Errorf("tail prints %d lines, want 90 with their classes:\n%.300s", strings.Count(out, "\n"), out)
	}
	audits := strings.Split(strings.TrimSpace(sh.gvbll("audit", "--model", file, "--json", "--brokers", sh.addr)), "\n")
	for number, line := range audits {
		var found struct {
			Cell int
			audit.Result
		}
		must(t, json.Unmarshal([]byte(line), &found))
		if want := cells[number].sent; len(audits) != 3 || found.Cell != number || found.Predictions != int64(want) {
			t.Errorf("audit of cell %d: %+v, want %d predictions", number, found, want)
		}
	}

	// One.
	for _, args := range []string{"ledger --json", "tail --no-follow --json"} {
		one := sh.gvbll(append(strings.Fields(args), "--cell", "1", "--brokers", sh.addr)...)
		if strings.Contains(one, `"partition":2`) || strings.HasPrefix(args, "tail") && strings.Count(one, "\n") != 20 ||
			strings.HasPrefix(args, "ledger") && !strings.Contains(one, `"cell":{"number":1,"of":3}`) {
			t.Errorf("gvbll %s --cell 1 prints\n%s", args, one)
		}
	}
	if out := sh.gvbll("status", "--cell", "2", "--brokers", sh.addr); !strings.Contains(out, "predictions") || !strings.Contains(out, "gvbll, cell 2\n") || !strings.Contains(out, "/cells/2/ ") || strings.Contains(out, ".nodes/1") {
		t.Errorf("status --cell 2 prints\n%s", out)
	}
	folder := filepath.Join(t.TempDir(), "export")
	if out := sh.gvbll("export", "--cell", "2", "--out", folder, "--brokers", sh.addr); !strings.Contains(out, ": 40 nodes, 40 of them labelled") {
		t.Errorf("export --cell 2 prints %s", out)
	}
	if out := sh.gvbll("forget", "--cell", "0", "node-3", "--brokers", sh.addr); !strings.Contains(out, "forgot in window") {
		t.Errorf("forget --cell 0 prints %s", out)
	}
	for _, c := range []struct{ args, want string }{
		{"ledger", "the graph has 3 cells: give --cell, 0 to 2"},
		{"forget node-1", "the graph has 3 cells: give --cell, 0 to 2"},
		{"send --events /dev/null", "the graph has 3 cells: say with --cell-by what decides that of a node"},
		{"send --events /dev/null --cell-by prefix=", "give the name of an attribute"},
		{"status --cell 3", "--cell 3: the graph has 3 cells: give 0 to 2"},
		{"topics --create --cells 2", "a graph keeps the cells that it has"},
		{"topics --cells 5", "no effect without --create"},
		{"topics --create --cells 5 --partitions 3", "no effect with --cells"},
	} {
		if code, _, errs := sh.command(append(strings.Fields(c.args), "--brokers", sh.addr)...); code == exitOK || !strings.Contains(errs, c.want) {
			t.Errorf("gvbll %s: exit code %d and %q, want %q", c.args, code, errs, c.want)
		}
	}

	// One model for all, which is tried in each.
	models := t.TempDir()
	out = sh.gvbll("retrain", "--brokers", sh.addr, "--models", models, "--serving", file, "--epochs", "3", "--embedding", "4", "--yes")
	trained, err := filepath.Glob(filepath.Join(models, "*.safetensors"))
	if err != nil || len(trained) != 1 || !strings.Contains(out, "sent the command to try it") {
		t.Fatalf("retrain leaves %v and prints\n%s", trained, out)
	}
	again, err := model.Open(trained[0])
	must(t, err)
	if !again.TrainedOn(event.ID{Str: "node-25"}) || again.TrainedOn(event.ID{Str: "0/node-25"}) {
		t.Error("the new model does not know the nodes that it was trained on by their own ids")
	}
	for _, cell := range cells {
		cell.await("the command is refused, as the workers have no folder of models", func(all []*ledger.Record) bool {
			return refusedFor(all, event.ImpossibleCommand) == 1
		})
	}

	// Pages and metrics.
	url := regexp.MustCompile(`http=(http://\S+)`).FindStringSubmatch(cells[0].errs.String())[1]
	var lines []struct {
		Cell  int
		Owner bool
		Nodes int
	}
	must(t, json.Unmarshal([]byte(sh.get(url+"/v1/cells")), &lines))
	if len(lines) != 3 || !lines[2].Owner || lines[2].Nodes != 40 {
		t.Errorf("/v1/cells has %+v, want three cells that the worker owns", lines)
	}
	if page := sh.get(url); !strings.Contains(page, `<a href="cells/2/">2</a>`) {
		t.Errorf("the page has no link to cell 2:\n%s", page)
	}
	if page := sh.get(url + "/cells/2/"); !strings.Contains(page, "gvbll, cell 2") || strings.Contains(page, `href="/page.css"`) {
		t.Errorf("the page of cell 2 is\n%.500s", page)
	}
	if body := sh.get(url + "/cells/2/v1/nodes/node-7"); !strings.Contains(body, `"node-7"`) {
		t.Errorf("node-7 of cell 2 is %s", body)
	}
	for _, path := range []string{"/v1/status", "/v1/decide", "/cells/7/v1/status", "/cells/x/"} {
		if body := sh.get(url + path); !strings.Contains(body, `"status":404`) || !strings.Contains(body, "the API of cell N are under /cells/N/") {
			t.Errorf("%s, which asks no cell: %s, want a problem that says where those of cells are", path, body)
		}
	}
	metrics := sh.get(url + "/metrics")
	for _, want := range []string{
		"\ngvbll_arrivals_total 90\n", `gvbll_cells{role="owner"} 3`, "\ngvbll_owner 1\n", `gvbll_level{of="nodes"} `,
		`gvbll_cell_owner{cell="2"} 1`, `gvbll_cell_nodes{cell="2"} 40`, `gvbll_cell_verdict_points{cell="2"} -1`,
		`gvbll_cell_lag_seconds{cell="2"} `, `gvbll_cell_last_label_timestamp_seconds{cell="2"} `,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %q", want)
		}
	}
	if n := strings.Count(metrics, "\ngvbll_"); n > 1500 {
		t.Errorf("/metrics has %d series", n)
	}

	// Cells are added while the workers run.
	sh.gvbll("topics", "--create", "--cells", "4", "--brokers", sh.addr)
	more := cellOf(t, sh, "gvbll", dim, 3)
	more.errs = cells[0].errs
	more.send(10)
	more.awaitLearned()

	// A call for a cell is answered with what is committed in its partition, and the same call with the same bytes. Another cell
	// knows nothing of its node.
	body := fmt.Sprintf(`{"id": "called", "features": [1%s], "neighbours": ["node-3"]}`, strings.Repeat(",0.5", dim-1))
	code, first := cells[2].decide(url+"/cells/2", "", body)
	_, same := cells[2].decide(url+"/cells/2", "", body)
	if code != http.StatusOK || first != same || !strings.Contains(first, `"partition":2,"offset":`) || !strings.Contains(first, `"node":"called"`) {
		t.Errorf("cell 2 decides %d %s, then %s, want what its partition has, twice", code, first, same)
	}
	if other := sh.get(url + "/cells/0/v1/nodes/called"); !strings.Contains(other, "unknown-node") {
		t.Errorf("cell 0 says of the node of cell 2: %s", other)
	}

	// A third worker has some of the cells. Of another it says who owns that, which is there to be asked again.
	third := cells[2].work("--model", file, "--decide", "--state-dir", t.TempDir())
	var its string
	kafkatest.Await(t, "the third worker stands by", func() bool {
		if m := regexp.MustCompile(`http=(http://\S+)`).FindStringSubmatch(cells[2].errs.String()); m != nil {
			its = m[1]
		}
		return its != "" && strings.Contains(sh.get(its+"/v1/cells"), `"cell":`)
	})
	elsewhere := 0
	for number := range 3 {
		code, said := cells[2].decide(fmt.Sprintf("%s/cells/%d", its, number), "", body)
		if strings.Contains(said, fmt.Sprintf("does not have cell %d, but http://127.0.0.1:", number)) {
			elsewhere++
		}
		if code != http.StatusOK && code != http.StatusServiceUnavailable {
			t.Errorf("a worker that may have cell %d or not says %d %s", number, code, said)
		}
	}
	if elsewhere == 0 {
		t.Error("the third of three workers names the owner of no cell")
	}
	third()
	second()
	stop()
	if out := sh.gvbll("audit", "--model", file, "--brokers", sh.addr); strings.Count(out, "agree with the model") != 4 {
		t.Errorf("audit prints\n%s", out)
	}
}
