package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v2"

	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
)

// Map says how records of somebody else's JSON become events: which value is the id, which
// ones are neighbours, features, times and classes. docs/data.md describes its YAML. It is
// immutable.
type Map struct {
	Text   string // the YAML
	Keys   []byte // JSON of the keys of events, which the model's are to be; nil where the map has none
	nodes  []rule
	labels []rule
}

// maxMap bounds the YAML of a map, in bytes: it is in the ledger.
const maxMap = 32 << 10

type mapText struct {
	Nodes  []rule `yaml:"nodes"`
	Labels []rule `yaml:"labels"`
	Keys   any    `yaml:"keys"`
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
	Skip       *condition `yaml:"skip"`   // the record says nothing: a heartbeat, or a change of a table
	Context    bool       `yaml:"context"`
	Each       *pointer   `yaml:"each"` // a list: each item is an event, in which /^ is the record
	Next       bool       `yaml:"next"` // the rules below are used, too

	Node  *origin `yaml:"node"` // of a label
	Class *origin `yaml:"class"`
}

// origin is where a value is, and what is made of it.
type origin struct {
	Pointer  pointer           `yaml:"pointer"`
	Pointers []pointer         `yaml:"pointers"` // of an id of several members, in place of Pointer
	Join     string            `yaml:"join"`     // between these; "" for /
	Item     pointer           `yaml:"item"`     // of neighbours in a list of objects: the id in each
	Kind     string            `yaml:"kind"`     // of the edge to a neighbour
	Weight   pointer           `yaml:"weight"`   // of the edge, in the item or the record
	Or       pointer           `yaml:"or"`       // looked at where Pointer finds nothing
	Optional bool              `yaml:"optional"` // nothing is no error
	Prefix   string            `yaml:"prefix"`   // of an id
	Implicit bool              `yaml:"implicit"` // a neighbour that nobody sends: it is a context node when first named
	Unit     string            `yaml:"unit"`     // of a time: s, ms, us or ns
	Classes  map[string]string `yaml:"map"`      // of a class: names by what is in the record
}

// condition holds where a value is one of the given texts.
type condition struct {
	Pointer pointer `yaml:"pointer"`
	Equals  texts   `yaml:"equals"`
}

type texts []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *texts) UnmarshalYAML(unmarshal func(any) error) error {
	var one string
	if unmarshal(&one) == nil {
		*t = texts{one}
		return nil
	}
	return unmarshal((*[]string)(t))
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
		return nil, errors.New(line(spelling.Mistake([]byte(text), err, t).Error()))
	}
	m := &Map{Text: text}
	if t.Keys != nil {
		var err error
		if m.Keys, err = json.Marshal(asObject(t.Keys)); err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
	}
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
		err := t.Labels[i].checkLabel()
		if err == nil && (t.Labels[i].Each != nil || t.Labels[i].Next) {
			err = errors.New("each and next are of rules under nodes, which may be of labels, too")
		}
		if err != nil {
			return nil, fmt.Errorf("labels, rule %d: %w", i+1, err)
		}
	}
	m.labels = t.Labels
	for what, rules := range map[string][]rule{"nodes": m.nodes, "labels": m.labels} {
		if i := slices.IndexFunc(rules, func(r rule) bool { return r.When == nil && !r.Next }); i >= 0 && i < len(rules)-1 {
			return nil, fmt.Errorf("%s: a rule without when holds always, so those after it are never used: put it last", what)
		}
	}
	if len(m.nodes)+len(m.labels) == 0 {
		return nil, errors.New("no rule: give a list of rules under nodes, or under labels")
	}
	return m, nil
}

// asObject returns a value of YAML as one of JSON.
func asObject(v any) any {
	switch v := v.(type) {
	case map[any]any:
		object := make(map[string]any, len(v))
		for name, value := range v {
			object[fmt.Sprint(name)] = asObject(value)
		}
		return object
	case []any:
		for i := range v {
			v[i] = asObject(v[i])
		}
	}
	return v
}

