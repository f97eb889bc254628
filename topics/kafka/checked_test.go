package kafka

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestLyingProxy: whatever lengths and counts the answers of a proxy claim, a client does not panic. It asks again on another
// connection, and what was committed is read.
func TestLyingProxy(t *testing.T) {
	for what, lie := range kafkatest.Lies {
		t.Run(what, func(t *testing.T) {
			kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
				honest := dial(t, k, Config{})
				name := topic(t, honest, 1)
				c := dial(t, k.Lying(lie), Config{})
				// What a lie decides ends with an error, and is begun again.
				again := func(doing string, f func() error) {
					t.Helper()
					var err error
					for range 20 {
						if err = f(); err == nil {
							return
						}
					}
					t.Fatalf("%s, long after the last lie: %v", doing, err)
				}
				var p *Producer
				again("a session", func() (err error) {
					p, err = c.NewProducer(t.Context(), ProducerConfig{TransactionalID: name})
					return err
				})
				again("a commit", func() error {
					err := p.Commit(t.Context(), []Record{{Topic: name, Value: []byte("a")}}, "", nil)
					if err != nil {
						_ = p.Restart(t.Context())
					}
					return err
				})
				var got []string
				bounds, err := honest.Offsets(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				again("reading", func() error {
					got = nil
					return c.ReadTo(t.Context(), map[TopicPartition]int64{{name, 0}: 0}, bounds, func(r *Record) bool {
						got = append(got, string(r.Value))
						return true
					})
				})
				if want := values(committed(t, honest, ReaderConfig{}, name, nil)); len(got) == 0 || !slices.Equal(got, want) {
					t.Errorf("%q were read, and %q are there", got, want)
				}
			})
		})
	}
}

// TestClaimedLength: memory is taken for what an answer has, not for what it claims to have.
func TestClaimedLength(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readAnswer(strings.NewReader("\x10\x00\x00\x00 and no more"), nil)
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || took > 4 {
		t.Errorf("%d MiB were allocated for an answer of 12 bytes that claims 256 MiB, error %v", took, err)
	}
}
