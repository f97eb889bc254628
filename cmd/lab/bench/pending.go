package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/blocks"
)

// pending measures predictions that wait for their label in files: what the files cost a
// stream whose labels come late, and then, with very many predictions, what a label costs
// and the memory.
func pending(ctx context.Context, c Config) ([]Row, error) {
	dir, err := os.MkdirTemp(c.Folder, "gvbll-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	slower, err := c.filesAgainstMemory(dir)
	if err != nil {
		return nil, err
	}
	rows, err := c.crowd(ctx, dir)
	return append([]Row{atMost("pending-stream", slower, "times", 1.1)}, rows...), err
}

// filesAgainstMemory steps two engines through a stream whose labels come many windows
// late, one with all in memory, the other with files for nearly all that wait. It returns
// the quotient of their times an arrival.
func (c Config) filesAgainstMemory(dir string) (float64, error) {
	late, windows := 200_000/c.Window, 200
	if c.Quick {
		late, windows = 40, 20
	}
	w := c.Workload
	w.Pool = true
	inMemory, err := w.lateLabels(late, nil, 0)
	if err != nil {
		return 0, err
	}
	files, err := blocks.Open(dir)
	if err != nil {
		return 0, err
	}
	defer files.Close()
	inFiles, err := w.lateLabels(late, files, 64<<20)
	if err != nil {
		return 0, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a, b := begin(c.Window), begin(c.Window)
	for i := range late + windows {
		x, y := inMemory.next(), inFiles.next()
		if i < late { // no labels yet
			inMemory.step(x)
			inFiles.step(y)
			continue
		}
		a.runCPU(func() { inMemory.step(x) })
		b.runCPU(func() { inFiles.step(y) })
	}
	if x, y := inMemory.e, inFiles.e; x.Chain() != y.Chain() || y.Err() != nil {
		return 0, fmt.Errorf("with files the chain is %x, and without %x (error %w)", y.Chain(), x.Chain(), y.Err())
	}
	return b.mean() / a.mean(), nil
}

// mean returns the mean time of an arrival. It counts windows that wrote a file, which the
// median leaves out.
func (s *samples) mean() (nanoseconds float64) {
	for _, x := range s.times {
		nanoseconds += x / float64(len(s.times))
	}
	return nanoseconds
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
	e, err := pipeline.New(m, pipeline.Config{MaxPending: pipeline.MostPending, Blocks: files, PendingMemory: memory})
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

// crowd lets very many predictions wait, of nodes that are as small as they can be, so that
// as many as possible fit: 64 dimensions, 7 classes and the default pool. Then labels come
// for random ones of them, whose files the system does not have in its cache: the cost of a
// label includes the disk, and the learning.
func (c Config) crowd(ctx context.Context, dir string) ([]Row, error) {
	n, windows := c.Waiting, 100
	if c.Quick {
		n, windows = min(n, 20_000), 2
	}
	w := Workload{Nodes: n, Degree: 2, Features: 2, Hidden: 2, Classes: 7, Pool: true}.WithDefaults()
	files, err := blocks.Open(dir)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	d, err := w.lateLabels(0, files, min(1<<30, 64*int64(n)))
	if err != nil {
		return nil, err
	}
	began := time.Now()
	for sent := 0; sent < n; sent += w.Window {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		d.step(d.stream.Next(false))
	}
	filling := time.Since(began)
	waiting := float64(d.last.Levels.Pending)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	onDisk, err := sizeOf(dir)
	if err != nil {
		return nil, err
	}

	if err := dropFromCache(dir); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, 4))
	joined := 0
	s := begin(w.Window)
	for range windows {
		labels := &event.Window{Number: d.e.Next()}
		for range w.Window {
			id := event.ID{Num: rng.Int64N(int64(n))}
			labels.Labels = append(labels.Labels, event.Label{Origin: &event.Origin{}, Node: id, Index: rng.Int32N(int32(w.Classes))})
		}
		s.run(func() { d.step(labels) })
		joined += len(d.last.Labelled)
	}
	if joined == 0 {
		return nil, errors.New("no label was joined")
	}
	return []Row{
		figure("pending-waiting", waiting, "predictions"),
		figure("pending-arrival", float64(filling.Nanoseconds())/waiting, "ns an arrival"),
		figure("pending-heap", float64(m.HeapAlloc)/waiting, "bytes of memory a prediction, with its node and graph"),
		figure("pending-files", float64(onDisk)/waiting, "bytes on disk a prediction"),
		atMost("pending-memory", float64(m.Sys)/(1<<30), "GiB", 24),
		figure("pending-label-median", s.cost().nanoseconds/1000, "microseconds a label, median of windows"),
		atMost("pending-label", s.mean()/1000, "microseconds a label", 50),
	}, d.e.Err()
}

// dropFromCache makes the system write the files of a folder and forget them.
func dropFromCache(dir string) error {
	return filepath.WalkDir(dir, func(name string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := file.Sync(); err != nil {
			return err
		}
		return notNeeded(file)
	})
}

// sizeOf returns the total size of the files in a folder.
func sizeOf(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		info, err := f.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}
