package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gvbll/gvbll/pipeline/event"
)

const (
	callers    = 24                     // goroutines, some 200 calls a second together
	callEvery  = 100 * time.Millisecond // of each, or when its call has ended
	calledFor  = 4 * time.Second        // before calls are timed, then calm, then after each thing that happens
	callsAgain = 5                      // every so many calls are made once more, later
)

// caller makes calls, each until it is answered.
type caller struct {
	v        *served
	addrs    []string
	mu       sync.Mutex
	answers  map[string]string // by node
	tries    int               // calls that were not answered
	took     []time.Duration   // of calls that were answered at the first try, while nothing had happened
	happened bool
}

// called has calls come while the owner, a broker, and the next owner are killed. Every answer is in the topic, every node is
// predicted once, and a call that comes again has the same bytes.
func called(ctx context.Context, v *served) {
	c := &caller{v: v, answers: make(map[string]string)}
	flags := []string{"--linger", "20ms", "--decide"}
	workers := make([]*process, 2)
	for i, name := range []string{"a", "b"} {
		v.http = freeAddress()
		c.addrs = append(c.addrs, v.http)
		workers[i] = v.start(name, "", flags...)
		ready(ctx, v.http)
	}
	c.call(ctx, "first", 0) // begins the owner's first transaction
	c.took = nil
	calling, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	errs := make(chan error, callers)
	for i := range callers {
		all.Go(func() {
			if err := caught(func() { c.run(ctx, calling, i) }); err != nil {
				errs <- err
			}
		})
	}
	pause := func() { ticking(ctx, calledFor, after(2)) }
	pause() // a broker that has just begun is slow
	c.mu.Lock()
	c.took = nil
	c.mu.Unlock()
	timed := time.Now()
	pause()
	c.mu.Lock()
	c.happened = true
	rate := float64(len(c.took)) / time.Since(timed).Seconds()
	c.mu.Unlock()
	workers[0].kill()
	pause()
	v.http = c.addrs[0]
	workers[0] = v.start("a", "", flags...)
	rng := rand.New(rand.NewPCG(1, 2))
	v.setup.Report("calls: " + v.setup.Cluster.disturb(rng))
	pause()
	v.setup.Report("calls: " + v.setup.Cluster.disturb(rng))
	ready(ctx, c.addrs[0])
	workers[1].kill()
	pause()
	stop()
	all.Wait()
	select {
	case err := <-errs:
		must(err)
	default:
	}
	must(workers[0].stop())
	n, answered := len(c.took), len(c.answers)
	c.compare(ctx)
	slices.Sort(c.took)
	v.setup.Report(fmt.Sprintf("calls: %d answered, %d tries were not; when calm, %.0f a second, half within %v, 99 of 100 within %v",
		answered, c.tries, rate, c.took[n/2].Round(time.Millisecond), c.took[n*99/100].Round(time.Millisecond)))
}

// after returns a function that is true at its n-th call.
func after(n int) func() bool {
	return func() bool { n--; return n <= 0 }
}

// ready waits until a worker is ready.
func ready(ctx context.Context, addr string) {
	await(ctx, drainTimeout, func() (missing string) {
		if status, body := get(ctx, addr, "/readyz"); status != http.StatusOK {
			return fmt.Sprintf("the worker at %s is not ready: %s", addr, body)
		}
		return ""
	})
}

// run calls until calling ends.
func (c *caller) run(ctx, calling context.Context, number int) {
	tick := time.NewTicker(callEvery)
	defer tick.Stop()
	for k := 0; ; k++ {
		select {
		case <-tick.C:
		case <-calling.Done():
			return
		}
		id := fmt.Sprintf("call-%d-%d", number, k)
		c.call(ctx, id, number+k)
		if k%callsAgain == callsAgain-1 {
			c.call(ctx, fmt.Sprintf("call-%d-%d", number, k-callsAgain+1), number+k-callsAgain+1)
		}
	}
}

// call calls until there is an answer, and compares it with one that there was before.
func (c *caller) call(ctx context.Context, id string, item int) {
	body := bodyOf(id, &c.v.setup.Items[item%len(c.v.setup.Items)].Node)
	for try := 0; ; try++ {
		began := time.Now()
		status, answer := post(ctx, c.addrs[(item+try)%len(c.addrs)], body)
		must(ctx.Err())
		c.mu.Lock()
		if status == http.StatusOK {
			defer c.mu.Unlock()
			before, again := c.answers[id]
			if again && before != answer {
				fail("node %s was answered %s, and then %s", id, before, answer)
			}
			if c.answers[id] = answer; !again && try == 0 && !c.happened {
				c.took = append(c.took, time.Since(began))
			}
			return
		}
		c.tries++
		c.mu.Unlock()
		if status != 0 && status != http.StatusServiceUnavailable && status != http.StatusGatewayTimeout || try > 300 {
			fail("node %s: status %d after %d tries: %s", id, status, try, answer)
		}
		time.Sleep(callEvery)
	}
}

// bodyOf returns a node event in JSON.
func bodyOf(id string, n *event.Node) []byte {
	fields := map[string]any{"id": id}
	if n.Dense != nil {
		fields["features"] = n.Dense
	} else {
		fields["indices"], fields["values"] = n.Index, n.Value
	}
	return need(json.Marshal(fields))
}

// post returns a worker's answer to an event, status 0 if there is none.
func post(ctx context.Context, addr string, body []byte) (status int, answer string) {
	req := need(http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/decide", bytes.NewReader(body)))
	req.Header.Set("Content-Type", "application/json")
	return answered(req)
}

// compare compares the answers with the topic.
func (c *caller) compare(ctx context.Context) {
	var asked []event.ID
	for id := range c.answers {
		asked = append(asked, event.ID{Str: id})
	}
	c.v.unharmed(ctx, asked, nil)
	c.v.eachPrediction(ctx, func(r *kgo.Record, p *event.Prediction) {
		answer, answered := c.answers[string(r.Key)]
		var a struct {
			Prediction struct {
				Node   string
				Class  string
				Window int64
			}
			Partition int32
			Offset    int64
		}
		if !answered {
			return
		}
		must(json.Unmarshal([]byte(answer), &a))
		if a.Partition != r.Partition || a.Offset != r.Offset || a.Prediction.Window != p.Window || a.Prediction.Class != p.Class {
			fail("node %v was answered %s, and the topic has %+v in partition %d at %d", p.Node, answer, p, r.Partition, r.Offset)
		}
		delete(c.answers, string(r.Key))
	})
	if len(c.answers) > 0 {
		fail("%d answers are of no prediction of the topic", len(c.answers))
	}
}
