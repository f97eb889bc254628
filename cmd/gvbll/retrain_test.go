package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	diff "github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/cmd/gvbll/service"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/retrain"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestRetrain renews the model of a graph while it is served. A class is born, whose labels
// are refused; a model that has it is trained on the ledger, loaded into the shadow by owner
// and standby without a restart, and promoted by its rule. It has learned the labels that the
// first one refused. Nodes are forgotten while it is in the shadow and after it was promoted. The owner ends, the standby goes on with the new model, and a start finds
// it in the folder. Audits agree, with both models and with either.
func TestRetrain(t *testing.T) { onKafka(t, testRetrain) }

// TestRetrainChecksTheFolder: a folder that cannot be written is found before the brokers are
// asked for anything.
func TestRetrainChecksTheFolder(t *testing.T) {
	const readOnly = "/proc" // to everybody, root included
	code, _, errs := command(t, "retrain", "--brokers", "127.0.0.1:1", "--models", readOnly)
	if code != exitFailed || !strings.Contains(errs, "--models: open /proc/") || !strings.Contains(errs, "give a folder that can be written") {
		t.Errorf("exit code %d and %q, want %d and the folder", code, errs, exitFailed)
	}
}

// TestRetrainAsks: a model that is worse than the one that serves is tried if somebody at a
// terminal says yes, or with --yes; where nobody can be asked it is not. A better one is tried.
func TestRetrainAsks(t *testing.T) {
	t.Parallel()
	of := func(nll float64) *retrain.Result {
		v := &model.Validation{Labels: 40, Scores: map[string]calibration.Means{"pool": {NLL: nll}}, Served: map[string]calibration.Means{"pool": {NLL: 0.5}}}
		m := &model.Model{}
		m.Training.Validation = v
		return &retrain.Result{Model: m, Candidate: []pipeline.Summary{{Head: "pool"}}}
	}
	const worse = "next.safetensors is written and not tried: it is worse than the model that serves: on the same 40 labels its NLL is 0.1000 higher: train on more labels, or add --yes to try it all the same"
	for _, test := range []struct {
		name, answer string // "" where nobody can be asked
		nll          float64
		yes          bool
		want         string
	}{
		{"piped", "", 0.6, false, worse},
		{"piped, with --yes", "", 0.6, true, ""},
		{"piped, better", "", 0.4, false, ""},
		{"yes", "y\n", 0.6, false, ""},
		{"Enter", "\n", 0.6, false, worse},
	} {
		p := flags.Process{In: strings.NewReader("y\n"), Err: io.Discard}
		if test.answer != "" {
			person, terminal, err := pty.Open()
			must(t, err)
			t.Cleanup(func() { must(t, errors.Join(person.Close(), terminal.Close())) })
			p.In = terminal
			_, err = person.WriteString(test.answer)
			must(t, err)
		}
		err := retrainCmd{Yes: test.yes}.agree(t.Context(), p, of(test.nll), "next.safetensors")
		if got := fmt.Sprint(err); got != cmp.Or(test.want, "<nil>") {
			t.Errorf("%s: %s, want %q", test.name, got, test.want)
		}
	}
}

