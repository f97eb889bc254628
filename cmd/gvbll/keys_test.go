package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/holdout"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/structure"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/sender"
	"github.com/gvbll/gvbll/topics/wire"
)

// keyedTable writes n payments of accounts and shops, with their raw keys and labels that come up to ten days late.
func keyedTable(t *testing.T, n int, declared string) (dir string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(49, 1))
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	nodes := "id,label,time,label_time,amount,account,shop\n"
	for i := range n {
		now = now.Add(time.Duration(rng.IntN(3600)) * time.Second)
		account, shop, amount := fmt.Sprint("a", rng.IntN(30)), fmt.Sprint(rng.IntN(8)), fmt.Sprintf("%.2f", math.Exp(3+rng.NormFloat64()))
		label, comes := []string{"ok", "ok", "fraud"}[rng.IntN(3)], now.Add(time.Duration(rng.IntN(240))*time.Hour).Format(time.RFC3339)
		switch rng.IntN(15) {
		case 0:
			account = ""
		case 1:
			amount = ""
		case 2:
			label, comes = "", ""
		}
		nodes += fmt.Sprintf("p%d,%s,%s,%s,%s,%s,%s\n", i, label, now.Format(time.RFC3339), comes, amount, account, shop)
	}
	return writeTables(t, map[string]string{"nodes.csv": nodes, "dataset.json": `{"keys": ` + declared + `}`})
}

const payKeys = `{
	"account": {"link": {"last": 2, "within": "20d", "kind": "account"}, "velocity": ["all", "1h", "7d"], "amounts": ["amount"],
		"distinct": ["shop"], "labels": "fraud"},
	"shop": {"link": {"last": 2}, "velocity": ["1d"], "labels": "fraud", "max": 100}
}`

// TestKeysBits: what keys make of raw payments in a stream has the bits of what they made of the table to train on: an engine
// that is sent the features and edges of the table predicts the same. So it is over a snapshot after any window, with which a base
// begins, and while nodes leave by age. The labels come at their times.
func TestKeysBits(t *testing.T) {
	checkKeysBits(t, keyedTable(t, 500, payKeys), pipeline.Config{Samples: 2})
	// A label whose node has left counts in no share: the engine does not know the node any more.
	unlabelled := strings.ReplaceAll(payKeys, `, "labels": "fraud"`, "")
	checkKeysBits(t, keyedTable(t, 500, unlabelled), pipeline.Config{Samples: 2, Keep: structure.Keep{Nodes: 4 * 86_400_000}})
}

