package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/charts/metrics"
	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

type workCmd struct {
	Kafka  kafkaFlags   `embed:""`
	Head   headFlags    `embed:""`
	Update updateFlags  `embed:""`
	Serve  serveFlags   `embed:""`
	Again  rescoreFlags `embed:""`

	Watch bool `help:"Look for drift in what is served and in its labels." default:"true" negatable:""`

	Model           string        `help:"Model file, from 'gvbll train'." required:"" type:"path" placeholder:"FILE"`
	Shadow          string        `help:"Another model file, of the same classes and features, that runs beside the first on the same stream, is scored the same way, and can be promoted: 'gvbll promote'. It takes as much time and memory as the first. Which of the two serves, the ledger says." type:"path" placeholder:"FILE"`
	Window          int           `help:"Cut a window after this many nodes (or labels)." default:"500"`
	Linger          time.Duration `help:"Cut a window when its first event has waited this long." default:"100ms"`
	EventTime       time.Duration `help:"Cut windows of so much event time instead of by --window and --linger; 0 for not." default:"0s"`
	Lateness        time.Duration `help:"With --event-time: how much older than one before it in its partition an event may be." default:"10s"`
	IdleTimeout     time.Duration `help:"With --event-time: a partition is not waited for when nothing has come from it for so long." default:"10s"`
	SessionTimeout  time.Duration `help:"Another worker takes over when nothing is heard of the owner for so long; brokers allow 6s and more, unless told otherwise." default:"10s"`
	CommitInterval  time.Duration `help:"How long windows may wait to share a transaction; 0 commits each at once." default:"100ms"`
	CheckpointDir   string        `help:"Folder for checkpoints, from which a start goes on; without one it replays the ledger from its beginning." type:"path" placeholder:"DIR"`
	CheckpointEvery time.Duration `help:"How far apart checkpoints are." default:"5m"`
	CheckpointKeep  int           `help:"How many checkpoints are kept." default:"3"`
	HTTP            string        `help:"Where the live page, the query API, /metrics, /healthz and /readyz are served." default:"${default_http}" placeholder:"${default_http}" name:"http"`
	HTTPConfig      string        `help:"File that switches on TLS and passwords there, in the format of Prometheus' exporters." name:"http-config" placeholder:"FILE"`
	CreateTopics    bool          `help:"Create the topics that are missing." default:"true" negatable:""`
	Partitions      int           `help:"Partitions of the topics that are created." default:"1"`
	Workers         int           `help:"Threads that share the products of a window, with the same results." default:"1"`
	Reserve         int           `help:"Nodes to take the memory of at the start, so that none is taken while they come: some 2 KB each." default:"0"`
	BFloat16        bool          `help:"Keep the graph's rows as bfloat16: two thirds of the memory, embeddings off by some thousandths." name:"bfloat16"`
	Compression     string        `help:"Compression of what is produced: none, gzip, snappy, lz4 or zstd." enum:"none,gzip,snappy,lz4,zstd" default:"none" placeholder:"none"`
}

// headFlags say what serves.
type headFlags struct {
	Head string `help:"What serves: pool, the model's pool of heads, or paper, the paper's head, with the constants below. The pool, when left out and the model has one." enum:",pool,paper" default:"" placeholder:"NAME"`
}

// updateFlags are the constants of the paper's Proposition 1.
type updateFlags struct {
	Lambda float64 `help:"λ, forgetting: what a batch of labels keeps of the past, 0 to 1." default:"0.99"`
	Eta    float64 `help:"η, step size of the update." default:"1"`
	Beta   float64 `help:"β, strength of the anchor to the training posterior; 0 for none." default:"0"`
	Clip   float64 `help:"δ, the most that a weight moves in one update." default:"0.1"`
	Walk   float64 `help:"q, random walk: what every batch adds to the variance of every weight; 0 for weights that stay." default:"0"`
}

// serveFlags say what is served beside the class, and when the static head serves.
type serveFlags struct {
	Fallback float64 `help:"Serve the model as trained where it is ahead of the one that learns by so many nats of log likelihood, until it no longer is; 0 for never." default:"20"`
	coverageFlags
}

func (f serveFlags) into(c pipeline.Config) (pipeline.Config, error) {
	c.Fallback, c.Coverage = f.Fallback, f.coverage()
	switch {
	case !(f.Fallback >= 0):
		return c, usagef("--fallback %v: give a number of nats such as 20, or 0 for never", f.Fallback)
	case f.Fallback == 0:
		c.Fallback = -1
	}
	c, err := c.WithDefaults()
	if err != nil {
		err = usageError{err}
	}
	return c, err
}

func (f updateFlags) config() (pipeline.Config, error) {
	u := posterior.DefaultConfig()
	u.Lambda, u.Eta, u.Beta, u.Clip, u.Walk = f.Lambda, f.Eta, f.Beta, f.Clip, f.Walk
	cfg, err := pipeline.Config{Update: u}.WithDefaults()
	if err != nil {
		err = usageError{err}
	}
	return cfg, err
}