func testRetrain(t *testing.T, sh *shell) {
	dir := t.TempDir()
	first := filepath.Join(dir, "first.safetensors")
	file, err := os.ReadFile(tenClasses(t))
	must(t, err)
	must(t, os.WriteFile(first, file, 0o600))
	a, err := model.Open(first)
	must(t, err)
	prefix := fmt.Sprintf("retrain-%d", time.Now().UnixNano())
	sh.setenv("GVBLL_PREFIX", prefix)
	g := sh.graph(prefix, a.Encoder.In())
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	gcn := otherEncoder(t)
	file, err = os.ReadFile(gcn)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "gcn.safetensors"), file, 0o600))
	work := func() (stop func()) { return g.work("--model", first, "--models", dir) }

	owner := work()
	g.send(60)
	g.awaitLearned()
	// Labels of a class that nobody knows; their nodes stay without a label.
	born := g.sendBorn(8)
	g.await("the labels of an unknown class are refused", func(all []*ledger.Record) bool { return refusedFor(all, event.UnknownClass) == len(born) })
	standby := work()
	// A model that no folder has: the command is refused, in every replay alike.
	_, err = sendCommand(t.Context(), look.Graph{Client: g.client, Names: g.names}, &event.Command{Name: event.Shadow, Model: "0123456789abcdef"})
	must(t, err)
	g.await("the command is refused", func(all []*ledger.Record) bool { return refusedFor(all, event.ImpossibleCommand) == 1 })

	out := sh.gvbll("retrain", "--brokers", sh.addr, "--models", dir, "--epochs", "3", "--embedding", "8", "--promote", "after=40,if=nll", "--yes")
	found := regexp.MustCompile(`model ([0-9a-f]{16}), `).FindStringSubmatch(out)
	if found == nil || !strings.Contains(out, `new classes: ["born"]`) {
		t.Fatalf("gvbll retrain prints %q, want the model and its new class", out)
	}
	id, second := found[1], service.NewModelFolder(dir).File(found[1])
	b, err := model.Open(second)
	must(t, err)
	if !b.TrainedOn(born[0]) || !slices.Equal(b.Classes, append(slices.Clone(a.Classes), "born")) {
		t.Errorf("model %s has classes %q and was trained on node %v: %t", id, b.Classes, born[0], b.TrainedOn(born[0]))
	}
	g.awaitShadow(id)
	g.checkTrial(id)
	g.forget("node-3") // cited by many, and its label is among those that the two are compared by
	g.checkTrial(id)
	g.send(60)
	var decided *ledger.Record
	g.await("the trial is decided", func(all []*ledger.Record) bool {
		i := slices.IndexFunc(all, func(r *ledger.Record) bool { return r.Trial != nil && r.Trial.Decided != "" })
		if i >= 0 {
			decided = all[i]
		}
		return i >= 0
	})
	if decided.Trial.Decided == ledger.Kept { // by its rule, as these labels are; then by hand
		sh.gvbll("promote", "--brokers", sh.addr)
		g.awaitPromotion(id)
	} else if decided.Promoted != id || !slices.Equal(decided.Classes, b.Classes) {
		t.Errorf("window %d promotes %q and has the classes %q", decided.Window, decided.Promoted, decided.Classes)
	}
	if decided.Trial.Labels < 40 || (decided.Trial.Lead > 0) != (decided.Trial.Decided == ledger.Promoted) {
		t.Errorf("the rule decided %+v", *decided.Trial)
	}
	g.forget("node-70")
	owner()
	g.forget("node-4")
	g.sendBorn(1) // the new model knows the class
	g.await("the new model serves, and has learned a label of its class", func(all []*ledger.Record) bool {
		last := all[max(len(all)-1, 0):]
		return len(last) > 0 && last[0].Model == id && last[0].Labels == 1
	})
	standby()
	restarted := work()
	g.send(5)
	g.await("all nodes are predicted", func(all []*ledger.Record) bool { return len(all) > 0 && predictions(all) == g.sent })
	// A third model is loaded while a node is forgotten, in place of the one in the shadow.
	third := idOf(t, gcn)
	for _, c := range []*event.Command{{Name: event.Shadow, Model: third}, {Name: event.Forget, Nodes: []event.ID{{Str: "node-5"}}}} {
		_, err = sendCommand(t.Context(), look.Graph{Client: g.client, Names: g.names}, c)
		must(t, err)
	}
	g.awaitShadow(third)
	g.forget("node-6")
	restarted()
	for _, models := range [][]string{{"--model", first, "--shadow", second}, {"--model", second, "--shadow", first}} {
		if found := g.audit(models...); found.Predictions != int64(g.sent) || found.Elsewhere != 0 || found.DeadLetters < int64(len(born)) {
			t.Errorf("audit %v: %+v, want %d predictions", models, found, g.sent)
		}
	}
	for _, file := range []string{first, second} {
		if found := g.audit("--model", file); found.Elsewhere == 0 {
			t.Errorf("audit of %s alone: %+v, want windows of the other model", file, found)
		}
	}
}

