package pipelinetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/holdout"
	"github.com/gvbll/gvbll/pipeline/model"
)

// Kinds are those of encoders.
var Kinds = []gnn.Kind{gnn.KindSAGE, gnn.KindGCN, gnn.KindGAT, gnn.KindGIN}

// TrainedOn returns a model that was trained on the nodes with the given ids, of two
// classes in turn, each with a feature of its own.
func TrainedOn(t testing.TB, ids []event.ID) *model.Model {
	t.Helper()
	d := model.Data{Name: "two", Dim: 2, Classes: []string{"a", "b"}, IDs: ids}
	for i := range ids {
		d.X, d.Labels = append(d.X, gnn.Vector{Dense: OneOf(i)}), append(d.Labels, int32(i%2))
	}
	m, err := model.Train(context.Background(), d, model.Config{Hidden: []int{2}, Embedding: 2, Epochs: 2, Samples: 2, Pool: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// OneOf returns the features of the i-th node.
func OneOf(i int) []float32 {
	x := make([]float32, 2)
	x[i%2] = 1
	return x
}

// Account returns a random value for each of the names of accounts, a gap at times.
func Account(rng *rand.Rand) map[string]string {
	values := map[string]string{
		"amount": fmt.Sprint(rng.NormFloat64()), "country": fmt.Sprintf("C%d", rng.IntN(6)), "new": fmt.Sprint(rng.IntN(2) == 0),
		"opened": fmt.Sprintf("2026-01-%02d", 1+rng.IntN(28)), "note": strings.Repeat("a word or two ", rng.IntN(3)),
		"place": fmt.Sprintf("%d %d", rng.IntN(3), rng.IntN(3)),
	}
	for name := range values {
		if rng.IntN(6) == 0 {
			values[name] = ""
		}
	}
	return values
}

// AccountNames are the names of an account's values.
var AccountNames = []string{"amount", "country", "new", "opened", "note", "place"}

// AccountTime is when the first account of the model came.
const AccountTime = 1_770_000_000_000

// AccountModel trains a model on accounts.
func AccountModel(t testing.TB, rng *rand.Rand) *model.Model {
	t.Helper()
	columns := make([]attributes.Column, len(AccountNames))
	for j, kind := range []attributes.Kind{
		attributes.Number, attributes.Category, attributes.Boolean, attributes.Time,
		attributes.Text, attributes.Vector,
	} {
		columns[j] = attributes.Column{Name: AccountNames[j], Kind: kind}
	}
	d := model.Data{Name: "accounts", Classes: []string{"good", "bad"}}
	var times []int64
	var rows []int32
	for v := range int32(80) {
		values := Account(rng)
		for j := range columns {
			columns[j].Texts = append(columns[j].Texts, values[columns[j].Name])
		}
		times, rows = append(times, AccountTime+int64(v)), append(rows, v)
		d.Labels = append(d.Labels, v%2)
	}
	var err error
	if d.Schema, err = attributes.Learn(columns, times, rows); err != nil {
		t.Fatal(err)
	}
	d.Dim = d.Schema.Width()
	e := attributes.NewEncoder(d.Schema)
	for v := range rows {
		x, err := attributes.EncodeRow(e, columns, times, v)
		if err != nil {
			t.Fatal(err)
		}
		d.X = append(d.X, x)
	}
	m, err := holdout.Train(context.Background(), d, model.Config{
		Hidden: []int{4}, Embedding: 4, Epochs: 2, Samples: 2,
		Pool: true, Seed: 1,
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
