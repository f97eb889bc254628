package keys

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"syscall"
	"testing"
)

// cpu returns the processor time of the process, ns.
func cpu(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkEvent has the time of an event for each of its keys, and the bytes that a key takes, of a million accounts.
func BenchmarkEvent(b *testing.B) {
	for _, of := range []struct{ name, key string }{
		{"all", `"link": {"last": 2}, "velocity": true, "amounts": ["amount"]`},
		{"spans=3", `"link": {"last": 2}, "velocity": ["1h", "1d", "30d"]`},
		{"spans=3,amounts=1", `"link": {"last": 2}, "velocity": ["1h", "1d", "30d"], "amounts": ["amount"]`},
	} {
		b.Run(of.name, func(b *testing.B) {
			const accounts = 1_000_000
			d, err := Parse(fmt.Appendf(nil, `{"account": {%s}}`, of.key))
			if err != nil {
				b.Fatal(err)
			}
			s, err := New(d, nil)
			if err != nil {
				b.Fatal(err)
			}
			names := make([]string, accounts)
			for i := range names {
				names[i] = "A" + strconv.Itoa(i)
			}
			at := int64(1_760_000_000_000)
			event := func(i int) {
				at += 100
				s.Begin(at)
				s.Text("account", names[i])
				s.Number("amount", float64(i%1000))
				s.End()
				s.Enter(int32(i)) // the same nodes again and again: their memory is not that of a key
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for i := range names {
				event(i)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			nodes := 8 * s.nodes.Width() * s.nodes.Len()
			rng := rand.New(rand.NewPCG(1, 1))
			began := cpu(b)
			for b.Loop() {
				event(rng.IntN(accounts))
			}
			b.ReportMetric(float64(cpu(b)-began)/float64(b.N), "cpu-ns/op") // also on a machine with other work
			b.ReportMetric(float64(int(after.HeapAlloc-before.HeapAlloc)-nodes)/accounts, "B/key")
		})
	}
}
