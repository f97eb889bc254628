package registry

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hamba/avro/v2"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/wire"
)

const payment = `{"type": "record", "name": "Payment", "namespace": "shop", "fields": [
	{"name": "id", "type": "long"},
	{"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
	{"name": "fee", "type": {"type": "fixed", "name": "Fee", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 1}},
	{"name": "country", "type": ["null", "string"]},
	{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
	{"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["CARD", "CASH"]}},
	{"name": "tags", "type": {"type": "map", "values": "boolean"}},
	{"name": "parts", "type": {"type": "array", "items": {"type": "record", "name": "Part", "fields": [{"name": "n", "type": "int"}, {"name": "x", "type": "float"}]}}},
	{"name": "other", "type": ["null", "Part", "double"]},
	{"name": "raw", "type": "bytes"}]}`

// TestAvro: a record is the JSON that plain JSON would be: unions without their types, decimals and times as numbers.
func TestAvro(t *testing.T) {
	schema := avro.MustParse(payment)
	b, err := avro.Marshal(schema, map[string]any{
		"id": int64(math.MaxInt64), "amount": big.NewRat(-205, 100), "fee": big.NewRat(7, 10), "country": "D\u00e9\"",
		"at": time.UnixMilli(1774800000123), "kind": "CASH", "tags": map[string]any{"new": true},
		"parts": []any{map[string]any{"n": -1, "x": float32(.5)}, map[string]any{"n": 2, "x": float32(math.Inf(1))}},
		"other": map[string]any{"double": math.NaN()}, "raw": []byte{1, 2},
	})
	must(t, err)
	got, err := NewReader(Schema{ID: 1, Type: "AVRO", Text: payment}).JSON(b)
	want := `{"id":9223372036854775807,"amount":-2.05,"fee":0.7,"country":"D\u00e9\"","at":1774800000123,"kind":"CASH",` +
		`"tags":{"new":true},"parts":[{"n":-1,"x":0.5},{"n":2,"x":"+Inf"}],"other":null,"raw":"AQI="}`
	var same any
	if err != nil || strings.ReplaceAll(string(got), "\u00e9", "\\u00e9") != strings.ReplaceAll(want, "\u00e9", "\\u00e9") || json.Unmarshal(got, &same) != nil {
		t.Errorf("a record is\n%s, %v\nwant\n%s", got, err, want)
	}
	for name, cut := range map[string][]byte{"cut short": b[:len(b)-1], "too long": append(b, 0), "nothing": nil} {
		if got, err := NewReader(Schema{Type: "AVRO", Text: payment}).JSON(cut); err == nil {
			t.Errorf("a record that is %s is read as %s", name, got)
		}
	}
}

// TestFrames: records that Confluent's own serializers framed (testdata/frames.py) are the JSON that was given to them.
func TestFrames(t *testing.T) {
	b, err := os.ReadFile("testdata/frames.json")
	must(t, err)
	var frames []struct {
		Type, Text, Frame string
		JSON              any
	}
	must(t, json.Unmarshal(b, &frames))
	for _, f := range frames {
		framed, err := hex.DecodeString(f.Frame)
		must(t, err)
		var value event.Node
		d := wire.Decoder{Frames: func(_ uint32, payload []byte) ([]byte, error) {
			got, err := NewReader(Schema{Type: f.Type, Text: f.Text}).JSON(payload)
			var is any
			if err == nil {
				err = json.Unmarshal(got, &is)
			}
			if diff := cmp.Diff(f.JSON, is); diff != "" || err != nil {
				t.Errorf("%s, -want +got\n%s, %v", f.Type, diff, err)
			}
			return got, err
		}}
		d.Node(&event.Origin{Value: framed}, &value)
		if want := f.JSON.(map[string]any)["id"].(float64); value.ID.Num != int64(want) {
			t.Errorf("%s: the node is %v, want %v", f.Type, value.ID, want)
		}
	}
}

