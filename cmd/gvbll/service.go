package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/charts/metrics"
	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// service is an engine with its metrics and its page, for a worker to drive. The
// worker's hooks update both.
type service struct {
	log     *slog.Logger
	version string         // of the program
	models  []*model.Model // as given: the one to serve, and perhaps a shadow
	engine  *keeper        // the worker may replace it on recovery and after forgetting
	metrics *metrics.Metrics
	stream  *worker.Metrics
	info    *prometheus.GaugeVec
	page    *page.Server
	web     *httpServer          // nil for none
	events  []func(worker.Event) // called after the service's own

	named     *model.Model   // the model that page and metrics show as the one that serves
	last      *event.Outcome // of the last window, nil before the first
	recovered bool           // the start's replay is over
	shown     time.Time      // when a standby showed its scores last
}

// showEvery is the least time between scores that a standby shows. What the pool has learned is
// known only when its learner is done: shown after every window, it would not run beside them.
const showEvery = 100 * time.Millisecond

// newService returns the service of a graph. The flags are for people to look at.
func newService(p flags.Process, graph string, flags []page.Flag, cfg pipeline.Config, reg prometheus.Registerer, models ...*model.Model) (*service, error) {
	engine, err := pipeline.NewPair(cfg, models...)
	if err != nil {
		return nil, err
	}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gvbll_info", Help: "Always 1; the labels say which program and which model.",
		ConstLabels: prometheus.Labels{"version": p.Version},
	}, []string{"model", "encoder"})
	reg.MustRegister(info)
	s := &service{
		log: p.Log, version: p.Version, models: models, info: info, engine: &keeper{Pair: engine}, metrics: metrics.New(reg), stream: worker.NewMetrics(reg),
		page: page.New(page.Config{
			Graph: graph, Model: models[0], Settings: engine.Serving().Config().Settings(), Version: p.Version, Flags: flags,
			Decode: decodeNode, Explain: wire.Detail, Now: time.Now,
		}),
	}
	s.nameModels()
	return s, nil
}

// change replaces the models before the first window.
func (s *service) change(cfg pipeline.Config, models ...*model.Model) error {
	engine, err := pipeline.NewPair(cfg, models...)
	if err != nil {
		return err
	}
	s.models, s.engine = models, &keeper{Pair: engine}
	s.nameModels()
	return nil
}

