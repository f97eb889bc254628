package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	oklog "github.com/oklog/run"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/cmd/gvbll/service"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/sender"
)

type demoCmd struct {
	Data flags.Data `embed:""`
	Rate float64    `help:"Node events to send a second; 0 for a stream of some 20 seconds." default:"0"`
	Fast bool       `help:"Send the stream as fast as it goes, as with --json."`
	Dir  string     `help:"@demo_dir" type:"path" placeholder:"DIR"`
	Keep bool       `help:"Go on serving after the end of the stream, until interrupted."`
	Exit bool       `help:"@demo_exit"`
	JSON bool       `help:"@demo_json" name:"json"`

	Train  modelFlags   `embed:"" group:"training"`
	Engine flags.Engine `embed:""`

	Brokers []string `help:"@demo_brokers" placeholder:"ADDR" group:"kafka"`
	Prefix  string   `help:"Prefix of the topics' names." default:"gvbll" group:"kafka"`
	Port    int      `help:"Port of the embedded broker on 127.0.0.1; 0 for any free one." default:"0" group:"kafka"`
	HTTP    string   `help:"@demo_http" default:"127.0.0.1:0" placeholder:"127.0.0.1:0" name:"http" group:"http"`
}

var demoHelp = flags.Texts{
	"demo_dir": "Keep model and data in this folder. The same command continues after Ctrl-C or SIGTERM, not after " +
		"SIGKILL.",
	"demo_exit":    "End after the stream, in a terminal too.",
	"demo_json":    "Print the summary as JSON, with the scores of every head.",
	"demo_brokers": "Your own Kafka brokers, host:port, without TLS and passwords; an embedded one when left out.",
	"demo_http":    "Address of the live page, the query API, /metrics, /healthz and /readyz.",
}

// Help is shown by gvbll demo --help.
func (demoCmd) Help() string {
	return "Starts a broker, makes a graph that drifts, trains a model, and serves the stream while its labels come late. " +
		"'gvbll train', 'work' and 'send' do the same one by one, with more flags."
}

func (d demoCmd) check(g flags.Given) error {
	if err := errors.Join(checkRate(d.Rate), d.Train.check(), d.Data.Check(g), d.Engine.Check(g, d.Train.Head)); err != nil {
		return err
	}
	if d.Port < 0 || d.Port > math.MaxUint16 {
		return flags.Usagef("--port %d: give one up to %d, or 0 for any free port", d.Port, math.MaxUint16)
	}
	return g.Check(
		flags.NoEffect(len(d.Brokers) > 0, "no effect on --brokers, your own Kafka: leave out one of them", "port"),
		flags.NoEffect(d.Rate > 0, "no effect on --rate: leave out one of them", "fast"),
		flags.NoEffect(d.Keep, "no effect on --keep: leave out one of them", "exit"),
	)
}

// delay returns the number of steps between a node and its label, besides the times of labels: 2 on the synthetic graph unless given.
func (d demoCmd) delay() int {
	if d.Data.Data == "" && !d.Data.LabelDelay.Given() {
		return 2
	}
	return d.Data.LabelDelay.Steps
}

// usualLength is how long a stream takes that is to be watched.
const usualLength = 20 * time.Second

// rate returns the node events a second of a stream of so many, 0 for no limit.
func (d demoCmd) rate(nodes int) float64 {
	switch {
	case d.Rate > 0:
		return d.Rate
	case d.Fast || d.JSON:
		return 0
	}
	return float64(nodes) / usualLength.Seconds()
}

