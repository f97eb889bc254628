package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// limits are scenarios of brokers that do less than they are asked, by their settings.
var limits = []scenario{
	{name: "quotas throttle the fleet", nodes: 1, play: throttled},
	{name: "fewer replicas are in sync than min.insync.replicas", nodes: 3, play: tooFewReplicas},
	{name: "max.message.bytes is less than that of a batch", play: smallMessages},
}

// throttledFor is how long the fleet is throttled: longer than a log must be short before it is
// believed to be.
const throttledFor = 20 * time.Second

// quotas are those of all clients of gvbll's id: a tenth of what is sent, and less than requests
// take.
var quotas = map[string]float64{"consumer_byte_rate": 3000, "request_percentage": 0.2}

func throttled(ctx context.Context, v *served) error {
	if err := v.send(ctx, 100); err != nil {
		return err
	}
	if err := v.serve(ctx); err != nil {
		return err
	}
	owner := v.http
	var err error
	if v.http, err = freeAddress(); err != nil {
		return err
	}
	standby, err := v.start("b", "", "--linger", "20ms")
	if err != nil {
		return err
	}
	defer standby.kill()
	err = v.progress.await(ctx, standby, "standby", drainTimeout, func() bool {
		status, _, err := readiness(ctx, v.http)
		return err == nil && status == http.StatusOK
	})
	if err != nil {
		return err
	}
	if err := v.limit(ctx, false); err != nil {
		return err
	}
	defer v.limit(context.WithoutCancel(ctx), true)
	said := false
	for until := time.Now().Add(throttledFor); time.Now().Before(until); {
		if err := v.send(ctx, 50); err != nil {
			return err
		}
		_, body, err := readiness(ctx, owner)
		if err != nil {
			return err
		}
		said = said || strings.Contains(body, "throttled by a quota")
		select {
		case <-v.worker.ended:
			return fmt.Errorf("the owner ended: %s", v.worker.lastLine())
		case <-standby.ended:
			return fmt.Errorf("the standby ended: %s", standby.lastLine())
		case <-time.After(500 * time.Millisecond):
		}
	}
	s, err := scrape(ctx, owner)
	switch {
	case err != nil:
		return err
	case !said || !v.worker.logged("throttled by a quota"):
		return errors.New("neither /readyz nor the log may leave out that the brokers throttle it")
	case s.throttled == 0:
		return errors.New("gvbll_kafka_throttled_seconds_total is 0")
	}
	if err := v.limit(ctx, true); err != nil {
		return err
	}
	if err := standby.stop(); err != nil {
		return err
	}
	return v.finished(ctx)
}

// tooFewReplicas stops a node that every commit must wait for.
func tooFewReplicas(ctx context.Context, v *served) error {
	if err := v.set(ctx, v.names.Predictions, "min.insync.replicas", "3"); err != nil {
		return err
	}
	if err := v.send(ctx, 100); err != nil {
		return err
	}
	if err := v.serve(ctx); err != nil {
		return err
	}
	k := v.cluster.(*Kafka)
	if err := k.stop(2); err != nil {
		return err
	}
	err := v.send(ctx, 100)
	if err == nil {
		err = v.progress.await(ctx, v.worker, "line about replicas", drainTimeout, func() bool {
			status, body, err := readiness(ctx, v.http)
			return err == nil && status == http.StatusServiceUnavailable && strings.Contains(body, "2 of 3 replicas in sync, and min.insync.replicas=3") && v.worker.logged("min.insync.replicas=3")
		})
	}
	if err := errors.Join(err, k.start(2)); err != nil {
		return err
	}
	return v.finished(ctx)
}

// smallMessages has topics that take smaller batches than windows fill.
func smallMessages(ctx context.Context, v *served) error {
	if err := v.set(ctx, v.names.Predictions, "max.message.bytes", "2000"); err != nil {
		return err
	}
	if err := v.send(ctx, 500); err != nil {
		return err
	}
	if err := v.serve(ctx); err != nil {
		return err
	}
	return v.finished(ctx)
}

// finished waits until all that was sent is predicted, ends the worker, and checks what it has
// published.
func (v *served) finished(ctx context.Context) error {
	if err := v.predicted(ctx); err != nil {
		return err
	}
	if err := v.halt(); err != nil {
		return err
	}
	if err := v.published(ctx, v.sent); err != nil {
		return err
	}
	return v.audit(ctx)
}

// limit sets or removes the quotas.
func (v *served) limit(ctx context.Context, remove bool) error {
	id := "gvbll"
	entry := kmsg.AlterClientQuotasRequestEntry{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "client-id", Name: &id}}}
	for key, limit := range quotas {
		entry.Ops = append(entry.Ops, kmsg.AlterClientQuotasRequestEntryOp{Key: key, Value: limit, Remove: remove})
	}
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Entries = []kmsg.AlterClientQuotasRequestEntry{entry}
	res, err := req.RequestWith(ctx, v.admin)
	if err == nil {
		err = kerr.ErrorForCode(res.Entries[0].ErrorCode)
	}
	return err
}

// readiness returns what /readyz of a worker answers.
func readiness(ctx context.Context, addr string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return 0, "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 500))
	return res.StatusCode, string(b), err
}
