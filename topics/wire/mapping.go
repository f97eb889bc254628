package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v2"

	"github.com/gvbll/gvbll/pipeline/event"
)

// Map says how records of somebody else's JSON become events: which value is the id, which
// ones are neighbours, features, times and classes. docs/data.md describes its YAML. It is
// immutable.
type Map struct {
	Text   string // the YAML
	nodes  []rule
	labels []rule
}

// maxMap bounds the YAML of a map, in bytes: it is in the ledger.
const maxMap = 32 << 10

// mapText is the YAML of a map.
type mapText struct {
	Nodes  []rule `yaml:"nodes"`
	Labels []rule `yaml:"labels"`
}

// rule maps a record to an event. The first rule whose When holds is used.
type rule struct {
	Preset     string     `yaml:"preset"` // debezium or neo4j-cud: values for what is left out
	When       *condition `yaml:"when"`
	ID         *origin    `yaml:"id"`
	Source     *origin    `yaml:"source"` // with Target: the record is an edge
	Target     *origin    `yaml:"target"`
	Time       *origin    `yaml:"time"`
	Features   pointer    `yaml:"features"` // an object of values by name, or a list of numbers
	Numbers    []pointer  `yaml:"numbers"`  // or a number each
	Neighbours []origin   `yaml:"neighbours"`
	Remove     *condition `yaml:"remove"` // the node leaves, the edge is removed, or the label is withdrawn
	Context    bool       `yaml:"context"`

	Node  *origin `yaml:"node"` // of a label
	Class *origin `yaml:"class"`
}

// origin is where a value is, and what is made of it.
type origin struct {
	Pointer  pointer           `yaml:"pointer"`
	Or       pointer           `yaml:"or"`       // looked at where Pointer finds nothing
	Optional bool              `yaml:"optional"` // nothing is no error
	Prefix   string            `yaml:"prefix"`   // of an id
	Implicit bool              `yaml:"implicit"` // a neighbour that nobody sends: it is a context node when first named
	Unit     string            `yaml:"unit"`     // of a time: s, ms, us or ns
	Classes  map[string]string `yaml:"map"`      // of a class: names by what is in the record
}

// condition holds where a value is the given text.
type condition struct {
	Pointer pointer `yaml:"pointer"`
	Equals  string  `yaml:"equals"`
}

// pointer is an RFC 6901 pointer, in which the token * is an object's only member.
type pointer struct {
	text   string
	tokens []string
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *pointer) UnmarshalYAML(unmarshal func(any) error) error {
	if err := unmarshal(&p.text); err != nil {
		return err
	}
	if p.text != "" && p.text[0] != '/' {
		return fmt.Errorf("pointer %.60q: begin it with /, as /after/id", p.text)
	}
	p.set(p.text)
	return nil
}

func (p *pointer) set(text string) {
	p.text, p.tokens = text, strings.Split(text, "/")[1:]
	for i, token := range p.tokens {
		p.tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	}
}

func pointTo(text string) (p pointer) { p.set(text); return p }

// ParseMap reads a map. The error is one line with the remedy.
func ParseMap(text string) (*Map, error) {
	if len(text) > maxMap {
		return nil, fmt.Errorf("a map of %d bytes, the limit is %d", len(text), maxMap)
	}
	var t mapText
	if err := yaml.UnmarshalStrict([]byte(text), &t); err != nil {
		return nil, errors.New(line(err.Error()))
	}
	m := &Map{Text: text}
	for i := range t.Nodes {
		rules, err := t.Nodes[i].withPreset()
		for k := 0; k < len(rules) && err == nil; k++ {
			err = rules[k].checkNode()
		}
		if err != nil {
			return nil, fmt.Errorf("nodes, rule %d: %w", i+1, err)
		}
		m.nodes = append(m.nodes, rules...)
	}
	for i := range t.Labels {
		if err := t.Labels[i].checkLabel(); err != nil {
			return nil, fmt.Errorf("labels, rule %d: %w", i+1, err)
		}
	}
	m.labels = t.Labels
	for what, rules := range map[string][]rule{"nodes": m.nodes, "labels": m.labels} {
		if i := slices.IndexFunc(rules, func(r rule) bool { return r.When == nil }); i >= 0 && i < len(rules)-1 {
			return nil, fmt.Errorf("%s: a rule without when holds always, so those after it are never used: put it last", what)
		}
	}
	if len(m.nodes)+len(m.labels) == 0 {
		return nil, errors.New("no rule: give a list of rules under nodes, or under labels")
	}
	return m, nil
}