// Run runs the demo.
func (d demoCmd) Run(ctx context.Context, p flags.Process, k *kong.Context, g flags.Given) error {
	if err := d.check(g); err != nil {
		return err
	}
	cfg, err := d.Engine.Settings(d.Train.Head) // it serves with the head that the model is trained for
	if err == nil {
		cfg, err = flags.ValidSettings(cfg)
	}
	if err != nil {
		return err
	}
	names, err := topics.Under(d.Prefix)
	if err != nil {
		return flags.Usagef("%w", err)
	}
	text := p.Out // for people; --json keeps it away from the summary
	if d.JSON {
		text = p.Err
	}
	set, err := d.Data.Open()
	if err != nil {
		return err
	}
	d.open(text, set)
	stream := set.Stream()
	steps := scored(stream, d.delay())
	if steps == 0 {
		return fmt.Errorf("%s: no node of the stream has a label, so there is nothing to score: train on fewer "+
			"nodes (--train-share)", set.Name)
	}
	web, err := service.Listen(p, d.HTTP, "")
	if err != nil {
		return err
	}
	defer web.Close()
	addrs := d.Brokers
	if len(addrs) == 0 {
		b, err := d.broker(p)
		if err != nil {
			return err
		}
		defer b.Close()
		addrs = []string{b.Addr()}
	}
	connection, err := flags.Security{}.Config(addrs, p)
	if err != nil {
		return err
	}
	client, err := kafka.Dial(ctx, connection)
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := topics.Create(ctx, client, names, topics.Layout{Partitions: 1, Replication: -1}); err != nil {
		return err
	}
	if whole, err := topics.Divided(ctx, client, names); err != nil || whole.Cells > 0 {
		return cmp.Or(err, flags.Usagef("--prefix %s: its graph has %d cells, and a demo is of one: give another", d.Prefix, whole.Cells))
	}
	m, err := d.model(ctx, set, p.Err)
	if err != nil {
		return err
	}
	svc, err := service.New(ctx, client, service.Setup{
		Process: p, Graph: d.Prefix, InForce: flags.InForce(k, g), Web: web, Names: names, Config: cfg, Models: []*model.Model{m},
	})
	if err != nil {
		return err
	}
	defer svc.Close()
	prefix := ""
	if d.Prefix != "gvbll" {
		prefix = " --prefix " + d.Prefix
	}
	fmt.Fprintf(text, "live page  %s\nfollow it  %s tail --brokers %s%s\n\n", web.URL(), ownName(), strings.Join(addrs, ","), prefix)

	show := newDemoShow(text, look.NewScreen(text, p), svc.Engine.Serving(), m.ID, demoWindows(stream, d.delay()), steps)
	svc.Events = []func(replay.Event){replay.On(show.stepped), replay.On(show.committed), replay.On(show.recovered)}
	svc.Board.Page.Past().Expect(int64(len(stream.Context) + sender.Labelled(stream.Due(0)[0])))
	policy := intake.Schedule{Windows: show.windows}
	stays := d.Keep || !d.Exit && !d.JSON && flags.IsTerminal(p.Out)
	if stays {
		policy.Then = intake.CountOrLinger{Count: 500, Linger: 100 * time.Millisecond}
	}

	var group oklog.Group
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	interrupt := func(error) { stop() }
	group.Add(func() error { return web.Serve(ctx) }, interrupt)
	group.Add(func() error {
		log := p.Log
		if !log.Enabled(ctx, slog.LevelDebug) { // the worker's log would hide the demo
			level := slog.LevelError
			if len(d.Brokers) > 0 { // of which it may warn
				level = slog.LevelWarn
			}
			log = slog.New(slog.NewTextHandler(show.beside(p.Err), &slog.HandlerOptions{Level: level}))
		}
		work := svc.Terms()
		work.Policy, work.Logger, work.Terms.Remedy = policy, log, "give another --prefix"
		return svc.Run(ctx, client, work)
	}, interrupt)
	shown := false
	group.Add(func() error {
		config := sender.Config{
			Names: names, Labels: sender.Predicted, Delay: d.delay(),
			Rate: d.rate(stream.Events() - len(stream.Context)), ContextAtOnce: true, Resume: true,
		}
		if err := sender.Run(ctx, client, stream, config); err != nil {
			return err
		}
		select {
		case <-show.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := d.summary(ctx, p.Out, client, names, show, set); err != nil {
			return err
		}
		shown = true
		switch {
		case d.Keep:
			fmt.Fprintln(text, "Serving until interrupted (Ctrl-C).")
			<-ctx.Done()
		case stays:
			fmt.Fprintf(text, "The page stays at %s until Enter or Ctrl-C.\n", web.URL())
			awaitReader(ctx, p, web)
			if ctx.Err() != nil {
				fmt.Fprintln(text) // after ^C
			}
		}
		return nil
	}, interrupt)
	if err := group.Run(); !shown || !errors.Is(err, context.Canceled) {
		return flags.WithDisk(d.Dir, err)
	}
	return nil
}

// open says what is going on.
func (d demoCmd) open(w io.Writer, set *flags.DataSet) {
	changes, label, streamed := "", "right after it", 0
	if d.Data.Data == "" && d.Data.Drift != "none" {
		changes = ", and what is true of it changes"
	}
	if n := d.delay(); set.LabelTime != nil {
		label = "at its own time" + notDue(set)
	} else if n == 1 {
		label = "a step later"
	} else if n > 1 {
		label = fmt.Sprintf("%d steps later", n)
	}
	for _, step := range set.Split.Steps {
		streamed += len(step)
	}
	fmt.Fprintf(w, "A graph grows node by node through Kafka%s.\nEach node is classified as it arrives; its true "+
		"class comes %s.\n\n", changes, label)
	fmt.Fprintf(w, "graph      %s: %s nodes of %d classes; %s train, %s arrive\n",
		set.Name, look.Grouped(len(set.Features)), len(set.Classes), look.Grouped(len(set.Split.Train)), look.Grouped(streamed))
}

// patience is how long the page stays while nobody has it open.
const patience = 10 * time.Minute

// awaitReader returns when Enter is pressed, when the context ends, or when nobody has asked for the
// page for a while.
func awaitReader(ctx context.Context, p flags.Process, web *service.Web) {
	entered := typed(p)
	for since := time.Now(); ; {
		left := patience - min(time.Since(since), web.Quiet())
		if left <= 0 {
			return
		}
		select {
		case <-entered:
			return
		case <-ctx.Done():
			return
		case <-time.After(left):
		}
	}
}

// typed returns a channel that has the next line that somebody types, or nil where nobody can.
func typed(p flags.Process) <-chan string {
	in, ok := p.In.(*os.File)
	if !ok || !flags.IsTerminal(in) {
		return nil
	}
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(in).ReadString('\n')
		line <- strings.TrimSpace(text)
	}()
	return line
}

