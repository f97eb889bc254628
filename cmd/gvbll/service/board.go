package service

import (
	"cmp"
	"encoding/json"
	"os"
	"time"

	"github.com/gvbll/gvbll/charts/metrics"
	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/prometheus/client_golang/prometheus"
)

// board is what people and other workers see of a worker: its page, its metrics and its address.
type board struct {
	Page    *page.Server
	Metrics *metrics.Metrics
	Stream  *worker.Metrics
	info    *prometheus.GaugeVec
	web     *Web
	models  []*model.Model // the one to serve, and perhaps a shadow
	version string         // of the program

	named *model.Model // the model that page and metrics show as the one that serves
	shown time.Time    // when scores were shown last
}

// newBoard returns the board of a worker.
func newBoard(set Setup) *board {
	web, version := set.Web, set.Process.Version
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gvbll_info", Help: "Always 1; the labels say which program and which model.",
		ConstLabels: prometheus.Labels{"version": version},
	}, []string{"model", "encoder"})
	web.Registry.MustRegister(info)
	b := &board{
		Metrics: metrics.New(web.Registry), Stream: worker.NewMetrics(web.Registry), info: info, web: web,
		models: set.Models, version: version,
		Page: page.New(page.Config{
			Graph: set.Graph, Model: set.Models[0], Settings: set.Config.Settings(), Version: version, Flags: set.InForce,
			Decode: decodeNode, Now: time.Now,
		}),
	}
	b.Metrics.Watches(set.Config.Watches())
	b.serves(set.Models[0])
	return b
}

// about returns what a worker says of itself to the others.
func about(version string, web *Web, models []*model.Model) string {
	m := look.Member{Version: version, Model: models[0].ID, Shadow: shadowOf(models), HTTP: web.URL()}
	m.Host, _ = os.Hostname() // without one, the broker knows the address
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings only
	}
	return string(text)
}

// watch shows what the client waits for, in metrics, on pages and to the probe of readiness.
func (b *board) watch(c *kafka.Client) {
	b.Stream.Watch(c)
	b.Page.Watch(func() string { return cmp.Or(c.Health.Trouble(), c.Health.Partly()) })
	b.web.watch(c, func() string { return "" })
}

// showEvery is the least time between scores that are shown after windows. What the pool has
// learned is known only when its thread is done: shown after every window, it would not run
// beside them.
const showEvery = 100 * time.Millisecond

// due reports whether scores are shown after this window, and takes note that they are.
func (b *board) due() bool {
	if time.Since(b.shown) < showEvery {
		return false
	}
	b.shown = time.Now()
	return true
}

// show updates page and metrics after a window, nil before the first.
func (b *board) show(out *event.Outcome, of *pipeline.Engine) {
	scores, learned := of.Summaries(), of.Pooled()
	b.Page.Past().Show(scores, learned, of.Cohorts())
	b.Metrics.ShowCohorts(of.Cohorts())
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
func (b *board) serves(m *model.Model) {
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
	b.Page.Past().Serves(m)
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

// decodeNode reads a node event in JSON, as in the nodes topic of a graph without a map, for a what-if query.
func decodeNode(body []byte) (n *event.Node, reason event.Reason, detail string) {
	return decodeBy(&wire.Decoder{}, body)
}

// decodeBy reads a node event in JSON by a decoder.
func decodeBy(by *wire.Decoder, body []byte) (n *event.Node, reason event.Reason, detail string) {
	n = &event.Node{}
	o := &event.Origin{Value: body, Headers: []event.Header{{Key: wire.ContentType, Value: []byte(wire.JSON)}}}
	reason, detail = by.Node(o, n)
	if reason == "" && (n.Departed || n.OnlyEdges() || n.OnlyAsks()) {
		return n, event.BadFeatures, "an event without features has no node to predict"
	}
	return n, reason, detail
}