// withPreset returns the rules that a rule stands for.
func (r rule) withPreset() ([]rule, error) {
	fill := func(to **condition, at, equals string) {
		if *to == nil {
			*to = &condition{pointTo(at), equals}
		}
	}
	switch r.Preset {
	case "":
	case "debezium":
		if r.ID == nil {
			return nil, errors.New("preset debezium: give the id, as {pointer: /after/id, or: /before/id}")
		}
		fill(&r.Remove, "/op", "d")
		if r.Time == nil {
			r.Time = &origin{Pointer: pointTo("/ts_ms"), Optional: true}
		}
		if r.Features.tokens == nil && r.Numbers == nil {
			r.Features = pointTo("/after")
		}
	case "neo4j-cud":
		edge := rule{
			Source: &origin{Pointer: pointTo("/from/ids/*")}, Target: &origin{Pointer: pointTo("/to/ids/*")},
			When: &condition{pointTo("/type"), "relationship"}, Remove: &condition{pointTo("/op"), "delete"},
		}
		if r.ID == nil {
			r.ID = &origin{Pointer: pointTo("/ids/*")}
		}
		edge.Source.Prefix, edge.Target.Prefix = r.ID.Prefix, r.ID.Prefix
		fill(&r.When, "/type", "node")
		fill(&r.Remove, "/op", "delete")
		if r.Features.tokens == nil && r.Numbers == nil {
			r.Features = pointTo("/properties")
		}
		return []rule{r, edge}, nil
	default:
		return nil, fmt.Errorf("preset %.40q: give debezium or neo4j-cud", r.Preset)
	}
	return []rule{r}, nil
}

func (r *rule) checkNode() error {
	switch {
	case r.Node != nil || r.Class != nil:
		return errors.New("node and class are of labels")
	case (r.Source == nil) != (r.Target == nil):
		return errors.New("an edge needs source and target")
	case (r.ID == nil) == (r.Source == nil):
		return errors.New("give the id of a node, or source and target of an edge")
	case r.Features.tokens != nil && r.Numbers != nil:
		return errors.New("features and numbers: give one of them")
	case r.Source != nil && (r.Features.tokens != nil || r.Numbers != nil || r.Neighbours != nil):
		return errors.New("an edge has no features and neighbours")
	}
	return r.checkOrigins(append(pointersTo(r.Neighbours), r.ID, r.Source, r.Target)...)
}

func (r *rule) checkLabel() error {
	if r.Node == nil || r.Class == nil || r.ID != nil || r.Features.tokens != nil || r.Preset != "" {
		return errors.New("give node and class, and no id, features or preset")
	}
	return r.checkOrigins(r.Node, r.Class)
}

// checkOrigins checks what rules of both kinds have. Origins may be nil.
func (r *rule) checkOrigins(origins ...*origin) error {
	for _, o := range append(origins, r.Time) {
		if o != nil && o.Pointer.tokens == nil {
			return errors.New("a pointer is missing: give one, as {pointer: /after/id}")
		}
	}
	for _, c := range []*condition{r.When, r.Remove} {
		if c != nil && c.Pointer.tokens == nil {
			return errors.New("a condition has no pointer: give one, as {pointer: /op, equals: d}")
		}
	}
	if r.Time != nil && unit(r.Time.Unit) == 0 {
		return fmt.Errorf("unit %.20q: give s, ms, us or ns", r.Time.Unit)
	}
	return nil
}

func pointersTo(list []origin) (p []*origin) {
	for i := range list {
		p = append(p, &list[i])
	}
	return p
}

// unit returns the length of a unit of time, 0 if it is none.
func unit(name string) time.Duration {
	return map[string]time.Duration{"": time.Millisecond, "s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": time.Nanosecond}[name]
}

// find returns the value that a pointer names, nil if there is none.
func (f field) find(p pointer) field {
	for _, token := range p.tokens {
		if !f.given() {
			return nil
		}
		f = f.member(token)
	}
	return f
}

