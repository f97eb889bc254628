package service

import (
	"encoding/json"
	"os"
	"time"

	"github.com/gvbll/gvbll/charts/metrics"
	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/prometheus/client_golang/prometheus"
)

// Board is what people and other workers see of a worker: its page, its metrics and its address.
type Board struct {
	Page    *page.Server
	Metrics *metrics.Metrics
	Stream  *worker.Metrics
	info    *prometheus.GaugeVec
	Web     *Web
	models  []*model.Model // the one to serve, and perhaps a shadow
	version string         // of the program

	named *model.Model // the model that page and metrics show as the one that serves
	shown time.Time    // when scores were shown last
}

// NewBoard returns the board of a worker, whose server has its page from then on.
func NewBoard(set Setup) *Board {
	web, version := set.Web, set.Process.Version
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gvbll_info", Help: "Always 1; the labels say which program and which model.",
		ConstLabels: prometheus.Labels{"version": version},
	}, []string{"model", "encoder"})
	web.Registry.MustRegister(info)
	b := &Board{
		Metrics: metrics.New(web.Registry), Stream: worker.NewMetrics(web.Registry), info: info, Web: web, models: set.Models, version: version,
		Page: page.New(page.Config{
			Graph: set.Graph, Model: set.Models[0], Settings: set.Config.Settings(), Version: version, Flags: set.InForce,
			Decode: decodeNode, Now: time.Now,
		}),
	}
	web.show(b.Page)
	b.serves(set.Models[0])
	return b
}

// About returns what the worker says of itself to the others.
func (b *Board) About() string {
	m := look.Member{Version: b.version, Model: b.models[0].ID, Shadow: shadowOf(b.models), HTTP: b.Web.URL()}
	m.Host, _ = os.Hostname() // without one, the broker knows the address
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings only
	}
	return string(text)
}

// Watch shows what the client waits for, in metrics, on pages and to the probe of readiness. unready says in
// one line why the worker cannot do its work now, given the trouble with Kafka; "" is none.
func (b *Board) Watch(c *kafka.Client, unready func(trouble string) string) {
	b.Stream.Watch(c)
	b.Page.Watch(c.Trouble)
	b.Web.state.Store(&state{
		unready: func() string {
			what := c.Trouble()
			if what != "" {
				what = "waiting for Kafka: " + what
			}
			return unready(what)
		},
		throttled: func() bool {
			_, now := c.Throttled()
			return now
		},
	})
}

// showEvery is the least time between scores that are shown after windows. What the pool has
// learned is known only when its thread is done: shown after every window, it would not run
// beside them.
const showEvery = 100 * time.Millisecond

// Due reports whether scores are shown after this window, and takes note that they are.
func (b *Board) Due() bool {
	if time.Since(b.shown) < showEvery {
		return false
	}
	b.shown = time.Now()
	return true
}

// scorer is what has scores and a posterior: an engine, or what learns in its place.
type scorer interface {
	Summaries() []pipeline.Summary
	Pooled() *pipeline.Pooled
	Posterior() (now, trained *posterior.Gaussian)
}

// Show updates page and metrics after a window, nil before the first.
func (b *Board) Show(out *event.Outcome, of scorer) {
	scores, learned := of.Summaries(), of.Pooled()
	b.Page.Show(scores, learned)
	if out == nil {
		return
	}
	b.Metrics.Show(out, scores)
	now, trained := of.Posterior()
	b.Metrics.ShowPosterior(onlineHead, now, trained)
	if learned != nil {
		b.Metrics.ShowPool(learned, b.named.Classes)
	}
}

// serves updates page and metrics if another model serves than they show.
func (b *Board) serves(m *model.Model) {
	if m == b.named {
		return
	}
	b.named = m
	b.info.Reset()
	b.info.WithLabelValues(m.ID, string(m.Meta.Encoder)).Set(1)
	var shadow *model.Model
	for _, other := range b.models {
		if other != m {
			shadow = other
		}
	}
	b.Metrics.ShowModels(m, shadow)
	b.Page.Serves(m)
}

// onlineHead is the head whose posterior is shown: the paper's if it serves, or else
// the first of its kind in the pool.
const onlineHead = "online"

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
	if reason == "" && (n.Departed || n.OnlyEdges() || n.OnlyAsks()) {
		return n, event.BadFeatures, "an event without features has no node to predict"
	}
	return n, reason, detail
}
