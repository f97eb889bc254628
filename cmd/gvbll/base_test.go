package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/ledger"
)

// TestBase: workers serve one after the other, each with an empty state folder, and an operator deletes what status says is
// not needed. Status, audit and the lines of what is refused say what there is.
func TestBase(t *testing.T) { onKafka(t, testBase) }

func testBase(t *testing.T, sh *shell) {
	dir := t.TempDir()
	file, bases := threeClasses(t), filepath.Join(dir, "bases")
	m, err := model.Open(file)
	must(t, err)
	g := sh.graph("gvbll", m.Encoder.In())
	sh.gvbll("topics", "--create", "--partitions", "1", "--brokers", sh.addr)
	newest := func() *ledger.Record {
		r, err := ledger.Newest(t.Context(), g.client, g.names.LedgerAt())
		must(t, err)
		return r
	}
	looks := func(args ...string) string { // no worker runs, which status finds wrong
		_, out, _ := g.command(append([]string{"status"}, args...)...)
		return out
	}
	var status struct {
		Bases []struct {
			Name string
		}
		Needed []struct {
			Topic  string
			Offset int64
			Since  *time.Time
		}
	}
	for round := range 3 {
		stop := g.work("--model", file, "--state-dir", filepath.Join(t.TempDir(), "empty"), "--base", bases, "--base-every", "1ms,keep=2", "--purge")
		first := ""
		if r := newest(); r != nil && r.Bases != nil {
			first = r.Bases[0].Name.String()
		}
		named := func(r *ledger.Record) bool {
			return r != nil && r.Bases != nil && r.Bases[0].Name.String() != first && r.Bases[len(r.Bases)-1].Name.Window >= 3
		}
		for try, more := 0, true; more; try++ {
			if g.predictions() == g.sent {
				if more = !named(newest()) || g.sent < 15*(round+1); more {
					g.send(5)
				}
			}
			if try == 3000 {
				t.Fatalf("no new base is named: %s", g.log())
			}
			time.Sleep(pause)
		}
		stop()
		must(t, json.Unmarshal([]byte(looks("--json")), &status))
		if len(status.Bases) == 0 || len(status.Needed) != 4 {
			t.Fatalf("status has %+v, want bases, and what is needed of ledger and inputs", status)
		}
		for _, n := range status.Needed {
			if n.Topic != g.names.Commands && n.Offset == 0 {
				t.Errorf("round %d: all of %s is needed", round, n.Topic)
			}
			g.deleteRecords(n.Topic, n.Offset)
		}
	}
	if got := g.predictions(); got != g.sent {
		t.Errorf("%d predictions of %d nodes", got, g.sent)
	}
	text := looks()
	if said := unfolded(text); !strings.Contains(said, "base base-") || !strings.Contains(said, g.names.Nodes+"/0 from offset ") {
		t.Errorf("status does not say what is needed:\n%s", text)
	} else if !strings.Contains(said, "older ones were purged or deleted") || strings.Contains(said, "last 1h") {
		t.Errorf("status does not say that the ledger's beginning is gone:\n%s", text)
	}

	var found audit.Result
	must(t, json.Unmarshal([]byte(sh.gvbll("audit", "--json", "--brokers", sh.addr, "--model", file, "--from", "latest", "--base", bases)), &found))
	if found.Base != status.Bases[0].Name || found.First == 0 {
		t.Errorf("audit --from latest gives %+v, want base %s", found, status.Bases[0].Name)
	}
	oldest := status.Bases[len(status.Bases)-1].Name
	if out := sh.gvbll("audit", "--brokers", sh.addr, "--model", file, "--from", oldest, "--base", bases); !strings.Contains(out, "taken on trust") || !strings.Contains(out, oldest) {
		t.Errorf("audit --from %s does not say what it takes on trust: %s", oldest, out)
	}
	for _, test := range []struct{ flags, want string }{
		{"audit --from 1 --base " + bases, "names no base \"1\" any more: give latest, or one of base-"},
		{"audit --from latest", "--from and --base: give both"},
		{"audit", "records"},
		{"work --http 127.0.0.1:0 --coverage 0.9 --rebase --state-dir " + t.TempDir() + " --base " + bases, "no other terms can take its state over"},
		{"work --http 127.0.0.1:0 --state-dir " + t.TempDir() + " --base gopher://a", `"gopher" is not a kind of store`},
		{"work --http 127.0.0.1:0 --base " + bases, "no effect without --state-dir"},
		{"work --http 127.0.0.1:0 --purge", "no effect without --base"},
		{"work --http 127.0.0.1:0", "give --base"},
	} {
		if code, _, errs := g.command(append(strings.Fields(test.flags), "--model", file)...); code == exitOK || !strings.Contains(errs, test.want) {
			t.Errorf("gvbll %s: exit code %d, want an error with %q: %s", test.flags, code, test.want, errs)
		}
	}
	stop := g.work("--model", file, "--state-dir", t.TempDir(), "--base", bases)
	if code, out, errs := g.command("forget", "node-1"); code == exitOK || !strings.Contains(out+errs, "a departure (a node with a null value) removes the node") {
		t.Errorf("forget: exit code %d, want a line that says what a departure does: %s%s", code, out, errs)
	}
	stop()

	// Status finds a base that is lost, and a copy of the ledger takes the folder over.
	if out := looks("--base", bases); strings.Contains(out, "missing or damaged") {
		t.Errorf("status finds a base missing:\n%s", out)
	}
	folder := filepath.Join(bases, g.names.Ledger)
	must(t, os.Remove(filepath.Join(folder, newest().Bases[0].Name.String())))
	if out := unfolded(looks("--base", bases)); !strings.Contains(out, "bases that the ledger names are missing or damaged") {
		t.Errorf("status finds no base missing:\n%s", out)
	}
	must(t, os.WriteFile(filepath.Join(folder, "owner"), []byte(`{"cluster":"x","topic":"y","ledger":"gvbll.ledger"}`), 0o600))
	restored := []string{"--brokers", sh.addr, "--model", file, "--state-dir", t.TempDir(), "--base", bases, "--restored"}
	for _, want := range []string{"is of this ledger now, and was of ledger \"gvbll.ledger\" of cluster \"x\"", "is of this ledger already"} {
		if out := sh.gvbll(append([]string{"rebase"}, restored...)...); !strings.Contains(out, want) {
			t.Errorf("rebase --restored says %s, want %s", out, want)
		}
	}
}