func checkKeysBits(t *testing.T, dir string, cfg pipeline.Config) {
	t.Helper()
	set, err := flags.Data{Data: dir, TrainShare: 0.3, Steps: 40}.Open()
	must(t, err)
	m, err := holdout.Train(t.Context(), set.Training(), model.Config{Hidden: []int{8}, Epochs: 2, Pool: true, Seed: 1}, nil, nil)
	must(t, err)
	table, err := pipeline.New(m, cfg)
	must(t, err)
	pair, err := pipeline.NewPair(cfg, m)
	must(t, err)
	history, err := pipeline.NewHistory(pipeline.HistoryConfig{Features: set.Dim, Schema: set.Schema, Classes: set.Classes, Settings: cfg})
	must(t, err)
	raw := set.Stream()
	features := make([]event.Node, len(set.Labels))
	for v, x := range set.Features {
		features[v].Dense = x.Dense
	}
	for i, e := range set.Edges {
		n := &features[e[0]]
		n.Neighbours = append(n.Neighbours, set.ID(e[1]))
		n.Marks = append(n.Marks, event.Mark{Kind: set.Kinds[set.Marks[i].Kind].Name})
	}
	type late struct {
		at    float64
		label event.Label
	}
	var waiting []late
	of := make(map[event.ID]int32)
	for v := range set.Labels {
		of[set.ID(int32(v))] = int32(v)
	}
	number, left := int64(0), 0
	step := func(nodes, rows []event.Node, now float64) {
		windows := [2]event.Window{{Number: number, Nodes: nodes}, {Number: number, Nodes: rows}}
		var rest []late
		for _, l := range waiting {
			if l.at < now {
				windows[0].Labels, windows[1].Labels = append(windows[0].Labels, l.label), append(windows[1].Labels, l.label)
			} else {
				rest = append(rest, l)
			}
		}
		waiting = rest
		if number%10 == 1 && nodes != nil {
			one, _, _, _ := table.Suppose(&nodes[0])
			other, _, _, _ := pair.Serving().Suppose(&rows[0])
			if one.Degree != other.Degree || !slices.Equal(one.Probabilities, other.Probabilities) {
				t.Fatalf("window %d: what if: %v by %d edges of the table, %v by %d of raw payments", number,
					one.Probabilities, one.Degree, other.Probabilities, other.Degree)
			}
		}
		history.Step(&windows[1])
		one, other := table.Step(&windows[0]), pair.Step(&windows[1])
		left += one.Figures.Int(event.NodesExpired)
		if one.Chain != other.Chain || one.Refused != nil || other.Refused != nil {
			t.Fatalf("window %d: the chains are %x of the table and %x of raw payments; %v, %v", number,
				one.Chain, other.Chain, one.Refused, other.Refused)
		}
		if number++; number%20 == 0 {
			s := pair.Snapshot(nil)
			b, err := io.ReadAll(s)
			must(t, err)
			s.Close()
			pair, _, err = pipeline.RestorePair(cfg, bytes.NewReader(b), int64(len(b)), m)
			must(t, err)
		}
	}
	for i, items := range append([][]sender.Item{raw.Context}, raw.Steps...) {
		for _, x := range items {
			v := of[x.Node.ID]
			step(nil, nil, set.Time[v]) // labels that came before
			var decoded event.Node
			if reason, detail := (&wire.Decoder{}).Node(&event.Origin{Value: wire.AppendNode(nil, &x.Node)}, &decoded); reason != "" {
				t.Fatalf("%s: %s", reason, detail)
			}
			encoded := features[v]
			encoded.ID, encoded.Time, encoded.Context, encoded.Origin, decoded.Context = x.Node.ID, x.Node.Time, i == 0, &event.Origin{}, i == 0
			step([]event.Node{encoded}, []event.Node{decoded}, 0)
			if x.Class != "" && !math.IsInf(set.LabelTime[v], 0) {
				waiting = append(waiting, late{set.LabelTime[v], event.Label{Origin: &event.Origin{}, Node: x.Node.ID, Class: x.Class}})
			}
		}
	}
	if cfg.Keep.Nodes > 0 && left == 0 {
		t.Error("no node left by age")
	}
	nodes, _ := history.Nodes(func(*pipeline.Recorded) bool { return true }) // a model is retrained on
	for i := range nodes {
		if !slices.Equal(nodes[i].Features.Dense, set.Features[of[nodes[i].ID]].Dense) {
			t.Fatalf("the history has %v of payment %v, want %v", nodes[i].Features.Dense, nodes[i].ID, set.Features[of[nodes[i].ID]].Dense)
		}
	}
}

// TestKeys: from a table with keys to a stream of raw payments and back. 'gvbll train' and 'map --try' say what a payment got
// and from which others. A worker that finds a base on an empty disk goes on as if nothing had been, no payment more than once,
// and an audit agrees; so it does after a payment was forgotten. A map with other keys than the model's is refused.
func TestKeys(t *testing.T) { onKFake(t, testKeys) }

