package wire_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestSchemasAreTheDecoders: an event in JSON fits its topic's schema if and only if the
// decoder accepts it. The events are those of the documentation, and bad ones.
func TestSchemasAreTheDecoders(t *testing.T) {
	t.Parallel()
	all, d := make(map[string]*jsonschema.Schema), wire.Decoder{}
	for _, topic := range []string{"nodes", "labels", "commands"} {
		s, err := jsonschema.NewCompiler().Compile("../../docs/schemas/" + topic + ".json")
		if err != nil {
			t.Fatal(err)
		}
		all[topic] = s
	}
	check := func(topic, value string, want bool) {
		t.Helper()
		o := &event.Origin{Value: []byte(value), Headers: []event.Header{{Key: wire.ContentType, Value: []byte(wire.JSON)}}}
		var reason event.Reason
		var detail string
		switch topic {
		case "nodes":
			reason, detail = d.Node(o, &event.Node{})
		case "labels":
			reason, detail = d.Label(o, &event.Label{})
		case "commands":
			reason, detail = d.Command(o, &event.Command{})
		}
		if (reason == "") != want {
			t.Errorf("%s: the decoder says %q (%s), want it accepted: %t", value, reason, detail, want)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
		if err == nil {
			err = all[topic].Validate(v)
		}
		if (err == nil) != want {
			t.Errorf("%s: the schema of %s says %v, want it to fit: %t", value, topic, err, want)
		}
	}
	documented := 0
	for _, file := range []string{"../../README.md", "../../docs/wire-format.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range regexp.MustCompile(`(?m)^    (?:echo ')?([\[{]+"(?:id|source|node|command)".*[}\]])'?`).FindAllSubmatch(text, -1) {
			documented++
			topic := "nodes"
			if bytes.Contains(line[1], []byte(`"node"`)) {
				topic = "labels"
			}
			check(topic, string(line[1]), true)
		}
	}
	if documented < 9 {
		t.Errorf("%d events are documented, want at least 9: has the documentation another form now?", documented)
	}
	for _, value := range []string{
		`{"id":7,"features":[0.5],"neighbors":["a",1],"context":true,"time":3,"more":{}}`, `{"id":"a","features":"AACAPw=="}`,
		`{"id":1,"indices":[],"neighbours":null}`, `{"id":1,"indices":[1,5],"values":[2,0.5],"remove":false}`, `{"id":1,"departed":true,"features":[1]}`,
		`{"id":1,"neighbours":[2],"remove":true}`, `[{"source":1,"target":"b","remove":null}]`, `{"id":1,"source":2,"indices":[3]}`,
		`{"id":1,"predict":true}`, `{"id":"a","predict":true,"time":7,"neighbours":[]}`, `{"id":1,"predict":true,"indices":[2]}`, `{"id":1,"predict":true,"neighbours":[2]}`, `{"id":1,"predict":true,"departed":true}`,
		`{"source":1,"target":2,"kind":"paid","weight":0.01}`, `{"id":1,"features":[1],"neighbours":[2,{"id":"a","kind":null,"weight":3,"in":true}]}`,
	} {
		check("nodes", value, true)
	}
	for _, value := range []string{
		`7`, `{}`, `[]`, `{"id":"","features":[1]}`, `{"id":1.5,"features":[1]}`, `{"id":1}`, `{"id":1,"features":[null]}`, `{"id":1,"features":{"3":{"a":1}}}`,
		`{"id":1,"features":[1e7]}`, `{"id":1,"features":[1],"indices":[1]}`, `{"id":1,"indices":[-1]}`, `{"id":1,"values":[1]}`, `{"id":1,"neighbours":[]}`,
		`{"id":1,"features":[1],"remove":true}`, `{"source":1}`, `{"source":1,"target":2,"features":[1]}`, `[{"id":1,"features":[1]}]`, `{"id":1,"features":[1],"context":1}`,
		`{"id":1,"neighbours":[2],"neighbors":[3]}`, `{"id":1,"features":[1],"time":"now"}`,
		`{"id":1,"predict":false}`, `{"id":1,"predict":1}`, `{"predict":true}`, `{"id":1,"predict":true,"remove":true}`, `{"id":1,"predict":true,"values":[1]}`, `{"source":1,"target":2,"predict":true}`,
		`{"source":1,"target":2,"weight":0}`, `{"source":1,"target":2,"kind":7}`, `{"id":1,"neighbours":[{"kind":"paid"}]}`, `{"id":1,"neighbours":[{"id":2,"weight":-1}]}`,
	} {
		check("nodes", value, false)
	}
	for value, want := range map[string]bool{
		`{"node":1,"class":"a"}`: true, `{"node":"x","class":0,"time":5}`: true, `{"node":1,"class":null}`: true, `{"node":null,"class":null}`: false,
		`{"node":1}`: false, `{"class":"a"}`: false, `{"node":1,"class":""}`: false, `{"node":1,"class":-1}`: true, `{"node":1,"class":true}`: true, `{"node":1,"class":[1]}`: false,
	} {
		check("labels", value, want)
	}
	for value, want := range map[string]bool{
		`{"command":"promote","model":"m"}`: true, `{"command":"forget","nodes":[1,"a"]}`: true, `{"command":"shadow","model":"m"}`: true, `{"command":"shadow","model":"m","rule":null}`: true, `{"command":"shadow"}`: false,
		`{"command":"promote"}`: false, `{"command":"forget","nodes":[]}`: false, `{"command":"stop"}`: false, `{"model":"m"}`: false,
	} {
		check("commands", value, want)
	}
}
