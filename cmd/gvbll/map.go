package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

type mapCmd struct {
	Kafka flags.Kafka `embed:""`

	Try    string `help:"File of the map." required:"" type:"existingfile" placeholder:"FILE"`
	Topic  string `help:"Topic to read." required:"" placeholder:"TOPIC"`
	Labels bool   `help:"The records are labels, not nodes."`
	Count  int    `help:"Number of records to read of each partition." default:"10" short:"n"`
}

// Help is shown by gvbll map --help.
func (mapCmd) Help() string {
	return "Reads the first records of a topic, and prints what a map makes of each: an event, in our own format as JSON, or why it is refused. Nothing is written."
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
	decoder := wire.Decoder{Map: m}
	return client.ReadTo(ctx, from, bounds, func(r *kafka.Record) bool {
		fmt.Fprintf(p.Out, "%s\n", c.line(&decoder, &event.Origin{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value}))
		return true
	})
}

// line returns what the map makes of a record.
func (c mapCmd) line(d *wire.Decoder, o *event.Origin) string {
	if c.Labels {
		var l event.Label
		if reason, detail := d.Label(o, &l); reason != "" {
			return fmt.Sprintf("%s  refused, %s: %s", o, reason, detail)
		}
		text, _ := json.Marshal(struct {
			Node  event.ID `json:"node"`
			Class *string  `json:"class"`
			Time  int64    `json:"time,omitempty"`
		}{l.Node, classOf(&l), l.Time})
		return fmt.Sprintf("%s  %s", o, text)
	}
	var n event.Node
	if reason, detail := d.Node(o, &n); reason != "" {
		return fmt.Sprintf("%s  refused, %s: %s", o, reason, detail)
	}
	return fmt.Sprintf("%s  %s", o, eventText(&n))
}

// classOf returns the class of a label, nil for one that is withdrawn.
func classOf(l *event.Label) *string {
	if l.Withdrawn {
		return nil
	}
	return &l.Class
}

// eventText returns a node event in JSON, with the neighbours that enter with it.
func eventText(n *event.Node) []byte {
	v := struct {
		ID         *event.ID  `json:"id,omitempty"`
		Source     *event.ID  `json:"source,omitempty"`
		Target     *event.ID  `json:"target,omitempty"`
		Remove     bool       `json:"remove,omitempty"`
		Departed   bool       `json:"departed,omitempty"`
		Features   any        `json:"features,omitempty"`
		Neighbours []event.ID `json:"neighbours,omitempty"`
		Implicit   []event.ID `json:"implicit,omitempty"`
		Context    bool       `json:"context,omitempty"`
		Time       int64      `json:"time,omitempty"`
	}{ID: &n.ID, Departed: n.Departed, Neighbours: n.Neighbours, Implicit: n.Implicit, Context: n.Context, Time: n.Time}
	if n.Edges != nil {
		e := &n.Edges[0]
		v.ID, v.Source, v.Target, v.Remove = nil, &e.Source, &e.Target, e.Remove
	}
	if n.Named != nil {
		named := make(map[string]any)
		for i := range n.Named {
			a := &n.Named[i]
			switch a.Kind {
			case event.Gap:
				named[a.Name] = nil
			case event.Number:
				named[a.Name] = a.Number
			case event.Bool:
				named[a.Name] = a.Number != 0
			case event.Numbers:
				named[a.Name] = a.Numbers
			default:
				named[a.Name] = a.Text
			}
		}
		v.Features = named
	} else if n.Dense != nil {
		v.Features = n.Dense
	}
	text, err := json.Marshal(v)
	if err != nil {
		return []byte(err.Error())
	}
	return text
}
