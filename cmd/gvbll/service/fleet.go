package service

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/charts/metrics"
	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// fleet is a worker of a graph of several cells: a service for each of those that it has, with one model, one client and one
// server.
type fleet struct {
	set       Setup
	client    *kafka.Client
	configure func(*worker.Config) // beyond what follows from the set-up

	mu   sync.Mutex
	list map[int32]*fleetCell
}

// fleetCell is a cell that runs.
type fleetCell struct {
	web     *Web
	handler http.Handler

	mu    sync.Mutex
	line  page.Cell
	lag   map[string]int64 // by topic
	doing doing
}

// NewFleet returns the worker of a graph of several cells, and serves its pages and metrics from then on. configure completes the
// configuration of each cell's worker.
func NewFleet(c *kafka.Client, set Setup, configure func(*worker.Config)) *fleet {
	f := &fleet{set: set, client: c, configure: configure, list: make(map[int32]*fleetCell)}
	worker.WatchClient(set.Web.Registry, c)
	metrics.RegisterCells(set.Web.Registry, f.doings)
	cells := prometheus.GathererFunc(f.gather)
	set.Web.cells.Store(&cells)
	set.Web.show(f.pages())
	set.Web.watch(c, f.unready)
	set.Web.Ready.Store(true) // unready says what is not
	return f
}

// Run runs the cells that the group gives to this worker, until the context ends. noStandbys is as in [kafka.MembershipConfig].
func (f *fleet) Run(ctx context.Context, session time.Duration, noStandbys bool) error {
	err := worker.RunFleet(ctx, f.client, worker.Fleet{
		Names: f.set.Names, Session: session, NoStandbys: noStandbys, About: about(f.set.Process.Version, f.set.Web, f.set.Models),
		Logger: f.set.Process.Log, Run: f.run,
	})
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// run runs the worker of a cell.
func (f *fleet) run(ctx context.Context, c *kafka.Client, names topics.Names, at *worker.Place) error {
	set, path := f.set, "/cells/"+strconv.Itoa(int(names.Cell))
	set.Names, set.Web, set.Graph = names, f.set.Web.newPart(path+"/"), fmt.Sprintf("%s, cell %d", set.Graph, names.Cell)
	set.Process.Log = set.Process.Log.With("cell", names.Cell)
	s, err := New(ctx, c, set)
	if err != nil {
		return err
	}
	defer s.Close()
	cfg := s.Terms()
	f.configure(&cfg)
	x := &fleetCell{
		web: set.Web, handler: http.StripPrefix(path, set.Web.handler), line: page.Cell{Number: names.Cell},
		lag: make(map[string]int64), doing: doing{told: s.Engine.Serving().Config().LabelRates != ""},
	}
	s.Events = append(s.Events, x.on)
	f.mu.Lock()
	f.list[names.Cell] = x
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.list[names.Cell] == x {
			delete(f.list, names.Cell)
		}
	}()
	return s.run(ctx, c, cfg, func(cfg worker.Config) error {
		scores := cfg.Models.Scores
		cfg.Models.Scores = func(out *event.Outcome) *ledger.Scores {
			of := scores(out)
			x.mu.Lock()
			defer x.mu.Unlock()
			x.doing.score(time.Now(), of)
			return of
		}
		return worker.RunAt(ctx, c, s.Engine, cfg, at)
	})
}

// on notes what happens in the worker of the cell.
func (x *fleetCell) on(e replay.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	switch e := e.(type) {
	case replay.Recovered:
		x.line.Windows = e.Windows
	case replay.TookOver:
		x.line.Owner = true
	case replay.Stepped:
		x.line.Windows, x.line.Nodes = e.Outcome.Window+1, e.Outcome.Figures.Int(event.GraphNodes)
		if e.Outcome.Figures.Int(event.LabelsJoined) > 0 {
			x.line.LastLabel = &now
		}
		x.doing.step(now, e.Outcome, e.Took)
	case replay.Committed:
		x.line.Committed = &now
	case replay.Lag:
		x.lag[e.Topic] = e.Records
		x.line.Waiting = 0
		for _, n := range x.lag {
			x.line.Waiting += n
		}
	}
}

// lines returns what there is to say of each cell, by number.
func (f *fleet) lines() (list []page.Cell) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.list {
		x.mu.Lock()
		list = append(list, x.line)
		x.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b page.Cell) int { return int(a.Number - b.Number) })
	return list
}

// doings returns how each cell is doing.
func (f *fleet) doings(now time.Time) (list []metrics.Cell) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.list {
		x.mu.Lock()
		list = append(list, metrics.Cell{
			Number: x.line.Number, Owner: x.line.Owner, Nodes: x.line.Nodes, LastLabel: x.line.LastLabel,
			Lag: float64(x.line.Waiting) * x.doing.perEvent, Points: x.doing.points(now),
		})
		x.mu.Unlock()
	}
	return list
}

// unready says which cell has not replayed its ledger, "" if all have.
func (f *fleet) unready() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for number, x := range f.list {
		if what := x.web.unready(); what != "" {
			return fmt.Sprintf("cell %d: %s", number, what)
		}
	}
	if len(f.list) == 0 {
		return "no cells yet"
	}
	return ""
}

// pages serves a table of the cells, and the pages and the API of each under cells/NUMBER/. Of a cell that another worker has it says so.
func (f *fleet) pages() http.Handler {
	table := page.Cells(f.set.Graph, f.lines)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, of := strings.CutPrefix(r.URL.Path, "/cells/")
		text, _, inside := strings.Cut(rest, "/")
		number, err := strconv.ParseInt(text, 10, 32)
		f.mu.Lock()
		x := f.list[int32(number)]
		f.mu.Unlock()
		switch {
		case x != nil && of && inside && err == nil:
			x.handler.ServeHTTP(w, r)
		case of && inside && err == nil && 0 <= number && int(number) < f.set.Names.Cells:
			page.Elsewhere(w, f.elsewhere(r.Context(), int32(number)))
		default:
			table.ServeHTTP(w, r)
		}
	})
}

// elsewhere says who has a cell that this worker does not have.
func (f *fleet) elsewhere(ctx context.Context, number int32) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	members, err := look.MembersOf(ctx, f.client, f.set.Names.Of(number))
	switch {
	case err != nil:
		return fmt.Sprintf("this worker does not have cell %d, and brokers do not say in time who owns it: try again", number)
	case len(members) == 0 || !members[0].Owner:
		return fmt.Sprintf("cell %d has no owner at present: try again", number)
	}
	return fmt.Sprintf("this worker does not have cell %d, but %s owns it: call that", number, members[0].Where())
}