func (r rule) withPreset() ([]rule, error) {
	fill := func(to **condition, at string, equals ...string) {
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
		fill(&r.Skip, "/op", "t", "m") // a table is emptied; a message beside the tables
		if r.Time == nil {
			r.Time = &origin{Pointer: pointTo("/ts_ms"), Optional: true}
		}
		if r.Features.tokens == nil && r.Numbers == nil {
			r.Features = pointTo("/after")
		}
	case "neo4j-cud":
		edge := rule{
			Source: &origin{Pointer: pointTo("/from/ids/*")}, Target: &origin{Pointer: pointTo("/to/ids/*")},
			When: &condition{pointTo("/type"), texts{"relationship"}}, Remove: &condition{pointTo("/op"), texts{"delete"}},
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
	if r.Node != nil || r.Class != nil { // a label in the topic of nodes
		return r.checkLabel()
	}
	switch {
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
		if o != nil && o.Pointer.tokens == nil && o.Pointers == nil {
			return errors.New("a pointer is missing: give one, as {pointer: /after/id}")
		}
		if o != nil && o.Pointers != nil && (o.Pointer.tokens != nil || o == r.Time || o == r.Class) {
			return errors.New("pointers, a list, are of an id, in place of pointer")
		}
	}
	for _, c := range []*condition{r.When, r.Remove, r.Skip} {
		if c != nil && c.Pointer.tokens == nil {
			return errors.New("a condition has no pointer: give one, as {pointer: /op, equals: d}")
		}
	}
	if r.Time != nil {
		if _, ok := spelling.Unit(r.Time.Unit); !ok {
			return fmt.Errorf("unit %.20q: give %s", r.Time.Unit, spelling.Units)
		}
	}
	return nil
}

func pointersTo(list []origin) (p []*origin) {
	for i := range list {
		p = append(p, &list[i])
	}
	return p
}

// find returns the value that a pointer names, nil if there is none.
func (as *reading) find(f field, p pointer) field {
	tokens := p.tokens
	if as.record != nil && len(tokens) > 0 && tokens[0] == "^" {
		f, tokens = as.record, tokens[1:]
	}
	for _, token := range tokens {
		if !f.given() || token == "*" && !as.first && f.members() > 1 { // a key of several members is none of them
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

func (f field) members() (n int) {
	if f[0] == '{' {
		f.each(func([]byte, field) error { n++; return nil })
	}
	return n
}

// find returns the value of an origin. It is refused that there is none, unless that is allowed.
func (o *origin) find(as *reading, f field, why event.Reason, what string) (field, error) {
	v := as.find(f, o.Pointer)
	if !v.given() && o.Or.tokens != nil {
		v = as.find(f, o.Or)
	}
	if !v.given() && !o.Optional {
		return nil, refusef(why, "%s: the pointer %s finds nothing", what, o.Pointer.text)
	}
	return as.unwrapped(v), nil
}

// holds compares values, whichever way they are written.
func (c *condition) holds(as *reading, f field) bool {
	if c == nil {
		return false
	}
	v := as.unwrapped(as.find(f, c.Pointer))
	if as.first || len(v) == 0 {
		return as.first && c.firstHolds(v)
	}
	text, _ := v.plain()
	return slices.ContainsFunc(c.Equals, func(want string) bool { return as.sameName(text, want) })
}

// id reads an id: with a prefix, or of several members, as text.
func (o *origin) id(in *input, f field, what string, limits Limits) (id event.ID, found bool, err error) {
	if o.Pointers == nil {
		v, err := o.find(&in.reads, f, event.BadID, what)
		if err != nil || !v.given() {
			return id, false, err
		}
		id, err = o.idOf(in, v, what, limits)
		return id, true, err
	}
	var parts []string
	for _, p := range o.Pointers {
		v := in.reads.unwrapped(in.reads.find(f, p))
		if !v.given() && o.Optional {
			return id, false, nil
		}
		if id, err = v.id(limits.MaxID); err != nil {
			return id, false, refusef(event.BadID, "%s: the pointer %s finds no member of an id", what, p.text)
		}
		parts = append(parts, id.String())
	}
	id, err = o.prefixed(in, strings.Join(parts, cmp.Or(o.Join, "/")), what, limits)
	return id, true, err
}

func (o *origin) idOf(in *input, v field, what string, limits Limits) (id event.ID, err error) {
	if id, err = v.id(limits.MaxID); err != nil || o.Prefix == "" {
		return id, err
	}
	return o.prefixed(in, id.String(), what, limits)
}

func (o *origin) prefixed(in *input, text, what string, limits Limits) (id event.ID, err error) {
	if text = o.Prefix + text; len(text) > limits.MaxID {
		return id, refusef(event.BadID, "%s: a string id needs 1 to %d bytes of UTF-8", what, limits.MaxID)
	}
	return event.ID{Str: in.memory.text([]byte(text))}, nil
}

// moment reads a time into milliseconds since 1970, 0 where there is none.
func (o *origin) moment(as *reading, f field) (int64, error) {
	if o == nil {
		return 0, nil
	}
	v, err := o.find(as, f, event.Undecodable, "time")
	if err != nil || !v.given() {
		return 0, err
	}
	one, _ := spelling.Unit(o.Unit)
	if as.first {
		return v.firstInstant(one)
	}
	return v.instant(one)
}

// instant reads a time into milliseconds since 1970: a number of units since then, or a text that is one, or a date.
func (f field) instant(one time.Duration) (at int64, err error) {
	text, err := f.plain()
	if err != nil {
		return 0, err
	}
	at, ok := spelling.Time(text, one)
	if !ok {
		return 0, noTime(string(f))
	}
	return at, nil
}

func noTime(text string) error {
	return refusef(event.Undecodable, "time: %.40s is no time: give a number, or a date such as 2026-03-01T12:00:00Z", text)
}

func (as *reading) choose(rules []rule, f field) (*rule, error) {
	for i := range rules {
		if r := &rules[i]; r.When == nil || r.When.holds(as, f) {
			return r, nil
		}
	}
	return nil, errNoRule
}

var errNoRule = refusef(event.Undecodable, "no rule of the map is for this record")

// payload returns a value without its schema, with which Connect may write it.
func payload(f field) field {
	if len(f) > 0 && f[0] == '{' && f.member("schema").given() && f.member("payload") != nil {
		return f.member("payload")
	}
	return f
}

// root returns the record's value, an object or perhaps a list: of one with its schema, as Connect writes it, the payload.
func (as *reading) root(value []byte, lists bool) (field, error) {
	value, err := as.unframed(value)
	if err != nil {
		return nil, err
	}
	f, err := as.eventJSON(value)
	if err == nil {
		f = payload(f)
	}
	if err == nil && (len(f) == 0 || f[0] != '{' && !(f[0] == '[' && lists)) {
		err = refusef(event.Undecodable, "%.40s where an object is needed", f)
	}
	return f, err
}

func (m *Map) node(in *input, value []byte, n *event.Node, limits Limits) error {
	f, err := in.reads.root(value, slices.ContainsFunc(m.nodes, func(r rule) bool { return r.Each != nil }))
	if err != nil {
		return err
	}
	var also event.Also
	found, nodes := false, 0
	one := func(r *rule, f field) error {
		if r.Node != nil {
			l := event.Label{Origin: n.Origin}
			err := r.label(in, f, &l, limits)
			also.Labels = append(also.Labels, l)
			return err
		}
		to := n
		if nodes++; nodes > 1 {
			also.Nodes = append(also.Nodes, event.Node{Origin: n.Origin})
			to = &also.Nodes[len(also.Nodes)-1]
		}
		return r.node(in, f, to, limits)
	}
	for i := range m.nodes {
		r := &m.nodes[i]
		if r.When != nil && !r.When.holds(&in.reads, f) {
			continue
		}
		found = true
		if in.reads.first || !r.Skip.holds(&in.reads, f) {
			if err := r.each(in, f, limits, one); err != nil {
				return err
			}
		}
		if !r.Next {
			break
		}
	}
	if !found {
		return errNoRule
	}
	if nodes == 0 {
		n.Edges = []event.Edge{} // an event that changes nothing
	}
	if also.Nodes != nil || also.Labels != nil {
		n.Also = &also
	}
	return nil
}

const maxEvents = 4096

// each calls one with the record, or with each item of its list.
func (r *rule) each(in *input, f field, limits Limits, one func(*rule, field) error) error {
	if r.Each == nil && f[0] != '{' {
		return refusef(event.Undecodable, "%.40s where an object is needed", f)
	} else if r.Each == nil {
		return one(r, f)
	}
	list := in.reads.find(f, *r.Each)
	if len(list) == 0 || list[0] != '[' {
		return refusef(event.Undecodable, "each: the pointer %s finds no list", r.Each.text)
	}
	in.reads.record = f
	defer func() { in.reads.record = nil }()
	return list.items(limits.MaxNeighbours, func(i int, item field) error {
		if i >= maxEvents {
			return refusef(event.TooLarge, "more than %d events in a record", maxEvents)
		}
		return one(r, item)
	})
}

// node reads a record, or an item of one, as a node or an edge.
func (r *rule) node(in *input, f field, n *event.Node, limits Limits) (err error) {
	remove := r.Remove.holds(&in.reads, f)
	if n.Time, err = r.Time.moment(&in.reads, f); err != nil && (!remove || in.reads.first) { // what leaves may have none
		return err
	}
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
		if err := r.Neighbours[i].neighbours(in, f, n, limits); err != nil {
			return err
		}
	}
	return r.dropped(in, f, n, limits)
}

// neighbours adds the neighbours that an origin names: one, or those of a list.
func (o *origin) neighbours(in *input, f field, n *event.Node, limits Limits) error {
	add := func(id event.ID, places ...field) error {
		mark := event.Mark{Kind: o.Kind}
		var err error
		if mark.Weight, err = o.weight(in, places); err != nil {
			return err
		}
		if n.Neighbours = append(n.Neighbours, id); mark != (event.Mark{}) || n.Marks != nil {
			n.Marks = append(append(n.Marks, make([]event.Mark, len(n.Neighbours)-1-len(n.Marks))...), mark)
		}
		if o.Implicit {
			n.Implicit = append(n.Implicit, id)
		}
		return nil
	}
	if o.Pointers == nil {
		v, err := o.find(&in.reads, f, event.BadID, "neighbours")
		if err != nil || !v.given() || in.reads.isUnavailable(v) {
			return err
		}
		if v[0] == '[' && !in.reads.first {
			return v.items(limits.MaxNeighbours, func(_ int, item field) error {
				id, err := o.idOf(in, in.reads.unwrapped(in.reads.find(item, o.Item)), "neighbours", limits)
				if err == nil {
					err = add(id, item, f)
				}
				return err
			})
		}
	}
	id, found, err := o.id(in, f, "neighbours", limits)
	if err == nil && found {
		err = add(id, f)
	}
	return err
}

// weight returns the weight of an edge, which is in the first of the places that has one: the item of a list, or the record. Where none
// has, it is 1 for an optional neighbour.
func (o *origin) weight(in *input, places []field) (float32, error) {
	if o.Weight.tokens == nil {
		return 0, nil
	}
	for _, f := range places {
		w := in.reads.unwrapped(in.reads.find(f, o.Weight))
		if !w.given() {
			continue
		}
		v, err := strconv.ParseFloat(strings.Trim(string(w), `"`), 32)
		if err != nil || !(v >= event.LeastWeight && v <= event.LargestWeight) {
			return 0, refusef(event.BadFeatures, "the pointer %s finds the weight %.40s, want a number from %g to %g",
				o.Weight.text, w, event.LeastWeight, event.LargestWeight)
		}
		return float32(v), nil
	}
	if o.Optional || in.reads.first {
		return 0, nil
	}
	return 0, refusef(event.BadFeatures, "the pointer %s finds no weight", o.Weight.text)
}

// dropped lists the neighbours that a change record names in before, and not in after.
func (r *rule) dropped(in *input, f field, n *event.Node, limits Limits) error {
	if in.reads.first || !in.reads.find(f, before).given() {
		return nil
	}
	var was event.Node
	for i := range r.Neighbours {
		o := r.Neighbours[i]
		if len(o.Pointer.tokens) < 2 || o.Pointer.tokens[0] != "after" || in.reads.unwrapped(in.reads.find(f, o.Pointer)).unavailable() {
			continue
		}
		o.Pointer.tokens = append([]string{"before"}, o.Pointer.tokens[1:]...)
		o.Optional, o.Or, o.Weight = true, pointer{}, pointer{}
		if err := o.neighbours(in, f, &was, limits); err != nil {
			return err
		}
	}
	for _, id := range was.Neighbours {
		if !slices.Contains(n.Neighbours, id) {
			n.Dropped = append(n.Dropped, id)
		}
	}
	return nil
}

var before = pointTo("/before")

// features reads the features of a node: none where the rule names none.
func (r *rule) features(in *input, f field, n *event.Node, limits Limits) (err error) {
	switch {
	case r.Numbers != nil:
		n.Dense = in.memory.numbers.cut(len(r.Numbers))
		for i, p := range r.Numbers {
			v, err := strconv.ParseFloat(strings.Trim(string(in.reads.unwrapped(in.reads.find(f, p))), `"`), 32)
			if err != nil {
				return refusef(event.BadFeatures, "the pointer %s finds no number", p.text)
			}
			n.Dense[i] = float32(v)
		}
	case r.Features.tokens == nil:
		n.Index = []uint32{}
	default:
		v := in.reads.find(f, r.Features)
		if !v.given() {
			return refusef(event.BadFeatures, "features: the pointer %s finds nothing", r.Features.text)
		}
		if v[0] != '{' {
			n.Dense, err = v.numbers(limits)
			return err
		}
		n.Named, err = v.mapped(in, limits)
	}
	return err
}

func (m *Map) label(in *input, value []byte, l *event.Label, limits Limits) error {
	f, err := in.reads.root(value, false)
	if err != nil {
		return err
	}
	r, err := in.reads.choose(m.labels, f)
	if err != nil {
		return err
	}
	if l.Skip = !in.reads.first && r.Skip.holds(&in.reads, f); l.Skip {
		return nil
	}
	return r.label(in, f, l, limits)
}

// label reads a record, or an item of one, as a label.
func (r *rule) label(in *input, f field, l *event.Label, limits Limits) (err error) {
	if l.Node, _, err = r.Node.id(in, f, "node", limits); err != nil {
		return err
	}
	if l.Time, err = r.Time.moment(&in.reads, f); err != nil {
		return err
	}
	if l.Withdrawn = r.Remove.holds(&in.reads, f); l.Withdrawn {
		return nil
	}
	v, err := r.Class.find(&in.reads, f, event.UnknownClass, "class")
	if err != nil {
		return err
	}
	if !v.given() {
		l.Withdrawn = true
		return nil
	}
	if !in.reads.first && r.Class.Classes == nil && v[0] != '"' { // as in our own format
		return class(l, &v, limits)
	}
	if l.Class, err = v.plain(); err != nil {
		return err
	}
	name, known := r.Class.Classes[l.Class]
	for from, to := range r.Class.Classes {
		if !known && in.reads.sameName(from, l.Class) {
			name, known = to, true
		}
	}
	if known {
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
	value, _, err := in.reads.keyValue(key)
	if err != nil {
		return err
	}
	if looksLikeJSON(value) {
		f, err := in.reads.eventJSON(value)
		if err != nil {
			return err
		}
		if f = payload(f); in.reads.first && (len(f) == 0 || f[0] != '{') {
			return refusef(event.Undecodable, "%.40s where an object is needed", f)
		} else if f.given() && f[0] == '{' {
			last := func(p pointer) pointer {
				p.tokens = p.tokens[max(len(p.tokens)-1, 0):]
				return p
			}
			o.Pointer, o.Pointers = last(o.Pointer), slices.Clone(o.Pointers)
			for k := range o.Pointers {
				o.Pointers[k] = last(o.Pointers[k])
			}
			n.ID, _, err = o.id(in, f, "id, in the key of a null value", limits)
			return err
		}
	}
	if o.Pointers != nil {
		return refusef(event.BadID, "a null value removes the node that the key names, but the key is no object with the members of the id")
	}
	if in.reads.first && o.Prefix != "" {
		err := departure(in, append([]byte(o.Prefix), key...), n, limits)
		n.ID, n.ByKey = event.ID{Str: o.Prefix + string(key)}, false
		return err
	}
	err = departure(in, key, n, limits)
	if o.Prefix != "" && err == nil {
		n.ByKey = false
		n.ID, err = o.prefixed(in, n.ID.String(), "id, in the key of a null value", limits)
	}
	return err
}