// ownName returns the command that started this program, for command lines to copy.
func ownName() string {
	if exe, err := os.Executable(); err == nil && strings.Contains(exe, "go-build") {
		return "go run ./cmd/gvbll"
	}
	return "gvbll"
}

func (d demoCmd) broker(p flags.Process) (*broker.Broker, error) {
	cfg := broker.Config{Port: d.Port, Listen: p.Listen}
	if d.Dir != "" {
		cfg.Dir = filepath.Join(d.Dir, "broker")
	}
	return broker.Start(cfg)
}

// model trains a model, or reads the one that an earlier run left in the folder.
func (d demoCmd) model(ctx context.Context, set *flags.DataSet, w io.Writer) (*model.Model, error) {
	flags, err := defaultTraining() // of the flags that only gvbll train has
	if err != nil {
		return nil, err
	}
	flags.modelFlags = d.Train
	show := flags.progress(w, false)
	if d.Dir == "" {
		return flags.train(ctx, set, show, nil)
	}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(d.Dir, "model.safetensors")
	m, err := model.Open(path)
	switch {
	case err == nil && !flags.trained(m, set):
		return nil, fmt.Errorf("%s was trained on %s (%s) with other data or flags than these: use another --dir, "+
			"or remove this one", path, m.Training.DataSet, m.Training.Split)
	case err == nil || !errors.Is(err, os.ErrNotExist):
		return m, err
	}
	if m, err = flags.train(ctx, set, show, nil); err != nil {
		return nil, err
	}
	return m, m.Save(path)
}

// scored returns the number of windows that have labels of the stream, which come so many steps late.
func scored(s *sender.Stream, delay int) (windows int) {
	for _, due := range s.Due(delay)[1:] {
		if slices.ContainsFunc(due, func(i sender.Item) bool { return i.Class != "" && !i.Node.Context }) {
			windows++
		}
	}
	return windows
}

// contextWindow bounds the size of a window of context. It is well below the number of
// records that the worker holds of an input.
const contextWindow = 10_000

// demoWindows returns the windows of a stream whose labels come delay steps late: the
// context and its labels, then in turn a step's nodes and the labels that are due.
func demoWindows(s *sender.Stream, delay int) []intake.Size {
	var w []intake.Size
	for left := len(s.Context); left > 0; left -= contextWindow {
		w = append(w, intake.Size{Nodes: min(left, contextWindow)})
	}
	due := s.Due(delay)
	for left := sender.Labelled(due[0]); left > 0; left -= contextWindow {
		w = append(w, intake.Size{Labels: min(left, contextWindow)})
	}
	for t, labels := range due[1:] {
		if t < len(s.Steps) {
			w = append(w, intake.Size{Nodes: len(s.Steps[t])})
		}
		if n := sender.Labelled(labels); n > 0 {
			w = append(w, intake.Size{Labels: n})
		}
	}
	return w
}