// member returns a member of an object, or an item of a list, nil if there is none.
func (f field) member(token string) (found field) {
	switch f[0] {
	case '{':
		f.each(func(name []byte, value field) error { // a member that comes twice: the last one
			if string(name) == token || token == "*" {
				found = value
			}
			return nil
		})
	case '[':
		i, err := strconv.Atoi(token)
		if err != nil || i < 0 || strconv.Itoa(i) != token {
			return nil
		}
		for rest := trimLeft(f[1:]); rest[0] != ']'; i-- {
			var item field
			if item, rest = cutItem(rest); i == 0 {
				return item
			}
		}
	}
	return found
}

// find returns the value of an origin. It is refused that there is none, unless that is allowed.
func (o *origin) find(f field, why event.Reason, what string) (field, error) {
	v := f.find(o.Pointer)
	if !v.given() && o.Or.tokens != nil {
		v = f.find(o.Or)
	}
	if !v.given() && !o.Optional {
		return nil, refusef(why, "%s: the pointer %s finds nothing", what, o.Pointer.text)
	}
	return v, nil
}

func (c *condition) holds(f field) bool {
	v := f.find(c.Pointer)
	return v != nil && (string(v) == c.Equals || string(v) == strconv.Quote(c.Equals))
}

// id reads an id: with a prefix, the prefix and the value as text.
func (o *origin) id(in *input, f field, what string, limits Limits) (id event.ID, found bool, err error) {
	v, err := o.find(f, event.BadID, what)
	if err != nil || !v.given() {
		return id, false, err
	}
	if id, err = v.id(limits.MaxID); err != nil || o.Prefix == "" {
		return id, true, err
	}
	text := o.Prefix + id.String()
	if len(text) > limits.MaxID {
		return id, true, refusef(event.BadID, "%s: a string id needs 1 to %d bytes of UTF-8", what, limits.MaxID)
	}
	return event.ID{Str: in.memory.text([]byte(text))}, true, nil
}

// moment reads a time into milliseconds since 1970, 0 where there is none.
func (o *origin) moment(f field) (int64, error) {
	if o == nil {
		return 0, nil
	}
	v, err := o.find(f, event.Undecodable, "time")
	if err != nil || !v.given() {
		return 0, err
	}
	if v[0] == '"' {
		t, err := time.Parse(time.RFC3339Nano, string(v[1:len(v)-1]))
		if err != nil {
			return 0, refusef(event.Undecodable, "time: %.40s is no date such as 2026-03-01T12:00:00Z", v)
		}
		return t.UnixMilli(), nil
	}
	n, err := v.integer()
	if one := unit(o.Unit); one >= time.Millisecond {
		if most := int64(1<<62) / int64(one/time.Millisecond); n > most || n < -most {
			return 0, refusef(event.Undecodable, "time: %.40s is too large", v)
		}
		return n * int64(one/time.Millisecond), err
	} else {
		return n / int64(time.Millisecond/one), err
	}
}

// choose returns the rule of a record.
func choose(rules []rule, f field) (*rule, error) {
	for i := range rules {
		if r := &rules[i]; r.When == nil || r.When.holds(f) {
			return r, nil
		}
	}
	return nil, refusef(event.Undecodable, "no rule of the map is for this record")
}

// root returns the record's value: of one with its schema, as Connect writes it, the payload.
func root(value []byte) (field, error) {
	f, err := valueJSON(value)
	if err == nil && f[0] == '{' && f.member("schema").given() && f.member("payload") != nil {
		f = f.member("payload")
	}
	if err == nil && (len(f) == 0 || f[0] != '{') {
		err = refusef(event.Undecodable, "%.40s where an object is needed", f)
	}
	return f, err
}

