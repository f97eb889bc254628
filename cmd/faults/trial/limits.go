package trial

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// throttledFor is how long the fleet is throttled: longer than a log must be short before it is
// believed to be.
const throttledFor = 20 * time.Second

// quotas are those of all clients of gvbll's id: a tenth of what is sent, and less than requests
// take.
var quotas = map[string]float64{"consumer_byte_rate": 3000, "request_percentage": 0.2}

func throttled(ctx context.Context, v *served) {
	v.serve(ctx, 100)
	owner := v.http
	v.http = freeAddress()
	standby := v.start("b", "", "--linger", "20ms")
	ready(ctx, v.http)
	v.limit(ctx, false)
	defer v.limit(context.WithoutCancel(ctx), true)
	said := false
	until := time.Now().Add(throttledFor)
	ticking(ctx, 500*time.Millisecond, func() bool {
		v.send(ctx, 50)
		_, body := get(ctx, owner, "/readyz")
		said = said || strings.Contains(body, "throttled by a quota")
		for _, p := range []*process{v.worker, standby} {
			if closed(p.ended) {
				fail("a worker ended: %s", p.lastLine())
			}
		}
		return time.Now().After(until)
	})
	switch {
	case !said || !v.worker.logged("throttled by a quota"):
		fail("neither /readyz nor the log may leave out that the brokers throttle it")
	case scrape(ctx, owner)["gvbll_kafka_throttled_seconds_total"] == 0:
		fail("gvbll_kafka_throttled_seconds_total is 0")
	}
	v.limit(ctx, true)
	must(standby.stop())
	v.finished(ctx)
}

// finished waits until all that was sent is predicted, ends the worker, and checks what it has
// published, with dead letters of the reasons.
func (v *served) finished(ctx context.Context, reasons ...string) {
	v.predicted(ctx)
	v.halt()
	v.published(ctx, v.sent, reasons...)
	must(v.audit(ctx))
}

// limit sets or removes the quotas.
func (v *served) limit(ctx context.Context, remove bool) {
	id := "gvbll-work"
	entry := kadm.AlterClientQuotaEntry{Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &id}}}
	for key, limit := range quotas {
		entry.Ops = append(entry.Ops, kadm.AlterClientQuotaOp{Key: key, Value: limit, Remove: remove})
	}
	must(need(v.admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{entry}))[0].Err)
}

// get returns what a worker answers to a request, status 0 if nothing does.
func get(ctx context.Context, addr, path string) (status int, body string) {
	req := need(http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil))
	return answered(req)
}

// answered returns the answer to a request, status 0 if there is none.
func answered(req *http.Request) (status int, body string) {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, ""
	}
	return res.StatusCode, string(b)
}
