package sender_test

import (
	"strings"
	"testing"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/sender"
)

// TestCellBy: nodes with the same attribute, or with ids that begin alike, are in one cell, as a producer has them whose records have that as
// their key. Labels are where their nodes are, and commands everywhere.
func TestCellBy(t *testing.T) {
	for by, lines := range map[string]string{
		"tenant": `{"id":1,"features":{"tenant":"acme","amount":3}}
{"id":2,"features":{"tenant":"zeta","amount":3}}
{"id":3,"features":{"tenant":"acme","amount":4},"neighbours":[1]}
{"node":2,"class":"a"}
{"node":3,"class":"a"}
{"id":3,"departed":true}
{"command":"promote","model":"0123456789abcdef"}`,
		"prefix=/": `{"id":"acme/1","features":[1]}
{"id":"zeta/2","features":[1]}
{"id":"acme/3","features":[1],"neighbours":["acme/1"]}
{"node":"zeta/2","class":"a"}
{"node":"acme/3","class":"a"}
{"id":"acme/3","departed":true}
{"command":"promote","model":"0123456789abcdef"}`,
	} {
		t.Run(by, func(t *testing.T) {
			onFake(t, func(t *testing.T, f *fixture) {
				const cells = 7
				names, err := topics.Under("divided")
				if err == nil {
					_, err = topics.Create(t.Context(), f.client, names, topics.Layout{Cells: cells, Replication: 1})
				}
				if err != nil {
					t.Fatal(err)
				}
				send := func(lines string) error {
					decides, err := sender.ParseCellBy(by)
					if err != nil {
						t.Fatal(err)
					}
					_, err = sender.Lines(t.Context(), f.client, names, decides, strings.NewReader(lines), 0)
					return err
				}
				if err := send(lines); err != nil {
					t.Fatal(err)
				}
				of := map[string]int32{
					"acme": kafka.PartitionFor([]byte("acme"), cells), "zeta": kafka.PartitionFor([]byte("zeta"), cells),
				}
				counts := make(map[kafka.TopicPartition]int)
				for _, topic := range []string{names.Nodes, names.Labels, names.Commands} {
					if err := f.client.ReadAll(t.Context(), topic, func(r *kafka.Record) {
						counts[kafka.TopicPartition{Topic: topic, Partition: r.Partition}]++
					}); err != nil {
						t.Fatal(err)
					}
				}
				want := map[kafka.TopicPartition]int{
					{Topic: names.Nodes, Partition: of["acme"]}: 3, {Topic: names.Nodes, Partition: of["zeta"]}: 1,
					{Topic: names.Labels, Partition: of["acme"]}: 1, {Topic: names.Labels, Partition: of["zeta"]}: 1,
				}
				for p := range int32(cells) {
					want[kafka.TopicPartition{Topic: names.Commands, Partition: p}] = 1
				}
				for at, n := range want {
					if counts[at] != n {
						t.Errorf("--cell-by %s: %v has %d records, want %d", by, at, counts[at], n)
					}
					delete(counts, at)
				}
				if len(counts) > 0 {
					t.Errorf("--cell-by %s: there are records in %v", by, counts)
				}
				for line, want := range map[string]string{
					`{"id":9,"features":[1]}`: "which decides its cell", `{"id":9,"features":{"tenant":null}}`: "which decides its cell", `{"node":9,"class":"a"}`: "before the node",
				} {
					if by == "prefix=/" {
						want = `has no "/" behind what decides its cell`
					}
					if err := send(line); err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("--cell-by %s, %s: error %v, want %q", by, line, err, want)
					}
				}
			})
		})
	}
	for _, text := range []string{"", "prefix="} {
		if _, err := sender.ParseCellBy(text); err == nil {
			t.Errorf("%q decides the cells", text)
		}
	}
}
