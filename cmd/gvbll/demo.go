package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	oklog "github.com/oklog/run"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/sender"
	"github.com/gvbll/gvbll/topics/worker"
)

type demoCmd struct {
	Data  dataFlags  `embed:""`
	Train trainFlags `embed:""`

	Update   updateFlags   `embed:"" group:"Update"`
	Serve    serveFlags    `embed:"" group:"Serving"`
	Security securityFlags `embed:"" group:"Your own Kafka's security"`

	Brokers    []string `help:"Your own Kafka, host:port; an embedded broker when left out." placeholder:"ADDR"`
	Prefix     string   `help:"What the topics' names begin with." default:"gvbll"`
	Dir        string   `help:"Keep the model and the embedded broker's data here: run again to go on after an interruption." type:"path" placeholder:"DIR"`
	LabelDelay int      `help:"Steps by which labels come late; -1 is 2 for the synthetic graph and 0, as in the paper, for --data." default:"-1"`
	Port       int      `help:"Port of the embedded broker on 127.0.0.1; 0 for any." default:"0"`
	HTTP       string   `help:"Where the live page, the query API, /metrics, /healthz and /readyz are served." default:"127.0.0.1:0" placeholder:"127.0.0.1:0" name:"http"`
	HTTPConfig string   `help:"File that switches on TLS and passwords there, in the format of Prometheus' exporters." name:"http-config" placeholder:"FILE"`
	Keep       bool     `help:"Go on serving at the end, until interrupted."`
	JSON       bool     `help:"Print the summary as JSON, and all else to standard error." name:"json"`
}

// Help is shown by gvbll demo --help.
func (demoCmd) Help() string {
	return "A broker, a graph, a model trained before your eyes, the stream served and its labels coming late:\n" +
		"at the end, what the online update was worth against the static model."
}

