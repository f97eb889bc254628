package intake

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestUnknownFields: unknown fields are counted by name, as is a time in seconds. The first record of each is an
// example, and names beyond the bounds are counted together.
func TestUnknownFields(t *testing.T) {
	r := newRepeater(4)
	value := func(field string) []byte { return fmt.Appendf(nil, `{"id":1,"features":[1],%q:1700000000}`, field) }
	r.block.answer.Records = nil
	add := func(field string) {
		r.block.answer.Records = append(r.block.answer.Records, kafka.Record{
			Topic: "nodes", Offset: int64(len(r.block.answer.Records)), Value: value(field),
			Headers: []kafka.Header{{Key: wire.ContentType, Value: []byte(wire.JSON)}},
		})
	}
	add("neighbour")
	add("neighbour")
	add(strings.Repeat("x", 65))
	add("time")
	got, first, example := map[string]int{}, map[string]int{}, map[string]int64{}
	r.Nodes.fetcher.source.unknown = func(f UnknownField) {
		got[f.Name] += f.Records
		if f.First {
			first[f.Name]++
			example[f.Name] = f.Example.Offset
		}
	}
	r.run(t, 4)
	r.run(t, 4)
	if got[TimeIn+"seconds"] != 2 || example[TimeIn+"seconds"] != 3 || got["time"] > 0 {
		t.Errorf("counted %v, want 2 times in seconds", got)
	}
	if got["neighbour"] != 4 || got[otherFields] != 2 || example["neighbour"] != 0 || example[otherFields] != 2 {
		t.Errorf("counted %v with the examples %v, want 4 of neighbour from offset 0, and 2 others from 2", got, example)
	}
	r.block.answer.Records = nil
	for i := range 100 {
		add(fmt.Sprint("field-", i))
	}
	r.run(t, 100)
	if len(got) > maxUnknownFields+1 || got["field-0"] != 1 || got[otherFields] < 2+100-maxUnknownFields {
		t.Errorf("%d names are told apart and %d records are of others, want at most %d and the rest", len(got), got[otherFields], maxUnknownFields)
	}
	for name, n := range first {
		if n != 1 {
			t.Errorf("%s is reported %d times as the first", name, n)
		}
	}
}

// TestNamesFarBeyondTheBound: thousands of names, one in each record, many in each, and block after block, among them the name for
// all others, are told apart up to the bound. Every record is counted.
func TestNamesFarBeyondTheBound(t *testing.T) {
	for _, c := range []struct{ blocks, records, names int }{{1, 1500, 60}, {1500, 1, 60}, {3000, 1, 1}, {40, 100, 3}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			r := newRepeater(c.records)
			series, lines, counted, next := map[string]bool{}, 0, 0, 0
			r.Nodes.fetcher.source.unknown = func(f UnknownField) {
				series[f.Name] = true
				counted += f.Records
				if f.First {
					lines++
				}
			}
			for b := range c.blocks {
				r.block.answer.Records = nil
				for i := range c.records {
					value := []byte(`{"id":1,"features":[1]`)
					for n := range c.names {
						name := fmt.Sprint("field-", next)
						if next++; b == 1 && i == 0 && n == 0 {
							name = otherFields
						}
						value = fmt.Appendf(value, ",%q:1", name)
					}
					r.block.answer.Records = append(r.block.answer.Records, kafka.Record{
						Topic: "nodes", Offset: int64(i), Value: append(value, '}'),
						Headers: []kafka.Header{{Key: wire.ContentType, Value: []byte(wire.JSON)}},
					})
				}
				r.run(t, c.records)
			}
			if len(series) > maxUnknownFields+1 || lines != len(series) || counted != next {
				t.Errorf("%d names are told apart, in %d lines, and %d of %d fields counted; want at most %d names", len(series), lines, counted, next,
					maxUnknownFields+1)
			}
		})
	}
}

// TestLongNames: names of up to a megabyte are none, at once and one by one.
func TestLongNames(t *testing.T) {
	var u unknownFields
	for n := range 1000 {
		u.note(fmt.Appendf(nil, "%0*d", maxFieldName+1+n*n, n), n)
	}
	u.note(make([]byte, 1<<20), 1000)
	if c := u.counts[otherFields]; len(u.counts) != 1 || c == nil || c.records != 1001 {
		t.Errorf("%d names are told apart, want none", len(u.counts))
	}
}