// awaitShadow sends nodes until a model is in the shadow.
func (g *testGraph) awaitShadow(model string) {
	g.t.Helper()
	g.await("model "+model+" is in the shadow", func(all []*ledger.Record) bool {
		last := all[max(len(all)-1, 0):]
		if len(last) > 0 && (last[0].Shadow == nil || last[0].Shadow.Model != model) {
			g.send(1) // a window, in whose record the shadow is
			return false
		}
		return len(last) > 0
	})
}

// forget forgets a node.
func (g *testGraph) forget(node string) {
	g.t.Helper()
	if out := g.sh.gvbll("forget", "--brokers", g.sh.addr, node); !strings.HasPrefix(out, "forgot in window ") {
		g.t.Errorf("gvbll forget %s prints %q", node, out)
	}
}

// checkTrial waits until the ledger, 'gvbll status', the owner's page and its metrics say the same
// of the trial of a model that is in the shadow.
func (g *testGraph) checkTrial(model string) {
	g.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		var st look.Status
		var served struct{ Trial *page.Trial }
		scraped := ""
		_, out, _ := g.command("status", "--json")
		must(g.t, json.Unmarshal([]byte(out), &st))
		if st.Owner != nil {
			must(g.t, json.Unmarshal([]byte(g.sh.get(st.Owner.HTTP+"/v1/status")), &served))
			scraped = g.sh.get(st.Owner.HTTP + "/metrics")
		}
		last, err := ledger.Newest(g.t.Context(), g.client, g.names.LedgerAt())
		must(g.t, err)
		want := look.TrialOf(last.Trial, last.Shadow.Model)
		if want.Model != model || !want.Loaded || want.After != 40 {
			g.t.Fatalf("the ledger has the trial %+v, want that of %s in the shadow, after 40 labels", want, model)
		}
		exported := fmt.Sprintf("gvbll_trial_labels{model=%q,of=\"compared\"} %d\ngvbll_trial_labels{model=%q,of=\"needed\"} 40\n", model, want.Labels, model)
		if diff.Diff(want, st.Trial) == "" && diff.Diff(want, served.Trial) == "" && strings.Contains(scraped, exported) {
			_, out, _ := g.command("status")
			if !regexp.MustCompile(`trial +` + model + ` is in the shadow, compared by `).MatchString(out) {
				g.t.Errorf("gvbll status prints no trial of %s:\n%s", model, out)
			}
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("the trial is %+v in the ledger, %+v for gvbll status and %+v on the page", want, st.Trial, served.Trial)
		}
		time.Sleep(pause)
	}
}

// sendBorn sends nodes with labels of a class that the first model lacks.
func (g *testGraph) sendBorn(n int) (ids []event.ID) {
	g.t.Helper()
	p, err := g.client.NewProducer(g.t.Context(), kafka.ProducerConfig{})
	must(g.t, err)
	var records []kafka.Record
	for range n {
		node := event.Node{ID: event.ID{Num: int64(g.sent)}, Dense: make([]float32, g.dim)}
		key := wire.AppendKey(nil, node.ID)
		records = append(records,
			kafka.Record{Topic: g.names.Nodes, Key: key, Value: wire.AppendNode(nil, &node)},
			kafka.Record{Topic: g.names.Labels, Key: key, Value: wire.AppendLabel(nil, &event.Label{Node: node.ID, Class: "born"})})
		ids = append(ids, node.ID)
		g.sent++
	}
	must(g.t, p.Send(g.t.Context(), records))
	return ids
}

// refusedFor returns the number of refusals for a reason in the records.
func refusedFor(all []*ledger.Record, reason event.Reason) (n int) {
	for _, r := range all {
		n += r.Reasons[reason]
	}
	return n
}

// predictions returns the number of predictions in the records.
func predictions(all []*ledger.Record) (n int) {
	for _, r := range all {
		n += r.Predictions
	}
	return n
}