// Run does the whole job once.
func (d demoCmd) Run(ctx context.Context, s streams) error {
	cfg, err := d.Update.config()
	if err != nil {
		return err
	}
	cfg.Head = d.Train.Head // the model is trained with what serves
	if cfg, err = d.Serve.into(cfg); err != nil {
		return err
	}
	names, err := topics.Under(d.Prefix)
	if err != nil {
		return usageError{err}
	}
	talk := s.out
	if d.JSON {
		talk = s.err
	}
	set, err := d.Data.open()
	if err != nil {
		return err
	}
	delay := d.LabelDelay
	if delay < 0 {
		delay = 2
		if d.Data.Data != "" {
			delay = 0
		}
	}
	fmt.Fprintf(talk, "graph      %s\n", set)
	m, err := d.model(ctx, set, s.err)
	if err != nil {
		return err
	}
	fmt.Fprintf(talk, "model      %s: %s\n", m.ID, describe(m))

	addrs, security := d.Brokers, d.Security
	if len(addrs) == 0 {
		b, err := d.broker()
		if err != nil {
			return err
		}
		defer b.Close()
		addrs, security = []string{b.Addr()}, securityFlags{}
	}
	reach, err := security.config(addrs)
	if err != nil {
		return err
	}
	client, err := kafka.Dial(ctx, reach)
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := topics.Create(ctx, client, names, 1, -1); err != nil {
		return err
	}
	reg := newRegistry()
	svc, err := newService(cfg, reg, m)
	if err != nil {
		return err
	}
	web, err := listenHTTP(d.HTTP, d.HTTPConfig, reg, svc.page)
	if err != nil {
		return err
	}
	svc.web = web
	fmt.Fprintf(talk, "broker     %s\nlive page  %s, metrics at /metrics\n", strings.Join(addrs, ","), web.url())
	fmt.Fprintf(talk, "consume    %s tail --brokers %s --prefix %s\n\n", program(), strings.Join(addrs, ","), d.Prefix)

	stream := set.stream()
	show := &demoShow{w: talk, screen: newScreen(talk), model: m.ID, engine: svc.engine.Engine, total: len(stream.Steps), windows: demoWindows(stream, delay), done: make(chan struct{})}
	svc.hooks = []worker.Hooks{{Stepped: show.stepped, Committed: show.committed, Recovered: show.recovered}}
	policy := intake.Schedule{Windows: show.windows}
	if d.Keep {
		policy.Then = intake.CountOrLinger{Count: 500, Linger: 100 * time.Millisecond}
	}

	var group oklog.Group
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	interrupt := func(error) { stop() }
	group.Add(func() error { return web.serve(ctx) }, interrupt)
	group.Add(func() error {
		// What a worker says as it goes would stand in the middle of the table.
		log := slog.Default()
		if !log.Enabled(ctx, slog.LevelDebug) {
			log = slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
		}
		return svc.run(ctx, client, worker.Config{Names: names, Policy: policy, Logger: log})
	}, interrupt)
	group.Add(func() error {
		if err := sender.Run(ctx, client, stream, sender.Config{Names: names, Labels: sender.Predicted, Delay: delay, Rate: d.Data.Rate, Resume: true}); err != nil {
			return err
		}
		select {
		case <-show.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := d.summary(ctx, s.out, talk, client, names, show, set); err != nil || !d.Keep {
			return err
		}
		fmt.Fprintln(talk, "\nserving on; Ctrl-C ends")
		<-ctx.Done()
		return nil
	}, interrupt)
	return group.Run()
}

// program is how this program was started, so that a command line that is shown
// can be copied.
func program() string {
	if exe, err := os.Executable(); err == nil && strings.Contains(exe, "go-build") {
		return "go run ./cmd/gvbll"
	}
	return "gvbll"
}

func (d demoCmd) broker() (*broker.Broker, error) {
	cfg := broker.Config{Port: d.Port}
	if d.Dir != "" {
		cfg.Dir = filepath.Join(d.Dir, "broker")
	}
	return broker.Start(cfg)
}

// model trains, or takes what an earlier run in the same directory trained.
func (d demoCmd) model(ctx context.Context, set *dataSet, w io.Writer) (*model.Model, error) {
	if d.Dir == "" {
		return d.Train.train(ctx, set, w, nil)
	}
	if err := os.MkdirAll(d.Dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(d.Dir, "model.safetensors")
	if m, err := model.Open(path); err == nil {
		if !d.Train.made(m, set) {
			return nil, fmt.Errorf("%s was trained on %s (%s) with other data or flags than these: use another --dir, or remove this one", path, m.Training.DataSet, m.Training.Split)
		}
		return m, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	m, err := d.Train.train(ctx, set, w, nil)
	if err != nil {
		return nil, err
	}
	return m, m.Save(path)
}

// contextWindow bounds the windows of the context, well below what the worker
// holds of an input at once.
const contextWindow = 10_000

// demoWindows are the windows of a stream whose labels come delay steps late:
// the context and its labels, then a step's nodes, and the labels of the step that is due.
func demoWindows(s *sender.Stream, delay int) []intake.Size {
	var w []intake.Size
	for left := len(s.Context); left > 0; left -= contextWindow {
		w = append(w, intake.Size{Nodes: min(left, contextWindow)})
	}
	for left := len(s.Known); left > 0; left -= contextWindow {
		w = append(w, intake.Size{Labels: min(left, contextWindow)})
	}
	for t := range len(s.Steps) + delay {
		if t < len(s.Steps) {
			w = append(w, intake.Size{Nodes: len(s.Steps[t])})
		}
		if past := t - delay; past >= 0 {
			w = append(w, intake.Size{Labels: len(s.Steps[past])})
		}
	}
	return w
}

// demoShow follows the worker and prints how static and online compare.
type demoShow struct {
	w       io.Writer
	screen  *screen // nil where there is no terminal: then lines are printed
	model   string
	engine  *pipeline.Engine
	windows []intake.Size
	total   int // steps
	done    chan struct{}
	once    sync.Once

	arrivals, labels, step int
	posterior, chain       string
	lines                  []string // of the windows that are not committed yet
	scores                 []pipeline.Summary
	pending                int
	nll                    [][]float64 // by head and step
}

const header = "  step   nodes  labels     static acc     NLL     served acc     NLL   pending\n"

func (d *demoShow) stepped(s worker.Stepped) {
	out := s.Outcome
	d.arrivals += out.Counts.Arrivals
	d.labels += len(out.Labelled)
	d.posterior, d.chain = fmt.Sprintf("%x", out.Posterior), fmt.Sprintf("%x", out.Chain)
	d.scores, d.pending = d.engine.Summaries(), out.Levels.Pending
	if len(out.Labelled) == 0 {
		return
	}
	d.step++
	d.note(out)
	if d.screen != nil {
		return
	}
	if every := max(1, d.total/25); s.Replayed || d.step%every != 0 && d.step != d.total {
		return
	}
	served, static := d.scores[0].WindowMeans(), named(d.scores, "static").WindowMeans()
	d.lines = append(d.lines, fmt.Sprintf("%6d %7d %7d %14.4f %7.4f %14.4f %7.4f %9d\n",
		d.step, d.arrivals, d.labels, static.Acc, static.NLL, served.Acc, served.NLL, out.Levels.Pending))
}

// note keeps the step's mean log-likelihoods for the live view.
func (d *demoShow) note(out *event.Outcome) {
	if d.nll == nil {
		d.nll = make([][]float64, len(out.Heads))
	}
	for h := range out.Heads {
		var t calibration.Tally
		for i := range out.Heads[h].Scores {
			t.Add(&out.Heads[h].Scores[i])
		}
		d.nll[h] = append(d.nll[h], t.Means().NLL)
	}
}

// view is the live view: how far the stream is, and how the heads compare.
func (d *demoShow) view() []line {
	share := float64(d.step) / float64(max(d.total, 1))
	lines := []line{
		{fmt.Sprintf("step %d of %d  %s %3.0f%%  %d nodes served, %d labels, %d pending", d.step, d.total, bar(share, 24), 100*share, d.arrivals, d.labels, d.pending), bold},
		{fmt.Sprintf("%-14s %9s %8s %8s %8s  %s", "", "accuracy", "NLL", "ECE", "Brier", "NLL by step"), faint},
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	const room = 40
	for _, steps := range d.nll {
		for _, v := range steps[max(len(steps)-room, 0):] {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	for h := range d.scores {
		s := d.scores[h].WindowMeans()
		curve := ""
		if h < len(d.nll) {
			curve = spark(d.nll[h], lo, hi, room)
		}
		lines = append(lines, line{fmt.Sprintf("%-14s %9.4f %8.4f %8.4f %8.4f  %s", d.scores[h].Head, s.Acc, s.NLL, s.ECE, s.Brier, curve), usual})
	}
	return lines
}

func (d *demoShow) recovered(r worker.Recovered) {
	windows := r.Windows
	if windows > 0 {
		fmt.Fprintf(d.w, "replayed %d windows from the ledger, going on from there\n", windows)
	}
	if d.screen == nil {
		fmt.Fprint(d.w, header)
	}
	d.reached(windows)
}

func (d *demoShow) committed(c worker.Committed) {
	for _, l := range d.lines {
		fmt.Fprint(d.w, l)
	}
	d.lines = d.lines[:0]
	if d.screen != nil && d.scores != nil {
		_ = d.screen.paint(d.view()) // a terminal that is gone is no reason to stop
	}
	d.reached(c.Last + 1)
}

// reached ends the demo when all of its windows are committed.
func (d *demoShow) reached(windows int64) {
	if windows >= int64(len(d.windows)) {
		d.once.Do(func() { close(d.done) })
	}
}

// demoSummary is what --json prints. It holds nothing that depends on time, so
// that a run that was killed and gone on with ends with the same.
type demoSummary struct {
	Data        string     `json:"data"`
	Model       string     `json:"model"`
	Arrivals    int        `json:"arrivals"`
	Predictions int        `json:"predictions"` // committed records in the topic
	Labels      int        `json:"labels"`      // each of which was one update's
	Steps       int        `json:"steps"`
	Head        string     `json:"head"` // that serves
	Served      demoScores `json:"served"`
	Static      demoScores `json:"static"`
	Online      demoScores `json:"online"`
	Posterior   string     `json:"posterior"`
	Chain       string     `json:"chain"`
}

// demoScores are means over steps, as in the paper, and over all labels.
type demoScores struct {
	calibration.Means
	Stream calibration.Means `json:"stream"`
}

func (d demoCmd) summary(ctx context.Context, out, talk io.Writer, c *kafka.Client, names topics.Names, show *demoShow, set *dataSet) error {
	published, distinct, err := published(ctx, c, names.Predictions)
	if err != nil {
		return err
	}
	if !d.Keep && (published != show.arrivals || distinct != published) {
		return fmt.Errorf("%d arrivals and %d predictions of %d nodes: they should be equal", show.arrivals, published, distinct)
	}
	of := func(s *pipeline.Summary) demoScores {
		return demoScores{Means: s.WindowMeans(), Stream: s.LabelMeans()}
	}
	sum := demoSummary{
		Data: set.name(), Model: show.model, Arrivals: show.arrivals, Predictions: published, Labels: show.labels, Steps: show.total,
		Head: show.scores[0].Head, Served: of(&show.scores[0]), Online: of(named(show.scores, "online")), Static: of(named(show.scores, "static")), Posterior: show.posterior, Chain: show.chain,
	}
	if d.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(sum)
	}
	fmt.Fprintf(talk, "\n%d arrivals, %d predictions published, %d labels learned from, each once.\n\n", sum.Arrivals, sum.Predictions, sum.Labels)
	fmt.Fprintf(talk, "mean over steps   accuracy     NLL     ECE   Brier\n")
	rows := []struct {
		name string
		s    calibration.Means
	}{{"static", sum.Static.Means}, {"online", sum.Online.Means}}
	if sum.Head != "online" {
		rows = append(rows, rows[0])
		rows[2].name, rows[2].s = sum.Head, sum.Served.Means
	}
	for _, row := range rows {
		fmt.Fprintf(talk, "  %-14s %10.4f %7.4f %7.4f %7.4f\n", row.name, row.s.Acc, row.s.NLL, row.s.ECE, row.s.Brier)
	}
	fmt.Fprintf(talk, "  %-14s %+10.4f %+7.4f %+7.4f %+7.4f\n", "difference",
		sum.Served.Acc-sum.Static.Acc, sum.Served.NLL-sum.Static.NLL, sum.Served.ECE-sum.Static.ECE, sum.Served.Brier-sum.Static.Brier)
	fmt.Fprintf(talk, "\nLearning online %s: NLL %.3f to %.3f, accuracy %.1f%% to %.1f%%.\n", verdict(sum), sum.Static.NLL, sum.Served.NLL, 100*sum.Static.Acc, 100*sum.Served.Acc)
	return nil
}

// named returns the summary of the head of that name, an empty one of none.
func named(scores []pipeline.Summary, head string) *pipeline.Summary {
	for i := range scores {
		if scores[i].Head == head {
			return &scores[i]
		}
	}
	return &pipeline.Summary{}
}

func verdict(s demoSummary) string {
	if s.Served.NLL < s.Static.NLL {
		return "paid"
	}
	return "did not pay here"
}

// published counts the committed records of a topic, and their keys.
func published(ctx context.Context, c *kafka.Client, topic string) (records, keys int, err error) {
	seen := make(map[string]bool)
	err = c.ReadAll(ctx, topic, func(r *kafka.Record) {
		records++
		seen[string(r.Key)] = true
	})
	return records, len(seen), err
}
