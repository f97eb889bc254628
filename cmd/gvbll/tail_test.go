package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestTail: tail prints the predictions that its filters let through, whichever encoding
// they have, in the form that is asked for.
func TestTail(t *testing.T) { onKFake(t, testTail) }

func testTail(t *testing.T, sh *shell) {
	sh.gvbll("topics", "--create", "--partitions", "2", "--brokers", sh.addr)
	c, topic := sh.dial(), topicsUnder(t, "gvbll").Predictions
	p, err := c.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	// Nodes 0 to 5, every second one in JSON, three in each partition, published a minute
	// after each other.
	began := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i := range 6 {
		e := []wire.Encoding{wire.MsgPack, wire.JSON}[i%2]
		prediction := event.Prediction{Node: event.ID{Num: int64(i)}, Class: "tea", Confidence: .5, Probabilities: []float32{.5}, Revision: int32(i % 2)}
		if i == 0 {
			prediction.Set = &event.Set{Classes: []string{"tea", "coffee"}, Coverage: .9, Abstain: "large-set"}
		}
		must(t, p.Send(t.Context(), []kafka.Record{{
			Topic: topic, Partition: int32(i / 3), Key: fmt.Append(nil, i), Time: began.Add(time.Duration(i) * time.Minute),
			Value:   e.AppendPrediction(nil, &prediction),
			Headers: []kafka.Header{{Key: wire.ContentType, Value: []byte(e)}},
		}}))
	}
	tail := func(args ...string) string {
		return sh.gvbll(append([]string{"tail", "--brokers", sh.addr, "--no-follow"}, args...)...)
	}
	for args, want := range map[string]string{
		"":                        "0 1 2 3 4 5",
		"-o 2":                    "2 5",
		"--offset=-1":             "2 5",
		"-o-2":                    "1 2 4 5",
		"-o -2":                   "1 2 4 5",
		"-o end":                  "",
		"-o 99":                   "",
		"-k 4 -k 0":               "0 4",
		"-k 2 -k 4 -k 0 -n 3":     "0 2 4",
		"--since " + at(began, 2): "2 3 4 5",
		"--since " + at(began, 4): "4 5",
		"--since 1s":              "",
	} {
		var got []string
		for text := range strings.Lines(tail(append(strings.Fields(args), "--json")...)) {
			var p struct{ Node json.Number }
			must(t, json.Unmarshal([]byte(text), &p))
			got = append(got, p.Node.String())
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("tail %s prints the nodes %v, want %s", args, got, want)
		}
	}
	want := `{"node":5,"class":"tea","class_index":0,"confidence":0.5,"probabilities":{"#0":0.5},"total_uncertainty":0,"aleatoric_uncertainty":0,"epistemic_uncertainty":0,"window":0,"posterior_version":0,"time":0,"model":"","revision":1,` +
		fmt.Sprintf(`"partition":1,"offset":2,"published":%d}`, began.Add(5*time.Minute).UnixMilli()) + "\n"
	for _, from := range []string{"beginning", "-1"} {
		if got := tail("-k", "5", "--json", "--offset="+from); got != want {
			t.Errorf("from %s, as JSON it is %q, want %q", from, got, want)
		}
	}
	table := strings.Split(strings.TrimSpace(tail("-k", "0", "-k", "1", "-k", "2")), "\n")
	if len(table) != 4 {
		t.Errorf("the table has %d lines, want a header and 3", len(table))
	}
	if !strings.HasSuffix(table[1], "  {tea, coffee} abstain: large-set") {
		t.Errorf("%q lacks the set, and why one should not act on it", table[1])
	}
	for _, line := range slices.Delete(table, 1, 2) {
		if len(line) > 80 {
			t.Errorf("%q has %d columns, want at most 80", line, len(line))
		}
	}
	for args, want := range map[string]string{
		"--offset x":          "--offset: give beginning, end, an offset",
		"--since 1h -o 3":     "--offset 3: no effect with --since",
		"--since yesterday":   "--since: \"yesterday\": give a duration",
		"--prefix other -n 1": "topic other.predictions does not exist",
	} {
		if code, _, stderr := sh.command(append([]string{"tail", "--brokers", sh.addr}, strings.Fields(args)...)...); code == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("tail %s ends with code %d and %q, want an error with %q", args, code, stderr, want)
		}
	}
}

// TestTailCountsRecords: the last records of a topic are as many as are asked for, though the end
// of each transaction has an offset too.
func TestTailCountsRecords(t *testing.T) {
	onKFake(t, func(t *testing.T, sh *shell) {
		sh.gvbll("topics", "--create", "--brokers", sh.addr)
		p, err := sh.dial().NewProducer(t.Context(), kafka.ProducerConfig{TransactionalID: "t"})
		must(t, err)
		for i := range int64(9) {
			value := wire.MsgPack.AppendPrediction(nil, &event.Prediction{Node: event.ID{Num: i}})
			must(t, p.Commit(t.Context(), []kafka.Record{{Topic: topicsUnder(t, "gvbll").Predictions, Key: fmt.Append(nil, i), Value: value, Time: time.Now()}}, "", nil))
		}
		var got []string
		for line := range strings.Lines(sh.gvbll("tail", "--brokers", sh.addr, "-o", "-3", "--no-follow")) {
			got = append(got, strings.Fields(line)[0])
		}
		if want := []string{"NODE", "6", "7", "8"}; !slices.Equal(got, want) {
			t.Errorf("the last 3 records are %v, want %v", got, want)
		}
	})
}

// at returns the time some minutes after began.
func at(began time.Time, minutes int) string {
	return began.Add(time.Duration(minutes) * time.Minute).Format(time.RFC3339)
}