const order = `syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; import "part.proto";
	message Ignored { message Order {
		int64 id = 1; string country = 2; optional double amount = 3; google.protobuf.Timestamp at = 4; repeated Part parts = 5;
		map<string, bool> tags = 6; Kind kind = 7; google.protobuf.Int64Value age = 8; bytes raw = 9; float rate = 10; uint64 big = 11;
		enum Kind { CARD = 0; CASH = 1; } } }`

// TestProtobuf: a message of those of a file is JSON by the names of the schema, its 64-bit integers as numbers.
func TestProtobuf(t *testing.T) {
	s := Schema{Type: "PROTOBUF", Text: order, References: []Reference{{"part.proto", `syntax = "proto3"; package shop; message Part { int32 n = 1; }`}}}
	field := func(n int, kind byte) byte { return byte(n<<3) | kind }
	b := []byte{4, 0, 0} // two steps: the first message of the file, the first within it
	b = append(b, field(1, 0))
	b = binary.AppendUvarint(b, math.MaxInt64)
	b = append(b, field(2, 2), 2, 'D', 'E', field(4, 2), 2, field(1, 0), 5, field(5, 2), 2, field(1, 0), 7, field(6, 2), 5, field(1, 2), 1, 'a', field(2, 0), 1)
	b = append(b, field(7, 0), 1, field(8, 2), 2, field(1, 0), 9, field(9, 2), 1, 1, field(10, 5), 0, 0, 0xc0, 0x7f)
	got, err := NewReader(s).JSON(b)
	want := `{"id":9223372036854775807,"country":"DE","amount":null,"at":"1970-01-01T00:00:05Z","parts":[{"n":7}],` +
		`"tags":{"a":true},"kind":"CASH","age":9,"raw":"AQ==","rate":null,"big":0}`
	if string(got) != want || err != nil {
		t.Errorf("a message is\n%s, %v\nwant\n%s", got, err, want)
	}
	for name, b := range map[string][]byte{
		"no message": {4, 0, 9}, "negative": {1}, "deep": {0x7e}, "cut short": {4, 0}, "nothing": nil, "bad field": {4, 0, 0, 0xff},
		"not UTF-8": {4, 0, 0, field(2, 2), 1, 0xff},
	} {
		if got, err := NewReader(s).JSON(b); err == nil {
			t.Errorf("a message that is %s is read as %s", name, got)
		}
	}
}

// TestHostileSchemas: schemas that contain themselves, grow without end or are too long are refused, and records that declare
// more than they have end.
func TestHostileSchemas(t *testing.T) {
	doubled := `{"type": "record", "name": "R0", "fields": []}`
	for n := 1; n < 60; n++ {
		doubled = fmt.Sprintf(`{"type": "record", "name": "R%d", "fields": [{"name": "a", "type": %s}, {"name": "b", "type": "R%d"}]}`, n, doubled, n-1)
	}
	for name, s := range map[string]Schema{
		"itself":       {Type: "AVRO", Text: `{"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}]}`},
		"a list of it": {Type: "AVRO", Text: `{"type": "record", "name": "A", "fields": [{"name": "a", "type": {"type": "array", "items": "A"}}]}`},
		"2^60 values":  {Type: "AVRO", Text: doubled},
		"too long":     {Type: "AVRO", Text: `"` + strings.Repeat("a", maxText) + `"`},
		"no Avro":      {Type: "AVRO", Text: `{"type": "what"}`},
		"no Protobuf":  {Type: "PROTOBUF", Text: `syntax = "proto3"; message {`},
		"imports":      {Type: "PROTOBUF", Text: `syntax = "proto3"; import "/etc/passwd"; message A {}`},
		"JSON":         {Type: "JSON", Text: `{}`},
	} {
		if got, err := NewReader(s).JSON([]byte{0}); err == nil {
			t.Errorf("%s: a record is read as %s", name, got)
		}
	}
	for text, payload := range map[string][]byte{
		`{"type": "array", "items": "null"}`:                             binary.AppendVarint(nil, math.MaxInt64),
		`{"type": "array", "items": {"type": "array", "items": "null"}}`: binary.AppendVarint(nil, math.MaxInt64),
		`"string"`: binary.AppendVarint(nil, math.MaxInt64),
		`"bytes"`:  binary.AppendVarint(nil, 1<<30),
		`{"type": "fixed", "name": "F", "size": 2000000000}`: nil,
	} {
		if got, err := NewReader(Schema{Type: "AVRO", Text: text}).JSON(payload); err == nil {
			t.Errorf("%s: read as %d bytes", text, len(got))
		}
	}
	w := jsonWriter{b: make([]byte, 0, maxJSON+16)}
	for w.failed() == nil && len(w.b) < 2*maxJSON {
		w.text("0123456")
	}
	if len(w.b) > maxJSON+10 {
		t.Errorf("JSON ends at %d bytes, of at most %d", len(w.b), maxJSON)
	}
	nested := `syntax = "proto3"; message A { A a = 1; }`
	var b []byte
	for range 10 * maxDepth {
		b = append(append([]byte{0x0a}, binary.AppendUvarint(nil, uint64(len(b)))...), b...)
	}
	if _, err := NewReader(Schema{Type: "PROTOBUF", Text: nested}).JSON(append([]byte{0}, b...)); err == nil {
		t.Error("a message of hundreds in each other is read")
	}
	for what, payload := range map[string][]byte{
		"messages in each other": binary.AppendVarint(nil, 1000*maxDepth), "bytes in Protobuf": make([]byte, 10*maxProtobuf),
	} {
		if _, err := NewReader(Schema{Type: "PROTOBUF", Text: nested}).JSON(payload); err == nil {
			t.Errorf("far too many %s are read", what)
		}
	}
}

