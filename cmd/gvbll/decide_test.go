package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/wire"
)

// decide calls POST /v1/decide, and returns the status and the body.
func (g *testGraph) decide(url, query, body string) (int, string) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), "POST", url+"/v1/decide"+query, strings.NewReader(body))
	must(g.t, err)
	r.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DialContext: g.sh.dialer, DisableKeepAlives: true}}
	res, err := client.Do(r)
	must(g.t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	must(g.t, err)
	return res.StatusCode, string(b)
}

// urls returns where the graph's workers answer, the owner first.
func (g *testGraph) urls(n int) (urls []string) {
	g.t.Helper()
	kafkatest.Await(g.t, fmt.Sprintf("%d workers say where they answer", n), func() bool {
		members, err := look.MembersOf(g.t.Context(), g.client, g.names)
		must(g.t, err)
		urls = nil
		for _, m := range members {
			if m.HTTP != "" {
				urls = append(urls, m.HTTP)
			}
		}
		return len(urls) == n && members[0].Owner
	})
	return urls
}

// TestDecide: a call sends its event into the stream and is answered with what was committed. The same call again gets the
// same bytes: at once, of a standby, of a worker that began later, and while the first call waits; and the node is
// predicted once.
func TestDecide(t *testing.T) { onKafka(t, testDecide) }

func testDecide(t *testing.T, sh *shell) {
	prefix := fmt.Sprintf("decide-%d", time.Now().UnixNano())
	sh.setenv("GVBLL_PREFIX", prefix)
	g := sh.graph(prefix, 128)
	sh.gvbll("topics", "--create", "--partitions", "3", "--brokers", sh.addr)
	start := func(name string) (stop func()) {
		return g.work("--model", tenClasses(t), "--decide", "--state-dir", filepath.Join(t.TempDir(), name))
	}
	stopFirst := start("first")
	g.awaitOwner()
	g.send(20)
	url := g.urls(1)[0]
	event1 := func(id string) string {
		return fmt.Sprintf(`{"id": %q, "features": [%s], "neighbours": ["node-3"], "time": 1790000000000}`, id, "1"+strings.Repeat(",0.5", 127))
	}
	var first string
	kafkatest.Await(t, "a call is answered", func() bool { // the worker is ready
		var code int
		code, first = g.decide(url, "", event1("call-1"))
		return code == http.StatusOK
	})

	// The answer is the record at its place.
	read := func(id string) (list []kafka.Record) {
		must(t, g.client.ReadAll(t.Context(), g.names.Predictions, func(r *kafka.Record) {
			if string(r.Key) == id {
				list = append(list, kafka.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Value: bytes.Clone(r.Value)})
			}
		}))
		return list
	}
	at := read("call-1")
	var p event.Prediction
	if len(at) != 1 {
		t.Fatalf("the topic has %d predictions of the node, want one", len(at))
	}
	must(t, wire.DecodePrediction(at[0].Value, &p))
	for _, want := range []string{
		fmt.Sprintf(`"partition":%d,"offset":%d}`, at[0].Partition, at[0].Offset), fmt.Sprintf(`"window":%d,`, p.Window),
		fmt.Sprintf(`"topic":%q`, g.names.Predictions), `"probabilities":{"class-0":`,
	} {
		if !strings.Contains(first, want) {
			t.Errorf("the answer is %s, want %s in it", first, want)
		}
	}
	again := func(what, url string) {
		t.Helper()
		code, body := "", ""
		kafkatest.Await(t, what+" answers", func() bool {
			c, b := g.decide(url, "?wait=20s", event1("call-1"))
			code, body = fmt.Sprint(c), b
			return c != http.StatusServiceUnavailable
		})
		if body != first {
			t.Errorf("%s answers %s %s, want %s", what, code, body, first)
		}
	}
	again("the same worker", url)

	// Many at once, each twice.
	var calls sync.WaitGroup
	answers := make([][2]string, 30)
	for i := range 60 {
		calls.Go(func() {
			_, answers[i/2][i%2] = g.decide(url, "", event1(fmt.Sprintf("many-%d", i/2)))
		})
	}
	calls.Wait()
	for i, a := range answers {
		if a[0] != a[1] || !strings.Contains(a[0], `"prediction":{"node":"many-`) {
			t.Errorf("two calls for node many-%d get %s and %s, want the same prediction", i, a[0], a[1])
		}
		if n := len(read(fmt.Sprintf("many-%d", i))); n != 1 {
			t.Errorf("node many-%d has %d predictions, want one", i, n)
		}
	}

	// A standby sends and answers, too; after the owner has gone it still has all answers.
	stopSecond := start("second")
	second := g.urls(2)[1]
	again("a standby", second)
	kafkatest.Await(t, "a standby answers a new call", func() bool {
		code, _ := g.decide(second, "", event1("call-2"))
		return code == http.StatusOK
	})
	stopFirst()
	again("the next owner", second)
	stopSecond()
	defer start("third")()
	third := g.urls(1)[0]
	again("a worker that began later", third)

	for _, c := range []struct {
		query, body string
		code        int
		want        string
	}{
		{"", `{"id": "x", "features": [1]}`, http.StatusUnprocessableEntity, "features"},
		{"", `{"id": "x", "context": true, "features": [1` + strings.Repeat(",1", 127) + `]}`, http.StatusUnprocessableEntity, "one node that is to be predicted"},
		{"", `{"id": "x", "departed": true}`, http.StatusUnprocessableEntity, "no node to predict"},
		{"?wait=1h", event1("x"), http.StatusBadRequest, "up to 20s"},
		{"?wait=1ms", event1("too-soon"), http.StatusGatewayTimeout, "under the key"},
	} {
		code, body := g.decide(third, c.query, c.body)
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: status %d, %s, want %d with %q", c.query, c.body, code, body, c.code, c.want)
		}
	}
	if code, body := g.decide(third, "", event1("too-soon")); code != http.StatusOK {
		t.Errorf("a call again after one that was answered late: status %d, %s", code, body)
	}
	if !regexp.MustCompile(`gvbll_decide_calls_total\{result="again"\} [1-9]`).MatchString(sh.get(third + "/metrics")) {
		t.Error("/metrics does not count the calls that came again")
	}
}

// TestDecideIsGuarded: whoever can call could write to the stream, so calls from other machines need a password.
func TestDecideIsGuarded(t *testing.T) {
	code, _, errs := (&shell{t: t}).command("work", "--model", tenClasses(t), "--http", ":0", "--decide", "--brokers", "127.0.0.1:1")
	if want := "could send events: ask for passwords with --http-config, or listen on 127.0.0.1"; code == exitOK || !strings.Contains(errs, want) {
		t.Errorf("exit code %d, %s, want %q", code, errs, want)
	}
}
