package trial

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
)

// wear is the result of [Soak].
type wear struct {
	Minutes      float64 `json:"minutes"`
	Rate         int     `json:"rate"` // node events a second
	Nodes        int     `json:"nodes"`
	Events       int     `json:"events"`        // node events sent
	HeapFirst    float64 `json:"heap_first_mb"` // the lowest in the second quarter of the time
	HeapLast     float64 `json:"heap_last_mb"`  // the lowest in the last quarter
	DescFirst    float64 `json:"descriptors_first"`
	DescLast     float64 `json:"descriptors_last"`
	RoutineFirst float64 `json:"goroutines_first"`
	RoutineLast  float64 `json:"goroutines_last"`
	Checkpoints  float64 `json:"checkpoints"`
	verdict
}

// Growth that still counts as steady, because the time of a garbage collection and the
// number of open connections vary.
const (
	heapGrowth    = 1.15 // factor
	heapSlack     = 8    // MB, in addition
	descGrowth    = 3
	routineGrowth = 5
)

// Metrics that are compared.
const (
	heapBytes  = "go_memstats_heap_alloc_bytes"
	openFiles  = "process_open_fds"
	goroutines = "go_goroutines"
)

// Err returns an error if anything grew, was lost or was duplicated.
func (w *wear) Err() error {
	switch {
	case w.verdict.Err() != nil:
		return errBroken
	case w.HeapLast > w.HeapFirst*heapGrowth+heapSlack:
		return errors.New("the heap grows")
	case w.DescLast > w.DescFirst+descGrowth:
		return errors.New("the number of open files grows")
	case w.RoutineLast > w.RoutineFirst+routineGrowth:
		return errors.New("the number of goroutines grows")
	}
	return nil
}

// Soak sends nodes at a steady rate to one worker. Once all nodes have been sent, it sends
// them again and again with the features of other nodes, so that the graph keeps its
// size. From then on the worker's live heap, open files and goroutines must not grow.
func Soak(ctx context.Context, s *Setup, long time.Duration) (found *wear, err error) {
	defer catch(&err)
	g := s.newGraph(ctx, "soak")
	g.http = freeAddress()
	p := g.start("a", "", "--linger", "20ms", "--checkpoints", "every=5s")
	defer g.end()
	out := g.newSender(ctx)
	const rate, bursts = 2000, 20
	w := &wear{Minutes: long.Minutes(), Rate: rate, Nodes: len(s.Items)}
	var samples []map[string]float64
	began := time.Now()
	n := 0
	ticking(ctx, time.Second/bursts, func() bool {
		for range rate / bursts {
			i := w.Events % len(s.Items)
			node := s.Items[i].Node
			if round := w.Events / len(s.Items); round > 0 {
				other := s.Items[(i+round)%len(s.Items)].Node
				node.Dense, node.Index, node.Value, node.Neighbours = other.Dense, other.Index, other.Value, node.Neighbours[:0]
			} else if i >= 1000 {
				j := i - 1000
				out.label(&event.Label{Node: s.Items[j].Node.ID, Class: s.Items[j].Class})
			}
			out.node(&node)
			w.Events++
		}
		out.send(ctx)
		if n%bursts == bursts-1 {
			at := scrape(ctx, g.http)
			samples = append(samples, at)
			w.Checkpoints = at["gvbll_checkpoint_seconds_count"]
			s.Report(fmt.Sprintf("%v: %d events, live heap %.1f MB, %.0f files, %.0f goroutines",
				time.Since(began).Round(time.Second), w.Events, at[heapBytes]/1e6, at[openFiles], at[goroutines]))
		}
		if closed(p.ended) {
			fail("the worker ended with %w, see %s", p.err, g.dir)
		}
		n++
		return time.Since(began) >= long
	})
	if len(samples) < 8 {
		fail("too few samples: soak for longer")
	}
	quarter := len(samples) / 4
	first, last := samples[quarter:2*quarter], samples[3*quarter:]
	w.HeapFirst, w.HeapLast = lowest(first, heapBytes)/1e6, lowest(last, heapBytes)/1e6
	w.DescFirst, w.DescLast = lowest(first, openFiles), lowest(last, openFiles)
	w.RoutineFirst, w.RoutineLast = lowest(first, goroutines), lowest(last, goroutines)
	var ids []event.ID
	for i := range min(w.Events, len(s.Items)) {
		ids = append(ids, s.Items[i].Node.ID)
	}
	must(p.stop())
	got := g.read(ctx, ids)
	w.Lost, w.Duplicated, w.Wrong = got.lost, got.twice, got.faults
	return w, nil
}

// lowest returns the lowest value of a metric.
func lowest(samples []map[string]float64, name string) float64 {
	low := math.Inf(1)
	for _, s := range samples {
		low = min(low, s[name])
	}
	return low
}

// scrape reads a worker's metrics: sums over the labels, by name.
func scrape(ctx context.Context, addr string) map[string]float64 {
	status, body := get(ctx, addr, "/metrics")
	if status != http.StatusOK {
		fail("/metrics answers with status %d", status)
	}
	sums := make(map[string]float64)
	for line := range strings.Lines(body) {
		if at := strings.LastIndexByte(line, ' '); line[0] != '#' {
			sums[line[:strings.IndexAny(line, "{ ")]] += need(strconv.ParseFloat(strings.TrimSpace(line[at:]), 64))
		}
	}
	return sums
}
