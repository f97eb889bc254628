package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/keys"
	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/structure"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/registry"
	"github.com/gvbll/gvbll/topics/wire"
)

type mapCmd struct {
	Kafka flags.Kafka `embed:""`

	Registry flags.Registry `help:"@graph_registry" placeholder:"URL" group:"kafka"`

	Try    string `help:"File of the map." required:"" type:"existingfile" placeholder:"FILE"`
	Topic  string `help:"Topic to read." required:"" placeholder:"TOPIC"`
	Labels bool   `help:"The records are labels, not nodes."`
	Count  int    `help:"Number of records to read of each partition." default:"10" short:"n"`
}

// Help is shown by gvbll map --help.
func (mapCmd) Help() string {
	return "Prints of the first records what each becomes: an event in our own format, or why it is refused. " +
		"Nothing is written."
}

// Run prints a line for each record.
func (c mapCmd) Run(ctx context.Context, p flags.Process) error {
	m, err := flags.OpenMap(c.Try)
	if err != nil {
		return flags.Usagef("--try %v", err)
	}
	client, _, err := c.Kafka.Connect(ctx, p)
	if err != nil {
		return err
	}
	defer client.Close()
	bounds, err := client.Offsets(ctx, c.Topic)
	if err != nil {
		return err
	}
	if len(bounds) == 0 {
		return fmt.Errorf("--topic %s: there is no such topic", c.Topic)
	}
	from := make(map[kafka.TopicPartition]int64)
	for at, b := range bounds {
		from[at] = b.First
		b.End = min(b.End, b.First+int64(c.Count))
		bounds[at] = b
	}
	source, err := c.Registry.Open(ctx, p)
	if err != nil {
		return err
	}
	decoder := wire.Decoder{Map: m}
	if source != nil {
		schemas := registry.New(ctx, source, p.Log, nil)
		schemas.Ask()
		decoder.Frames = schemas.JSON
	}
	made, err := newKeyedRecords(m.Keys)
	if err != nil {
		return flags.Usagef("--try %v", err)
	}
	return client.ReadTo(ctx, from, bounds, func(r *kafka.Record) bool {
		fmt.Fprintf(p.Out, "%s\n", c.line(&decoder, made, &event.Origin{
			Topic: r.Topic, Partition: r.Partition,
			Offset: r.Offset, Key: r.Key, Value: r.Value, Time: r.Time.UnixMilli(),
		}))
		return true
	})
}

// line returns what the map makes of a record.
func (c mapCmd) line(d *wire.Decoder, made *keyedRecords, o *event.Origin) string {
	var text []byte
	var reason event.Reason
	var detail string
	if c.Labels {
		var l event.Label
		reason, detail = d.Label(o, &l)
		text = asJSON(wire.AppendLabel(nil, &l), nil)
	} else {
		var n event.Node
		reason, detail = d.Node(o, &n)
		full := &n
		if n.Origin = o; reason == "" {
			full = made.of(&n)
		}
		text = append(eventText(full), why(&n)...)
		for i := 0; n.Also != nil && i < len(n.Also.Nodes); i++ {
			node := &n.Also.Nodes[i]
			if reason == "" {
				node = made.of(node)
			}
			text = append(append(append(text, "\n  and "...), eventText(node)...), why(&n.Also.Nodes[i])...)
		}
		for i := 0; n.Also != nil && i < len(n.Also.Labels); i++ {
			text = append(append(text, "\n  and the label "...), asJSON(wire.AppendLabel(nil, &n.Also.Labels[i]), nil)...)
		}
	}
	if reason != "" {
		return fmt.Sprintf("%s  refused, %s: %s", o, reason, detail)
	}
	return fmt.Sprintf("%s  %s", o, text)
}

// keyedRecords makes of the records that were read what the keys of a map make of them.
type keyedRecords struct {
	keyed *structure.Keyed // nil for a map without keys
	ids   []event.ID       // of events, by number
}

func newKeyedRecords(text []byte) (*keyedRecords, error) {
	d, err := keys.Parse(text)
	if err != nil {
		return nil, err
	}
	var classes []string
	for _, k := range d {
		classes = append(classes, k.Labels)
	}
	k := &keyedRecords{}
	k.keyed, err = structure.NewKeyed(&attributes.Schema{Keys: d}, classes, func(v int32) event.ID { return k.ids[v] })
	return k, err
}

// of returns an event with what keys make of it.
func (k *keyedRecords) of(n *event.Node) *event.Node {
	full, enters := k.keyed.Derive(n, 0, false)
	k.keyed.Enter(int32(len(k.ids)), enters)
	k.ids = append(k.ids, n.ID.Clone())
	return full
}

// why says which values became gaps, and which edges are removed.
func why(n *event.Node) (text string) {
	var gaps, objects []string
	for i := range n.Named {
		switch a := &n.Named[i]; a.Kind {
		case event.Gap:
			gaps = append(gaps, a.Name)
		case event.Nested:
			objects = append(objects, a.Name)
		}
	}
	if gaps != nil {
		text += fmt.Sprintf("  gaps, null in the record: %s", strings.Join(gaps, ", "))
	}
	if objects != nil {
		text += fmt.Sprintf("  no values, but objects or lists of texts: %s", strings.Join(objects, ", "))
	}
	if unit := spelling.Guess(n.Time); unit != "" {
		text += fmt.Sprintf("  the time looks like %s: give \"unit\" in the map", spelling.UnitNames[unit])
	}
	if n.Edges != nil && len(n.Edges) == 0 {
		text += "  it says nothing: the record is skipped"
	}
	if n.Dropped != nil {
		text += fmt.Sprintf("  without the edges to %v any more", n.Dropped)
	}
	return text
}

// eventText returns a node event in JSON, with the neighbours that enter with it.
func eventText(n *event.Node) []byte {
	more := make(map[string]any)
	if n.Implicit != nil {
		more["implicit"] = n.Implicit
	}
	if n.Dense != nil { // encoded as a block of bytes
		more["features"] = n.Dense
	}
	return asJSON(wire.AppendNode(nil, n), more)
}

// asJSON returns an event of our own encoding in JSON, with more fields.
func asJSON(encoded []byte, more map[string]any) []byte {
	var v any
	err := msgpack.Unmarshal(encoded, &v)
	if fields, ok := v.(map[string]any); ok {
		maps.Copy(fields, more)
	}
	text, wrong := json.Marshal(v)
	if err = cmp.Or(err, wrong); err != nil {
		return []byte(err.Error())
	}
	return text
}