// Run works until interrupted; what was stepped is then committed.
func (w workCmd) Run(ctx context.Context) error {
	cfg, err := w.Update.config()
	if err != nil {
		return err
	}
	cfg.Head = w.Head.Head
	if err := w.Again.into(&cfg); err != nil {
		return err
	}
	if cfg, err = w.Serve.into(cfg); err != nil {
		return err
	}
	cfg.Workers, cfg.Reserve, cfg.BFloat16, cfg.Unwatched = w.Workers, w.Reserve, w.BFloat16, !w.Watch
	switch {
	case w.Workers < 1:
		return usagef("--workers %d: give at least 1", w.Workers)
	case w.Reserve < 0 || w.Reserve > math.MaxInt32:
		return usagef("--reserve %d: give a number of nodes, or 0 for none", w.Reserve)
	case w.Window < 1:
		return usagef("--window %d: a window holds at least one event", w.Window)
	case w.Linger < 0:
		return usagef("--linger %v: give a duration such as 100ms, or 0 to cut at every fetch", w.Linger)
	case w.EventTime != 0 && w.EventTime < time.Millisecond:
		return usagef("--event-time %v: give the width of a window, 1ms or more, or 0 to cut by --window and --linger", w.EventTime)
	case w.Lateness < 0:
		return usagef("--lateness %v: give a duration such as 10s, or 0 when events come in order", w.Lateness)
	case w.IdleTimeout < time.Millisecond:
		return usagef("--idle-timeout %v: give a duration such as 10s, 1ms or more", w.IdleTimeout)
	case w.CommitInterval < 0:
		return usagef("--commit-interval %v: give a duration such as 100ms, or 0", w.CommitInterval)
	case w.SessionTimeout < time.Millisecond:
		return usagef("--session-timeout %v: give a duration such as 10s", w.SessionTimeout)
	case w.CheckpointEvery <= 0:
		return usagef("--checkpoint-every %v: give a duration such as 5m", w.CheckpointEvery)
	case w.CheckpointKeep < 1:
		return usagef("--checkpoint-keep %d: keep at least one", w.CheckpointKeep)
	case w.Partitions < 1:
		return usagef("--partitions %d: a topic has at least one", w.Partitions)
	}
	models, err := openModels(w.Model, w.Shadow)
	if err != nil {
		return err
	}
	reg := newRegistry()
	s, err := newService(cfg, reg, models...)
	if err != nil {
		return err
	}
	if s.web, err = listenHTTP(w.HTTP, w.HTTPConfig, reg, s.page); err != nil {
		return err
	}
	client, names, err := w.Kafka.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if w.CreateTopics {
		if _, err := topics.Create(ctx, client, names, w.Partitions, -1); err != nil {
			return err
		}
	}
	slog.Info("working", "model", models[0].ID, "shadow", shadowOf(models), "classes", len(models[0].Classes), "head", s.engine.Summaries()[0].Head, "topics", names.Nodes, "http", s.web.url())
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- s.web.serve(ctx) }()
	err = s.run(ctx, client, worker.Config{
		Names: names, CommitInterval: w.CommitInterval, Compression: w.Compression,
		Policy: w.policy(), Session: w.SessionTimeout,
		Checkpoints: worker.Checkpoints{Dir: w.CheckpointDir, Every: w.CheckpointEvery, Keep: w.CheckpointKeep, Restore: restorer(cfg, models...)},
	})
	stop()
	if e := <-served; err == nil {
		err = e
	}
	if err == nil {
		slog.Info("ended, everything is committed")
	}
	return err
}

// policy says where windows are cut.
func (w workCmd) policy() intake.Policy {
	if w.EventTime > 0 {
		return intake.EventTime{Width: w.EventTime, Lateness: w.Lateness, Idle: w.IdleTimeout}
	}
	return intake.CountOrLinger{Count: w.Window, Linger: w.Linger}
}

// openModels reads the model file and, unless its name is empty, the shadow's.
func openModels(file, shadow string) ([]*model.Model, error) {
	m, err := model.Open(file)
	if err != nil || shadow == "" {
		return []*model.Model{m}, err
	}
	other, err := model.Open(shadow)
	return []*model.Model{m, other}, err
}

// shadowOf returns the id of the model that is given for the shadow, "" for none.
func shadowOf(models []*model.Model) string {
	if len(models) < 2 {
		return ""
	}
	return models[1].ID
}

// service is an engine with its metrics and its page, ready to be driven by a
// worker.
type service struct {
	models  []*model.Model // as they were given
	shown   *model.Model   // the one that serves, as page and metrics have it
	info    *prometheus.GaugeVec
	engine  *keeper
	metrics *metrics.Metrics
	stream  *worker.Metrics
	page    *page.Server
	web     *httpServer
	hooks   []worker.Hooks // beside these
}