// TestClient: a schema comes with those that it refers to, to a client that logs in. What a registry does not have is
// absent; an answer or references without end are refused; a registry that refuses is found out at the start.
func TestClient(t *testing.T) {
	r := srfake.New(srfake.WithAuth("Bearer secret"))
	t.Cleanup(r.Close)
	c, err := NewClient(Config{URL: r.URL(), Token: func() (string, error) { return "secret", nil }})
	must(t, err)
	must(t, c.Check(t.Context()))
	register := func(subject string, s sr.Schema) uint32 {
		found, err := c.sr.CreateSchema(t.Context(), subject, s)
		must(t, err)
		return uint32(found.ID)
	}
	register("part", sr.Schema{Schema: `syntax = "proto3"; package shop; message Part { int32 n = 1; }`, Type: sr.TypeProtobuf})
	id := register("order", sr.Schema{Schema: order, Type: sr.TypeProtobuf, References: []sr.SchemaReference{{Name: "part.proto", Subject: "part", Version: 1}}})
	s, err := c.Schema(t.Context(), id)
	must(t, err)
	if s.ID != id || s.Type != "PROTOBUF" || len(s.References) != 1 || NewReader(s).err != nil {
		t.Errorf("the schema is %+v", s)
	}
	if _, err := c.Schema(t.Context(), 999); !errors.Is(err, errAbsent) {
		t.Errorf("a schema that is not there is %v", err)
	}
	stranger, err := NewClient(Config{URL: r.URL(), User: "a", Password: "b"})
	must(t, err)
	if err := stranger.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a registry that refuses is %v", err)
	}
	var asked atomic.Int32
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		refers := ""
		for i := range 20 {
			refers += fmt.Sprintf(`{"name": "%d.%d", "subject": "s", "version": 1},`, asked.Load(), i)
		}
		if strings.HasSuffix(req.URL.Path, "/ids/1") {
			refers = strings.Repeat(refers, 1000)
		}
		fmt.Fprintf(w, `{"schema": "\"int\"", "references": [%s]}`, strings.TrimSuffix(refers, ","))
	}))
	t.Cleanup(hostile.Close)
	c, err = NewClient(Config{URL: hostile.URL})
	must(t, err)
	for _, id := range []uint32{1, 2} {
		if s, err := c.Schema(t.Context(), id); err != nil || s.Refused == "" || asked.Load() > 2*maxReferences {
			t.Errorf("schema %d is %+v after %d questions, %v", id, s, asked.Load(), err)
		}
	}
}

