package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/charts/metrics"
	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

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
	engine, err := pipeline.NewPair(cfg, models...)
	if err != nil {
		return nil, err
	}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gvbll_info", Help: "Always 1; the labels say which program and which model.",
		ConstLabels: prometheus.Labels{"version": versionString()},
	}, []string{"model", "encoder"})
	reg.MustRegister(info)
	s := &service{
		models: models, info: info, engine: &keeper{Pair: engine}, metrics: metrics.New(reg), stream: worker.NewMetrics(reg),
		page: page.New(page.Config{
			Model: models[0], Settings: engine.Serving().Config().String(), Version: versionString(), Decode: decodeNode, Now: time.Now,
		}),
	}
	s.showModels()
	return s, nil
}

// showModels has page and metrics name the model that serves, if that is another
// than they do.
func (s *service) showModels() {
	serves := s.engine.Serving().Model()
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
	if s.engine.Serving().Pooled() == nil {
		return s.engine.Serving().Config().Update.Lambda
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
	cfg.Classes, cfg.Settings = s.models[0].Classes, s.engine.Serving().Config().String()
	cfg.Fresh = fresh(s.engine.Serving().Config(), s.models...)
	var last *event.Outcome
	recovered := false
	show := func() {
		scores := s.engine.Serving().Summaries()
		s.page.Show(scores)
		s.showModels()
		if shadow := s.engine.Shadow(); shadow != nil {
			scores := shadow.Summaries()
			s.page.ShowShadow(shadow.Model().ID, scores)
			s.metrics.ShowShadow(shadow.Model().ID, scores)
		}
		if last != nil {
			s.metrics.Show(last, scores)
			now, trained := s.engine.Serving().Posterior()
			s.metrics.ShowPosterior(&metrics.Posterior{
				Head: onlineHead, Classes: s.shown.Classes, Now: now, Trained: trained,
				Version: last.Heads[0].Version, Lambda: s.lambda(),
			})
			if p := s.engine.Serving().Pooled(); p != nil {
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
				s.page.Show(s.engine.Serving().Summaries())
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
