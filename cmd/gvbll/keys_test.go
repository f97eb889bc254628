package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/holdout"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/structure"
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
	m, err := holdout.Train(t.Context(), set.Training(), model.Config{Hidden: []int{8}, Epochs: 2, Pool: true, Seed: 1}, nil)
	must(t, err)
	table, err := pipeline.New(m, cfg)
	must(t, err)
	pair, err := pipeline.NewPair(cfg, m)
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
		one, other := table.Step(&windows[0]), pair.Step(&windows[1])
		left += one.Figures.Int(event.NodesExpired)
		if one.Chain != other.Chain || one.Refused != nil || other.Refused != nil {
			t.Fatalf("window %d: the chains are %x of the table and %x of raw payments; %v, %v", number, one.Chain, other.Chain, one.Refused, other.Refused)
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
}