func testKeys(t *testing.T, sh *shell) {
	dir := t.TempDir()
	file, bases := filepath.Join(dir, "m.safetensors"), filepath.Join(dir, "bases")
	declared := strings.ReplaceAll(payKeys, `, "labels": "fraud"`, "") // the times of labels are not those at which they are sent
	table := keyedTable(t, 300, declared)
	code, _, errs := sh.command("train", "--data", table, "--train-share", "0.3", "--epochs", "2", "--hidden", "8", "--out", file)
	made := regexp.MustCompile(`(?m)^keys made 16 columns and \d+ edges; row p\d+, the last one that trains, has edges to p\d+, ` +
		`.*p\d+; gap_account \d+, n_account`)
	if code != exitOK || !made.MatchString(errs) {
		t.Fatalf("train: exit code %d: %s", code, errs)
	}
	out := sh.gvbll("inspect", file)
	if !strings.Contains(out, `{"account":{"link":{"last":2,"within":"20d","kind":"account"}`) || !strings.Contains(out, "n_account_1h") {
		t.Errorf("inspect says nothing of keys:\n%s", out)
	}
	sh.setenv("GVBLL_BROKERS", sh.addr)
	sh.setenv("GVBLL_PREFIX", "keys")
	g := sh.graph("keys", 0)
	sh.gvbll("topics", "--create", "--partitions", "1")
	set, err := flags.Data{Data: table, TrainShare: 0.3}.Open()
	must(t, err)
	context := set.Stream().Context
	p, err := sh.dial().NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	send := func(items []sender.Item) {
		t.Helper()
		for _, x := range items {
			records := []kafka.Record{{Topic: "keys.nodes", Value: wire.AppendNode(nil, &x.Node)}}
			if x.Class != "" {
				l := event.Label{Node: x.Node.ID, Class: x.Class}
				records = append(records, kafka.Record{Topic: "keys.labels", Value: wire.AppendLabel(nil, &l)})
			}
			must(t, p.Send(t.Context(), records))
		}
	}
	rest := slices.Concat(set.Stream().Steps...)
	stream := len(rest)
	work := []string{"--model", file, "--window", "20", "--base", bases, "--base-every", "1ms,keep=2", "--state-dir"}
	await := func(n int) {
		t.Helper()
		kafkatest.Await(t, fmt.Sprintf("%d payments are predicted", n), func() bool { return g.predictions() >= n })
	}
	stop := g.work(append(work, filepath.Join(dir, "one"))...)
	send(context)
	for sent := 0; ; {
		send(rest[:10])
		sent, rest = sent+10, rest[10:]
		await(sent)
		last, err := ledger.Newest(t.Context(), g.client, g.names.LedgerAt())
		must(t, err)
		if sent >= 100 && last.Bases != nil && last.Bases[0].Name.Window > 5 {
			break
		}
		if len(rest) < 20 {
			t.Fatalf("no base is named: %s", g.log())
		}
	}
	stop()
	stop = g.work(append(work, filepath.Join(dir, "two"))...)
	send(rest)
	await(stream)
	if found := g.audit("--model", file); int(found.Predictions) != stream {
		t.Errorf("%d predictions, want %d", found.Predictions, stream)
	}
	g.forget("p250")
	stop()
	g.audit("--model", file)

	text := "nodes:\n  - id: {pointer: /id}\n    time: {pointer: /time}\n    features: /pay\n" +
		"keys:\n  shop: {link: {last: 1}, velocity: [all, 1h], amounts: [amount]}\n"
	yaml := filepath.Join(dir, "map.yaml")
	must(t, os.WriteFile(yaml, []byte(text), 0o644))
	code, _, errs = sh.command("work", "--model", file, "--map", yaml, "--http", "127.0.0.1:0")
	if code != exitUsage || !strings.Contains(errs, "leave them out there") {
		t.Errorf("a map with other keys than the model's: exit code %d: %s", code, errs)
	}
	for i := range 2 {
		value := fmt.Sprintf(`{"id": "q%d", "time": %d, "pay": {"shop": 7, "amount": %d}}`, i, 1772323200000+i*60_000, 10+i*5)
		must(t, p.Send(t.Context(), []kafka.Record{{Topic: "keys.nodes", Value: []byte(value)}}))
	}
	out = sh.gvbll("map", "--try", yaml, "--topic", "keys.nodes", "-n", "1000")
	for _, want := range []string{
		`"features":{"amount":10,"gap_shop":null,"mean_amount_shop_1h":null,"n_shop":0,"n_shop_1h":0,"ratio_amount_shop":null,` +
			`"ratio_amount_shop_1h":null,"sum_amount_shop_1h":0},"id":"q0",`,
		`"features":{"amount":15,"gap_shop":60,"mean_amount_shop_1h":10,"n_shop":1,"n_shop_1h":1,"ratio_amount_shop":1.5,` +
			`"ratio_amount_shop_1h":1.5,"sum_amount_shop_1h":10},"id":"q1","neighbours":["q0"],`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("map --try does not print %q:\n%s", want, out)
		}
	}
}
