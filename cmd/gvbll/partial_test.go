package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/topics/kafka"
)

// TestPartialUpdates: with --partial-updates, an event that names what changed of a node is as
// good as one that names all: the predictions around it are equal byte by byte, also after a
// start from a checkpoint, the export is equal, and so are the models that are trained on it
// and on the ledger. An audit knows it from the ledger.
func TestPartialUpdates(t *testing.T) { onKFake(t, testPartialUpdates) }

func testPartialUpdates(t *testing.T, sh *shell) {
	const nodes = 60 // of each batch: whole windows
	dir := t.TempDir()
	table, model := paymentsTable(t, 200), filepath.Join(dir, "m.safetensors")
	sh.gvbll("train", "--data", table, "--train-share", "0.3", "--epochs", "3", "--hidden", "8", "--out", model)
	f, err := os.Open(filepath.Join(table, "nodes.csv"))
	must(t, err)
	rows, err := csv.NewReader(f).ReadAll()
	must(t, err)
	must(t, f.Close())
	header, rows := rows[0], rows[1:]
	features := func(row []string, changed func(name string) bool) string {
		var named []string
		for j := 3; j < len(header); j++ {
			if value := fmt.Sprintf("%q", row[j]); changed(header[j]) {
				if row[j] == "" {
					value = "null"
				}
				named = append(named, fmt.Sprintf("%q: %s", header[j], value))
			}
		}
		return "{" + strings.Join(named, ", ") + "}"
	}
	// Those of row i that differ from what the node had of row i+1, and the whole row.
	texts := [2]func(i int) string{
		func(i int) string {
			return features(rows[i], func(name string) bool { return name == "amount" || name == "age" || name == "note" })
		},
		func(i int) string {
			row := append([]string(nil), rows[i+1]...)
			for j, name := range header {
				if name == "amount" || name == "age" || name == "note" {
					row[j] = rows[i][j]
				}
			}
			return features(row, func(string) bool { return true })
		},
	}
	var exports, predicted, trained [2]string
	for which, updates := range texts {
		prefix := []string{"changes", "whole"}[which]
		flags := []string{"--brokers", sh.addr, "--prefix", prefix}
		sh.gvbll(append([]string{"topics", "--create", "--partitions", "1"}, flags...)...)
		g := sh.graph(prefix, 0)
		p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
		must(t, err)
		send := func(id, features, neighbours string, i int) {
			t.Helper()
			value := fmt.Sprintf(`{"id": %q, "features": %s, "neighbours": [%s], "time": %d}`, id, features, neighbours, 1772323200000+i)
			must(t, p.Send(t.Context(), []kafka.Record{{Topic: g.names.Nodes, Value: []byte(value)}}))
		}
		work := []string{"--model", model, "--prefix", prefix, "--output", "json", "--window", "20", "--linger", "1m", "--state-dir", filepath.Join(dir, prefix), "--checkpoints", "every=1h"}
		if which == 0 {
			work = append(work, "--partial-updates")
		}
		run := func() {
			t.Helper()
			stop := g.work(work...)
			g.awaitTaken()
			stop()
		}
		all := func(string) bool { return true }
		for i := range nodes {
			send(fmt.Sprint("a-", i), features(rows[i+1], all), "", i)
		}
		run()
		for i := range nodes {
			send(fmt.Sprint("a-", i), updates(i), "", nodes+i)
		}
		run() // from the checkpoint that the first run left
		if which == 0 && !strings.Contains(g.log(), "checkpoint") {
			t.Errorf("the second start says nothing of a checkpoint:\n%s", g.log())
		}
		for i := range nodes {
			send(fmt.Sprint("b-", i), features(rows[100+i], all), fmt.Sprintf(`"a-%d"`, i), 2*nodes+i)
		}
		run()
		for i := range nodes {
			must(t, p.Send(t.Context(), []kafka.Record{{Topic: g.names.Labels, Value: fmt.Appendf(nil, `{"node": "b-%d", "class": %q}`, i, []string{"good", "fraud"}[i%2])}}))
		}
		run()
		must(t, g.client.ReadAll(t.Context(), g.names.Predictions, func(r *kafka.Record) { predicted[which] += string(r.Value) + "\n" }))
		sh.gvbll(append([]string{"audit", "--model", model}, flags...)...)
		out := filepath.Join(dir, "exported "+prefix, "graph")
		sh.gvbll(append([]string{"export", "--out", out}, flags...)...)
		exported, err := os.ReadFile(filepath.Join(out, "nodes.csv"))
		must(t, err)
		exports[which] = string(exported)
		for _, from := range [][]string{{"--data", out, "--train-share", "0.5"}, append([]string{"--serving", model}, flags...)} {
			said := sh.gvbll(append([]string{"train", "--epochs", "2", "--force", "--out", filepath.Join(dir, "again")}, from...)...)
			trained[which] += regexp.MustCompile("model [0-9a-f]{16}").ReplaceAllString(said, "") // the ledger's name is in the model
		}
	}
	if n := strings.Count(predicted[0], "\n"); n != 2*nodes || predicted[0] != predicted[1] {
		t.Errorf("%d predictions, want %d, those of whole updates", n, 2*nodes)
	}
	if exports[0] != exports[1] || trained[0] != trained[1] {
		t.Errorf("exported\n%s\nand of whole updates\n%s\ntrained %s and %s", exports[0], exports[1], trained[0], trained[1])
	}
}
