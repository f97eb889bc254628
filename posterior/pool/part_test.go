package pool

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// TestMergeRefuses: parts that lack a row, have one twice, or whose pairs and rows to replay
// are not those of their rows are no batch.
func TestMergeRefuses(t *testing.T) {
	for _, c := range []struct {
		want   string
		breaks func(a, b *Part)
	}{
		{"", func(*Part, *Part) {}},
		{"twice", func(a, _ *Part) { a.Positions[1] = 0 }},
		{"missing", func(_, b *Part) { b.Positions[0] = 9 }},
		{"missing", func(_, b *Part) { b.Positions[0] = -1 }},
		{"positions", func(a, _ *Part) { a.Positions = a.Positions[:1] }},
		{"pair of rows", func(a, _ *Part) { a.Pairs[0] = [2]int32{0, 9} }},
		{"pair of rows", func(a, _ *Part) { a.Pairs[0] = [2]int32{0, 0} }},
		{"pairs", func(a, _ *Part) { a.Pairs[0] = [2]int32{1, 2} }},
		{"to replay", func(a, _ *Part) { a.Replay.N = 1 }},
	} {
		part := func(positions ...int32) *Part {
			p := &Part{Batch: randomBatch(rand.New(rand.NewPCG(1, 2)), len(positions), small, false), Positions: positions}
			p.Pairs, p.Replay, p.ReplayLabels = nil, Rows{X: Features{Start: []int{0}}, S: Features{Start: []int{0}}}, nil
			return p
		}
		a, b := part(0, 2), part(1)
		a.Pairs = [][2]int32{{0, 1}}
		c.breaks(a, b)
		var merged Batch
		err := merged.Merge([]*Part{a, b})
		if c.want == "" && err == nil {
			continue
		}
		if err == nil || c.want == "" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
}

// split returns the parts of a batch whose rows lie in turn in one of n. Its pairs ascend.
func split(b *Batch, n int) (parts []*Part) {
	for range n {
		parts = append(parts, &Part{})
		parts[len(parts)-1].like(b)
	}
	for i := range b.N {
		p := parts[i%n]
		p.Positions = append(p.Positions, int32(i))
		p.appendRow(&b.Rows, i)
		p.N++
		p.Labels, p.LogProbs = append(p.Labels, b.Labels[i]), appendRow(p.LogProbs, b.LogProbs, i, b.N)
		for _, pair := range b.Pairs {
			if int(pair[0]) == i {
				p.Pairs = append(p.Pairs, pair)
			}
		}
	}
	return parts
}

// like makes the features of an empty part sparse if those of b are.
func (p *Part) like(b *Batch) {
	p.X.like(&b.X)
	p.S.like(&b.S)
	p.Replay.X.like(&b.Replay.X)
	p.Replay.S.like(&b.Replay.S)
}

// ascending returns a batch as a pool served it, whose pairs ascend.
func ascending(p *Pool, seed uint64, n int, dense bool) Batch {
	b := served(p, rand.New(rand.NewPCG(11, seed)), n, dense)
	b.Pairs, b.Replay, b.ReplayLabels, b.Known = nil, Rows{}, nil, 0
	b.Replay.X.like(&b.X)
	b.Replay.S.like(&b.S)
	for i := range n - 1 {
		b.Pairs = append(b.Pairs, [2]int32{int32(i), int32(i + 1)})
	}
	return b
}

// TestPartsAsBytes: a pool learns the same from a batch and from its parts, which were written
// and read back.
func TestPartsAsBytes(t *testing.T) {
	for _, dense := range []bool{false, true} {
		p, q := newPool(t, everything(dense)), newPool(t, everything(dense))
		var merged Batch
		for n := range 8 {
			b := ascending(p, uint64(n), n, dense)
			var parts []*Part
			for _, x := range split(&b, 3) {
				part, rest, err := q.Layout().ReadPart(append(q.Layout().AppendPart(nil, x), "rest"...))
				if err != nil || string(rest) != "rest" {
					t.Fatalf("%d rows: %q is left (%v), want the bytes behind the part", n, rest, err)
				}
				parts = append(parts, &part)
			}
			if err := merged.Merge(parts); err != nil {
				t.Fatal(err)
			}
			p.Learn(b)
			q.Learn(merged)
		}
		if !bytes.Equal(p.AppendState(nil), q.AppendState(nil)) {
			t.Errorf("dense %v: the pools differ", dense)
		}
	}
}

// FuzzReadPart: for any bytes, ReadPart does not panic and takes memory in proportion to them.
// What it reads is written as the same bytes, and if it fits another part, the pool can learn
// both.
func FuzzReadPart(f *testing.F) {
	fresh := func(dense bool) *Pool {
		p, err := New(everything(dense), small, randomPrior(rand.New(rand.NewPCG(5, 6)), small))
		if err != nil {
			f.Fatal(err)
		}
		return p
	}
	other := make(map[bool]*Part)
	for _, dense := range []bool{false, true} {
		p := fresh(dense)
		b := ascending(p, 1, 5, dense)
		parts := split(&b, 2)
		other[dense] = parts[1]
		f.Add(dense, p.Layout().AppendPart(nil, parts[0]))
		b = ascending(p, 2, 0, dense)
		f.Add(dense, p.Layout().AppendPart(nil, split(&b, 1)[0]))
	}
	f.Fuzz(func(t *testing.T, dense bool, b []byte) {
		p := fresh(dense)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		part, rest, err := p.Layout().ReadPart(b)
		runtime.ReadMemStats(&after)
		if allocated, most := after.TotalAlloc-before.TotalAlloc, uint64(1<<14+16*len(b)); allocated > most {
			t.Errorf("%d bytes allocated for %d, want at most %d", allocated, len(b), most)
		}
		if err != nil {
			return
		}
		if read := b[:len(b)-len(rest)]; !bytes.Equal(p.Layout().AppendPart(nil, &part), read) {
			t.Error("the part is written as other bytes than were read")
		}
		var merged Batch
		if merged.Merge([]*Part{&part, other[dense]}) == nil {
			p.Learn(merged)
		}
	})
}
