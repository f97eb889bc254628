package wire

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
)

// Command decodes a command into c, overwriting it. The results are as Node's.
// Commands are JSON whatever the content-type header, because people write them.
func (d *Decoder) Command(o *event.Origin, c *event.Command) (reason event.Reason, detail string) {
	*c = event.Command{Origin: o}
	in, limits := d.begin()
	err := checkLength(o, limits)
	if err == nil {
		err = in.commandJSON(o.Value, c, limits)
	}
	return verdict(err)
}

func (in *input) commandJSON(b []byte, c *event.Command, limits Limits) error {
	b, err := in.reads.unframed(b)
	if err != nil {
		return err
	}
	text, err := in.reads.eventJSON(b)
	if err != nil {
		return err
	}
	var members [4]field
	if err := in.membersOf(text, []string{"command", "model", "rule", "nodes"}, members[:]); err != nil {
		return err
	}
	for i, to := range []*string{&c.Name, &c.Model, &c.Rule} {
		if members[i].given() {
			if *to, err = members[i].text(limits.MaxID); err != nil {
				return refusef(event.UnknownCommand, "%.40s is not a string of at most %d bytes", members[i], limits.MaxID)
			}
		}
	}
	if members[3].given() {
		nodes, marks, err := in.neighbours(&members[3], limits)
		if err != nil || marks != nil {
			return cmp.Or(err, refusef(event.BadID, "nodes are ids, and not objects"))
		}
		c.Nodes = slices.Clone(nodes) // a command outlives its block
	}
	if _, err := event.ParseRule(c.Rule); err != nil {
		return refusef(event.UnknownCommand, "rule %v", err)
	}
	switch {
	case c.Name == "":
		return refusef(event.UnknownCommand, "there is no command")
	case (c.Name == event.Promote || c.Name == event.Shadow) && c.Model == "":
		return refusef(event.UnknownCommand, "%s needs a model", c.Name)
	case c.Name == event.Forget && len(c.Nodes) == 0:
		return refusef(event.UnknownCommand, "forget needs nodes")
	case c.Name != event.Promote && c.Name != event.Shadow && c.Name != event.Forget:
		return refusef(event.UnknownCommand, "there is no command %.40q", c.Name)
	}
	return nil
}

// AppendCommand appends a command as JSON.
func AppendCommand(dst []byte, c *event.Command) []byte {
	b, err := json.Marshal(struct {
		Command string     `json:"command"`
		Model   string     `json:"model,omitempty"`
		Rule    string     `json:"rule,omitempty"`
		Nodes   []event.ID `json:"nodes,omitempty"`
	}{c.Name, c.Model, c.Rule, c.Nodes})
	if err != nil {
		panic(err) // strings and integers only
	}
	return append(dst, b...)
}