func newService(cfg pipeline.Config, reg prometheus.Registerer, models ...*model.Model) (*service, error) {
	engine, err := pipeline.NewTandem(cfg, models...)
	if err != nil {
		return nil, err
	}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gvbll_info", Help: "Always 1; the labels say which program and which model.",
		ConstLabels: prometheus.Labels{"version": versionString()},
	}, []string{"model", "encoder"})
	reg.MustRegister(info)
	s := &service{
		models: models, info: info, engine: &keeper{Tandem: engine}, metrics: metrics.New(reg), stream: worker.NewMetrics(reg),
		page: page.New(page.Config{
			Model: models[0], Settings: engine.Config().String(), Version: versionString(), Decode: decodeNode, Now: time.Now,
		}),
	}
	s.showModels()
	return s, nil
}

// showModels has page and metrics name the model that serves, if that is another
// than they do.
func (s *service) showModels() {
	serves := s.engine.Model()
	if serves == s.shown {
		return
	}
	s.shown = serves
	s.info.Reset()
	s.info.WithLabelValues(serves.ID, string(serves.Meta.Encoder)).Set(1)
	var behind *model.Model
	for _, m := range s.models {
		if m != serves {
			behind = m
		}
	}
	s.metrics.ShowModels(serves, behind)
	s.page.Serves(serves)
}

// onlineHead is the head whose posterior is shown: what serves, or the first of
// its kind in the pool.
const onlineHead = "online"

// lambda is what that head keeps of the past.
func (s *service) lambda() float64 {
	if s.engine.Pooled() == nil {
		return s.engine.Config().Update.Lambda
	}
	for _, h := range s.shown.Pool.Heads {
		if h.Online != nil {
			return h.Online.Lambda
		}
	}
	return 1
}

// decodeNode reads a node event in JSON, as the nodes topic has it.
func decodeNode(body []byte) (n *event.Node, reason event.Reason, detail string) {
	n = &event.Node{}
	o := &event.Origin{Value: body, Headers: []event.Header{{Key: wire.ContentType, Value: []byte(wire.JSON)}}}
	reason, detail = (&wire.Decoder{}).Node(o, n)
	if reason == "" && n.Departed {
		return n, event.BadFeatures, "a node that leaves is not predicted"
	}
	return n, reason, detail
}

// run drives the engine until the context ends. cfg brings what depends on the
// occasion: names, policy, intervals.
func (s *service) run(ctx context.Context, c *kafka.Client, cfg worker.Config) error {
	cfg.Model, cfg.Shadow = s.models[0].ID, shadowOf(s.models)
	cfg.Classes, cfg.Settings = s.models[0].Classes, s.engine.Config().String()
	cfg.Fresh = fresh(s.engine.Config(), s.models...)
	var last *event.Outcome
	recovered := false
	show := func() {
		scores := s.engine.Summaries()
		s.page.Show(scores)
		s.showModels()
		if shadow := s.engine.Shadow(); shadow != nil {
			scores := shadow.Summaries()
			s.page.ShowShadow(shadow.Model().ID, scores)
			s.metrics.ShowShadow(shadow.Model().ID, scores)
		}
		if last != nil {
			s.metrics.Show(last, scores)
			now, trained := s.engine.Posterior()
			s.metrics.ShowPosterior(&metrics.Posterior{
				Head: onlineHead, Classes: s.shown.Classes, Now: now, Trained: trained,
				Version: last.Heads[0].Version, Lambda: s.lambda(),
			})
			if p := s.engine.Pooled(); p != nil {
				s.metrics.ShowPool(p, s.shown.Classes)
			}
		}
	}
	own := worker.Hooks{
		Recovered: func(r worker.Recovered) {
			s.engine, recovered = r.Engine.(*keeper), true
			show()
			s.page.Attach(s.engine.ask)
			if s.web != nil {
				s.web.ready.Store(true)
			}
		},
		TookOver: func(worker.TookOver) {
			s.showModels()
			s.page.Owns()
		},
		Stepped: func(w worker.Stepped) {
			last = w.Outcome
			s.showModels()
			s.page.Stepped(page.Window{Outcome: w.Outcome, Cause: w.Cause, Replayed: w.Replayed, Took: w.Took, At: time.Now()})
			switch {
			case !w.Replayed:
				s.metrics.Observe(w.Outcome)
			case recovered: // standing by: there will be no commit of its own
				s.page.Show(s.engine.Summaries())
			}
		},
		Committed: func(worker.Committed) {
			show()
			s.page.Committed(time.Now())
		},
		Lag: s.page.Lag,
		Forgot: func(f worker.Forgotten) {
			s.engine = f.Engine.(*keeper)
			if recovered {
				s.page.Attach(s.engine.ask)
			}
		},
	}
	cfg.Hooks = worker.Join(append([]worker.Hooks{s.stream.Hooks(), own}, s.hooks...)...)
	if err := worker.Run(ctx, c, s.engine, cfg); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}