// run drives the engine until the context ends. cfg begins as [terms] of the engine's
// settings and models; run adds the hooks.
func (s *service) run(ctx context.Context, c *kafka.Client, cfg worker.Config) error {
	if s.web != nil {
		trouble := func() string { return waitsForKafka(c) }
		s.web.trouble.Store(&trouble)
	}
	cfg.About, cfg.AtRisk = s.about(), s.stream.AtRisk
	settings := s.engine.Serving().Config()
	cfg.Models.Fresh = func() (worker.Engine, error) { return fresh(settings, s.models...)() } // those of now
	cfg.Models.ClassesOf = s.classesOf
	cfg.Models.Scores = func(out *event.Outcome) *ledger.Scores { return ledgerScores(out, s.named.Classes) }
	cfg.Events = worker.Join(append([]func(worker.Event){s.stream.Observe, s.on}, s.events...)...)
	if err := worker.Run(ctx, c, s.engine, cfg); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// waitsForKafka says what of Kafka a client waits for, "" for nothing.
func waitsForKafka(c *kafka.Client) string {
	if what := c.Trouble(); what != "" {
		return "waiting for Kafka: " + what
	}
	return ""
}

// The hooks. The worker calls one at a time.

// on shows what happens in the worker.
func (s *service) on(e worker.Event) {
	switch e := e.(type) {
	case worker.Replaying:
		s.page.Replaying(e.Checkpoint, e.Windows)
	case worker.Recovered:
		s.onRecovered(e)
	case worker.TookOver:
		s.onTookOver()
	case worker.Stepped:
		s.onStepped(e)
	case worker.Committed:
		s.show()
		s.page.Committed(time.Now())
	case worker.Forgotten:
		s.onForgot(e)
	case worker.Loaded:
		s.onLoaded()
	case worker.Lag:
		s.page.Lag(e.Topic, e.Records, e.Withheld)
	}
}

func (s *service) onRecovered(r worker.Recovered) {
	s.engine, s.recovered = r.Engine.(*keeper), true
	s.show()
	s.page.Attach(s.engine.ask)
	if s.web != nil {
		s.web.ready.Store(true)
	}
}

func (s *service) onTookOver() {
	s.nameModels()
	s.page.Owns()
}

func (s *service) onStepped(w worker.Stepped) {
	s.last = w.Outcome
	s.nameModels()
	shadow := ""
	if w.Outcome.Shadow != nil {
		shadow = w.Outcome.Shadow.Model
	}
	s.page.Stepped(page.Window{Outcome: w.Outcome, Cause: w.Cause, Replayed: w.Replayed, Trial: trialOf(w.Trial, shadow), Took: w.Took, At: time.Now()})
	switch {
	case !w.Replayed:
		s.metrics.Observe(w.Outcome)
	case s.recovered && time.Since(s.shown) >= showEvery: // a standby, which never commits, shows its scores here
		s.shown = time.Now()
		s.page.Show(s.engine.Serving().Summaries(), s.engine.Serving().Pooled())
	}
}

func (s *service) onLoaded() {
	s.models = []*model.Model{s.engine.Serving().Model(), s.engine.Shadow().Model()}
	s.named = nil
	s.nameModels()
}

// classesOf returns the classes of one of the models.
func (s *service) classesOf(id string) []string {
	for _, m := range s.models {
		if m.ID == id {
			return m.Classes
		}
	}
	return nil
}

func (s *service) onForgot(f worker.Forgotten) {
	s.engine = f.Engine.(*keeper)
	if s.recovered {
		s.page.Attach(s.engine.ask)
	}
}

// show updates page and metrics from the engine's state.
func (s *service) show() {
	engine := s.engine.Serving()
	scores, learned := engine.Summaries(), engine.Pooled()
	s.page.Show(scores, learned)
	s.nameModels()
	if shadow := s.engine.Shadow(); shadow != nil {
		scores := shadow.Summaries()
		s.page.ShowShadow(shadow.Model().ID, scores)
		s.metrics.ShowShadow(shadow.Model().ID, scores)
	}
	if s.last == nil {
		return
	}
	now, trained := engine.Posterior()
	s.showScores(s.last, scores, learned, now, trained)
}

// showScores updates the metrics of heads after a window.
func (s *service) showScores(out *event.Outcome, scores []pipeline.Summary, learned *pipeline.Pooled, now, trained *posterior.Gaussian) {
	s.metrics.Show(out, scores)
	lambda, full := s.forgetting()
	batches := float64(out.Heads[0].Version)
	if full > 0 {
		batches = min(batches, float64(scores[0].Total().Labels)/full)
	}
	s.metrics.ShowPosterior(&metrics.Posterior{
		Head: onlineHead, Classes: s.named.Classes, Now: now, Trained: trained,
		Batches: batches, Lambda: lambda,
	})
	if learned != nil {
		s.metrics.ShowPool(learned, s.named.Classes)
	}
}

// nameModels updates page and metrics if another model serves than they show.
func (s *service) nameModels() {
	serves := s.engine.Serving().Model()
	if serves == s.named {
		return
	}
	s.named = serves
	s.info.Reset()
	s.info.WithLabelValues(serves.ID, string(serves.Meta.Encoder)).Set(1)
	var shadow *model.Model
	for _, m := range s.models {
		if m != serves {
			shadow = m
		}
	}
	s.metrics.ShowModels(serves, shadow)
	s.page.Serves(serves)
}

// onlineHead is the head whose posterior is shown: the paper's if it serves, or else
// the first of its kind in the pool.
const onlineHead = "online"

// forgetting returns the forgetting factor λ of that head, 1 if the pool has no such
// head, and the number of labels after which it is applied; 0 for every batch.
func (s *service) forgetting() (lambda, full float64) {
	if s.engine.Serving().Pooled() == nil {
		u := s.engine.Serving().Config().Update
		return u.Lambda, u.Batch
	}
	for _, h := range s.named.Pool.Heads {
		if h.Online != nil {
			return h.Online.Lambda, s.named.Pool.Batch
		}
	}
	return 1, s.named.Pool.Batch
}

// trialOf returns a trial as the page and 'gvbll status' show it, nil for none. shadow is the
// id of the model that was in the shadow in the same window, "" for none.
func trialOf(t *ledger.Trial, shadow string) *page.Trial {
	if t == nil {
		return nil
	}
	rule, _ := event.ParseRule(t.Rule) // the ledger's, which was read before
	return &page.Trial{Model: t.Model, Loaded: shadow == t.Model, Labels: t.Labels, Lead: t.Lead, After: rule.After}
}

// shadowOf returns the id of the second model, or "".
func shadowOf(models []*model.Model) string {
	if len(models) < 2 {
		return ""
	}
	return models[1].ID
}

// decodeNode reads a node event in JSON, as in the nodes topic, for a what-if query.
func decodeNode(body []byte) (n *event.Node, reason event.Reason, detail string) {
	n = &event.Node{}
	o := &event.Origin{Value: body, Headers: []event.Header{{Key: wire.ContentType, Value: []byte(wire.JSON)}}}
	reason, detail = (&wire.Decoder{}).Node(o, n)
	if reason == "" && (n.Departed || n.OnlyEdges()) {
		return n, event.BadFeatures, "an event of a departure, or of only edges, has no node to predict"
	}
	return n, reason, detail
}
