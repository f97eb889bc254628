package pool

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// served returns a random batch as the pool served it.
func served(p *Pool, rng *rand.Rand, n int, dense bool) Batch {
	b := randomBatch(rng, n, small, dense)
	b.LogProbs = make([]float32, n*p.LogProbsPerRow())
	p.Predict(b.Rows, b.LogProbs)
	return b
}

// correct takes the labels of a batch with an odd number of rows away again. With its last row
// nothing was served.
func correct(p *Pool, b *Batch) {
	if b.N%2 == 1 {
		b.Taken, b.TakenLabels, b.LogProbs = b.Rows, b.Labels, b.LogProbs[p.LogProbsPerRow():]
	}
}

// TestBatchAsBytes: a pool learns the same from a batch that was written and read back.
func TestBatchAsBytes(t *testing.T) {
	for _, dense := range []bool{false, true} {
		p, q := newPool(t, everything(dense)), newPool(t, everything(dense))
		rng := rand.New(rand.NewPCG(1, 2))
		for n := range 8 {
			b := served(p, rng, n, dense)
			correct(p, &b)
			bytes := p.Layout().AppendBatch([]byte("kept"), &b)
			again, rest, err := q.Layout().ReadBatch(append(bytes[4:], "rest"...))
			if err != nil || string(rest) != "rest" || string(bytes[:4]) != "kept" {
				t.Fatalf("%d rows: %q is left (%v), want the bytes behind the batch", n, rest, err)
			}
			p.Learn(b)
			q.Learn(again)
		}
		if !bytes.Equal(p.AppendState(nil), q.AppendState(nil)) {
			t.Errorf("dense %v: the pools differ", dense)
		}
	}
}

// TestBatchOfThePaperHeads: a layout of embeddings alone leaves all else out.
func TestBatchOfThePaperHeads(t *testing.T) {
	p := newPool(t, everything(true))
	b := served(p, rand.New(rand.NewPCG(3, 4)), 5, true)
	l := Layout{Shape: small, Need: NeedEmbedded}
	b.LogProbs, b.Pairs, b.Replay, b.ReplayLabels, b.Known = nil, nil, Rows{}, nil, 0
	bytes := l.AppendBatch(nil, &b)
	if want := 4 + 5*(4+4*small.Embedding+8) + 5*4; len(bytes) != want {
		t.Errorf("%d bytes, want %d", len(bytes), want)
	}
	got, _, err := l.ReadBatch(bytes)
	if err != nil || got.X.Dense != nil || !reflect.DeepEqual(got.Embedded, b.Embedded) || !slices.Equal(got.Labels, b.Labels) {
		t.Errorf("got %+v (%v), want embeddings and labels of %+v", got, err, b)
	}
}

// TestReadBatchRefuses: a batch that could not be learned is an error that names what is
// wrong.
func TestReadBatchRefuses(t *testing.T) {
	for _, x := range []struct {
		want   string
		dense  bool
		damage func(b *Batch)
	}{
		{"label 5 of 5", true, func(b *Batch) { b.Labels[1] = 5 }},
		{"label -1", true, func(b *Batch) { b.ReplayLabels[0] = -1 }},
		{"a number is NaN", true, func(b *Batch) { b.LogProbs[3] = float32(math.NaN()) }},
		{"a number is +Inf", true, func(b *Batch) { b.Embedded.Z[3] = float32(math.Inf(1)) }},
		{"a temperature is 0", true, func(b *Batch) { b.Embedded.Tau[2] = 0 }},
		{"a pair of the rows [0 6]", true, func(b *Batch) { b.Pairs = append(b.Pairs, [2]int32{0, 6}) }},
		{"-1 neighbours", true, func(b *Batch) { b.Degree[0] = -1 }},
		{"feature 40 after", false, func(b *Batch) { b.X.Index[b.X.Start[6]-1] = 40 }},
		{"feature 3 after feature 3", false, func(b *Batch) { at := b.S.Start[5]; b.S.Index[at], b.S.Index[at+1] = 3, 3 }},
	} {
		p := newPool(t, everything(x.dense))
		b := served(p, rand.New(rand.NewPCG(5, 6)), 6, x.dense)
		x.damage(&b)
		if _, _, err := p.Layout().ReadBatch(p.Layout().AppendBatch(nil, &b)); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("got %v, want %q", err, x.want)
		}
	}
	dense := newPool(t, everything(true))
	b := served(dense, rand.New(rand.NewPCG(7, 8)), 6, true)
	whole := dense.Layout().AppendBatch(nil, &b)
	for n := range whole {
		if _, _, err := dense.Layout().ReadBatch(whole[:n]); err == nil {
			t.Fatalf("%d bytes of %d are a batch, want an error", n, len(whole))
		}
	}
}

// FuzzReadBatch: for any bytes, ReadBatch does not panic and takes memory in proportion to
// them. What it reads is written as the same bytes, and can be learned.
func FuzzReadBatch(f *testing.F) {
	fresh := func(dense bool) *Pool {
		p, err := New(everything(dense), small, randomPrior(rand.New(rand.NewPCG(5, 6)), small))
		if err != nil {
			f.Fatal(err)
		}
		return p
	}
	for _, dense := range []bool{false, true} {
		p := fresh(dense)
		for n := range 4 {
			b := served(p, rand.New(rand.NewPCG(9, uint64(n))), n, dense)
			correct(p, &b)
			f.Add(dense, p.Layout().AppendBatch(nil, &b))
		}
	}
	f.Fuzz(func(t *testing.T, dense bool, b []byte) {
		p := fresh(dense)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		batch, rest, err := p.Layout().ReadBatch(b)
		runtime.ReadMemStats(&after)
		if allocated, most := after.TotalAlloc-before.TotalAlloc, uint64(1<<14+16*len(b)); allocated > most {
			t.Errorf("%d bytes allocated for %d, want at most %d", allocated, len(b), most)
		}
		if err != nil {
			return
		}
		if read := b[:len(b)-len(rest)]; !bytes.Equal(p.Layout().AppendBatch(nil, &batch), read) {
			t.Error("the batch is written as other bytes than were read")
		}
		p.Learn(batch)
	})
}
