package bench

import (
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/blocks"
)

var (
	waiting = flag.Int("waiting", 20_000, "number of predictions that wait in BenchmarkPendingLabel, half a kilobyte each on disk and some 300 bytes in memory")
	late    = flag.Int("late", 20_000, "number of arrivals by which labels are late in BenchmarkPendingStream")
)

// BenchmarkPendingStream steps two engines through a stream whose labels come many windows
// late, one with all in memory, the other with files for nearly all that wait. It reports the
// quotient of their times an arrival. docs/performance.md has 200,000 arrivals.
func BenchmarkPendingStream(b *testing.B) {
	w := Workload{Pool: true}.WithDefaults()
	behind := *late / w.Window
	inMemory, err := w.lateLabels(behind, nil, 0)
	if err != nil {
		b.Fatal(err)
	}
	files, err := blocks.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer files.Close()
	inFiles, err := w.lateLabels(behind, files, 64<<20)
	if err != nil {
		b.Fatal(err)
	}
	for range behind { // no labels yet
		inMemory.step(inMemory.next())
		inFiles.step(inFiles.next())
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	memory, disk := begin(w.Window), begin(w.Window)
	for b.Loop() {
		x, y := inMemory.next(), inFiles.next()
		memory.runCPU(func() { inMemory.step(x) })
		disk.runCPU(func() { inFiles.step(y) })
	}
	if x, y := inMemory.e, inFiles.e; x.Chain() != y.Chain() || y.Err() != nil {
		b.Fatalf("with files the chain is %x, and without %x (error %v)", y.Chain(), x.Chain(), y.Err())
	}
	b.ReportMetric(disk.mean()/memory.mean(), "files/memory")
}

// delayed is an engine with a stream whose labels come some windows after their nodes.
type delayed struct {
	e      *pipeline.Engine
	stream *Stream
	late   int
	labels [][]event.Label // of the last windows
	last   *event.Outcome  // recycled before the next step, as a worker does
}

// lateLabels returns such a stream and a new engine, with files unless they are nil.
func (w Workload) lateLabels(late int, files pipeline.Blocks, memory int64) (*delayed, error) {
	m, err := w.Model()
	if err != nil {
		return nil, err
	}
	e, err := pipeline.New(m, pipeline.Config{Bounds: pipeline.Bounds{Pending: pipeline.MostPending}, Local: pipeline.Local{Blocks: files, PendingMemory: memory}})
	return &delayed{e: e, stream: w.Stream(), late: late}, err
}

// next draws the next window.
func (d *delayed) next() *event.Window {
	w := d.stream.Next(true)
	d.labels = append(d.labels, append([]event.Label(nil), w.Labels...))
	w.Labels = w.Labels[:0]
	if len(d.labels) > d.late {
		w.Labels = append(w.Labels, d.labels[0]...)
		d.labels = d.labels[1:]
	}
	return w
}

func (d *delayed) step(w *event.Window) {
	if d.last != nil {
		d.e.Recycle(d.last)
	}
	d.last = d.e.Step(w)
}

// BenchmarkPendingLabel lets very many predictions wait, of nodes that are as small as they can
// be, so that as many as possible fit: 64 dimensions, 7 classes and the default pool. Then labels
// come for random ones of them, a window at a time, whose files the system does not have in its
// cache: the cost of a label includes the disk, and the learning.
func BenchmarkPendingLabel(b *testing.B) {
	n, dir := *waiting, b.TempDir()
	w := Workload{Nodes: n, Degree: 2, Features: 2, Hidden: 2, Classes: 7, Pool: true}.WithDefaults()
	files, err := blocks.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer files.Close()
	d, err := w.lateLabels(0, files, min(1<<30, 64*int64(n)))
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	for sent := 0; sent < n; sent += w.Window {
		d.step(d.stream.Next(false))
	}
	filling, pending := time.Since(began), float64(d.last.Figures.Int(event.Pending))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	onDisk, err := dropFromCache(dir)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 4))
	s := begin(w.Window)
	for b.Loop() {
		labels := &event.Window{Number: d.e.Next()}
		for range w.Window {
			id := event.ID{Num: rng.Int64N(int64(n))}
			labels.Labels = append(labels.Labels, event.Label{Origin: &event.Origin{}, Node: id, Index: rng.Int32N(int32(w.Classes))})
		}
		s.run(func() { d.step(labels) })
	}
	if err := d.e.Err(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(filling.Nanoseconds())/pending, "ns/arrival")
	b.ReportMetric(float64(m.HeapAlloc)/pending, "heap-B/prediction")
	b.ReportMetric(float64(onDisk)/pending, "disk-B/prediction")
	b.ReportMetric(float64(m.Sys)/(1<<30), "GiB")
	b.ReportMetric(s.mean(), "ns/label")
}

// dropFromCache makes the system write the files of a folder and forget them, and returns their
// total size.
func dropFromCache(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(name string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		bytes += info.Size()
		if err := file.Sync(); err != nil {
			return err
		}
		return unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
	return bytes, err
}