// sourceFunc is a Source.
type sourceFunc func(id uint32) (Schema, error)

func (f sourceFunc) Schema(_ context.Context, id uint32) (Schema, error) { return f(id) }

// TestRegistryAway: a question waits for a registry that is away, and says so once a minute; a replay asks nothing.
func TestRegistryAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var log strings.Builder
		s := New(t.Context(), sourceFunc(func(id uint32) (Schema, error) {
			if time.Since(began) < 150*time.Second {
				return Schema{}, errors.New("connection refused")
			}
			return Schema{ID: id, Type: "AVRO", Text: `"int"`}, nil
		}), slog.New(slog.NewTextHandler(&log, nil)), nil)
		if r, err := s.Find(7); r != nil || err != nil || time.Since(began) > 0 {
			t.Errorf("a replay asks: %v, %v", r, err)
		}
		s.Ask()
		r, err := s.Find(7)
		if r == nil || err != nil || time.Since(began) > 3*time.Minute {
			t.Fatalf("after %v there is %v, %v", time.Since(began), r, err)
		}
		if n := strings.Count(log.String(), "wait for the schema registry"); n != 3 || !strings.Contains(log.String(), "answers again") {
			t.Errorf("it said %d times\n%s", n, &log)
		}
		if s.Kept(7) != nil || s.Adopt(r) != r || s.Kept(7) != r || len(s.TakeFresh()) != 1 || s.TakeFresh() != nil {
			t.Error("what is adopted is not kept, once")
		}
	})
}

// TestBounds: what a ledger keeps is bounded, and so are answers of a registry that has everything, or nothing.
func TestBounds(t *testing.T) {
	asked := 0
	s := New(t.Context(), sourceFunc(func(id uint32) (Schema, error) {
		if asked++; id%2 == 1 {
			return Schema{}, errAbsent
		}
		return Schema{ID: id, Type: "AVRO", Text: `"int"` + strings.Repeat(" ", maxText/2)}, nil
	}), slog.Default(), nil)
	s.Ask()
	for id := range uint32(10 * maxSchemas) {
		r, err := s.Find(id)
		must(t, err)
		if r != nil {
			s.Adopt(r)
		}
		if s.size > maxOfWindow {
			t.Fatalf("schemas of %d bytes are new in a window", s.size)
		}
		if id > 20*maxOfWindow/maxText && id%4 == 0 { // the first are all of one window
			s.TakeFresh()
		}
	}
	if s.bytes+maxText < maxAll {
		t.Errorf("schemas of %d bytes are kept, where %d may", s.bytes, maxAll)
	}
	if len(s.kept) > maxSchemas || s.bytes > maxAll || len(s.found) > 2*maxSchemas || len(s.absent) > maxSchemas {
		t.Errorf("%d schemas of %d bytes, %d found and %d absent", len(s.kept), s.bytes, len(s.found), len(s.absent))
	}
	if before := asked; true {
		s.Find(10*maxSchemas - 1)
		if asked != before {
			t.Error("what is absent is asked for again at once")
		}
	}
	again := New(t.Context(), nil, nil, s.All())
	if len(again.kept) != len(s.kept) {
		t.Errorf("%d of %d schemas are kept with a position", len(again.kept), len(s.kept))
	}
}

// FuzzAvro: any payload of a schema is a refusal or valid JSON.
func FuzzAvro(f *testing.F) {
	r := NewReader(Schema{Type: "AVRO", Text: payment})
	f.Add([]byte{2, 2, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := r.JSON(b); err == nil && !json.Valid(got) {
			t.Errorf("%x is %s", b, got)
		}
	})
}

// FuzzProtobuf: likewise.
func FuzzProtobuf(f *testing.F) {
	r := NewReader(Schema{Type: "PROTOBUF", Text: order, References: []Reference{{"part.proto", `syntax = "proto3"; package shop; message Part { int32 n = 1; }`}}})
	f.Add([]byte{4, 0, 0, 8, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := r.JSON(b); err == nil && !json.Valid(got) {
			t.Errorf("%x is %s", b, got)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