// node reads a record of the nodes topic.
func (m *Map) node(in *input, value []byte, n *event.Node, limits Limits) error {
	f, err := root(value)
	if err != nil {
		return err
	}
	r, err := choose(m.nodes, f)
	if err != nil {
		return err
	}
	if n.Time, err = r.Time.moment(f); err != nil {
		return err
	}
	remove := r.Remove != nil && r.Remove.holds(f)
	if r.ID == nil {
		e := event.Edge{Remove: remove}
		if e.Source, _, err = r.Source.id(in, f, "source", limits); err != nil {
			return err
		}
		if e.Target, _, err = r.Target.id(in, f, "target", limits); err != nil {
			return err
		}
		n.ID, n.Edges = e.Source, append(in.memory.edges.cut(1)[:0], e)
		return nil
	}
	if n.ID, _, err = r.ID.id(in, f, "id", limits); err != nil {
		return err
	}
	if n.Departed = remove; remove {
		return nil
	}
	n.Context = r.Context
	if err := r.features(in, f, n, limits); err != nil {
		return err
	}
	for i := range r.Neighbours {
		o := &r.Neighbours[i]
		id, found, err := o.id(in, f, "neighbours", limits)
		if err != nil {
			return err
		}
		if found {
			n.Neighbours = append(n.Neighbours, id)
			if o.Implicit {
				n.Implicit = append(n.Implicit, id)
			}
		}
	}
	return nil
}

// features reads the features of a node: none where the rule names none.
func (r *rule) features(in *input, f field, n *event.Node, limits Limits) (err error) {
	switch {
	case r.Numbers != nil:
		n.Dense = in.memory.numbers.cut(len(r.Numbers))
		for i, p := range r.Numbers {
			v, err := strconv.ParseFloat(strings.Trim(string(f.find(p)), `"`), 32)
			if err != nil {
				return refusef(event.BadFeatures, "the pointer %s finds no number", p.text)
			}
			n.Dense[i] = float32(v)
		}
	case r.Features.tokens == nil:
		n.Index = []uint32{}
	default:
		v := f.find(r.Features)
		if !v.given() {
			return refusef(event.BadFeatures, "features: the pointer %s finds nothing", r.Features.text)
		}
		if v[0] != '{' {
			n.Dense, err = v.numbers(limits)
			return err
		}
		n.Named, err = v.namedWhere(in, limits, field.isValue)
	}
	return err
}

// label reads a record of the labels topic.
func (m *Map) label(in *input, value []byte, l *event.Label, limits Limits) error {
	f, err := root(value)
	if err != nil {
		return err
	}
	r, err := choose(m.labels, f)
	if err != nil {
		return err
	}
	if l.Node, _, err = r.Node.id(in, f, "node", limits); err != nil {
		return err
	}
	if l.Time, err = r.Time.moment(f); err != nil {
		return err
	}
	if l.Withdrawn = r.Remove != nil && r.Remove.holds(f); l.Withdrawn {
		return nil
	}
	v, err := r.Class.find(f, event.UnknownClass, "class")
	if err != nil {
		return err
	}
	if !v.given() {
		l.Withdrawn = true
		return nil
	}
	l.Class = strings.Trim(string(v), `"`)
	if v[0] == '"' {
		if err := json.Unmarshal(v, &l.Class); err != nil {
			return err
		}
	}
	if name, known := r.Class.Classes[l.Class]; known {
		l.Class = name
	} else if r.Class.Classes != nil {
		return refusef(event.UnknownClass, "class: %.60q is not in the map", l.Class)
	}
	if len(l.Class) > limits.MaxID {
		return refusef(event.UnknownClass, "a class of %d bytes, the limit is %d", len(l.Class), limits.MaxID)
	}
	return checkName(l, nil)
}

// departure reads the key of a null value: JSON, of which the id's pointers find it by their
// last token, or the id itself.
func (m *Map) departure(in *input, key []byte, n *event.Node, limits Limits) error {
	n.Departed = true
	i := slices.IndexFunc(m.nodes, func(r rule) bool { return r.ID != nil })
	if i < 0 {
		return refusef(event.Empty, "the value is null, and the map has no rule with an id")
	}
	o := *m.nodes[i].ID
	if looksLikeJSON(key) {
		f, err := root(key)
		if err != nil {
			return err
		}
		o.Pointer.tokens = o.Pointer.tokens[max(len(o.Pointer.tokens)-1, 0):]
		n.ID, _, err = o.id(in, f, "id, in the key of a null value", limits)
		return err
	}
	if o.Prefix == "" {
		return in.departure(key, n, limits)
	}
	err := in.departure(append([]byte(o.Prefix), key...), n, limits)
	n.ID, n.ByKey = event.ID{Str: o.Prefix + string(key)}, false
	return err
}
