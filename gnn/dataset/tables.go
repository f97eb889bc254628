package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/keys"
	"github.com/gvbll/gvbll/gnn/spelling"
)

// openTables reads a table of nodes and a table of edges, see [Open].
func openTables(f folder) (*Dataset, error) {
	d := &Dataset{Name: f.name}
	text, err := f.description()
	if err != nil {
		return nil, err
	}
	if text.Keys != nil {
		if d.Keys, err = keys.Parse(text.Keys); err != nil {
			return nil, fmt.Errorf("%s.json: %w", text.path, err)
		}
	}
	start := func() *nodeTable {
		n := newNodeTable(f.memory, &text)
		n.labelTimeAt, n.labelsApart = text.LabelTime, slices.ContainsFunc(namesOfLabels, f.has)
		return n
	}
	n := start()
	if err = f.records("nodes", n.header, n.row); err != nil && n.texts.isNotNumbers {
		n = start()
		n.texts.named = true
		err = f.records("nodes", n.header, n.row)
	}
	if err != nil {
		return nil, err
	}
	if len(n.labels) == 0 {
		return nil, fmt.Errorf("%s has no nodes", f.path("nodes"))
	}
	if err := f.readLabels(n); err != nil {
		return nil, err
	}
	d.Dim = max(n.features.dim, min(text.Dim, maxDim), 1) // at least one, which may be 0 for all
	d.Time, d.Context = n.times, n.inContext
	if n.texts.named {
		d.Table, d.Features = n.texts.table, make([]gnn.Vector, len(n.ids))
		err = inferKinds(d)
	} else {
		d.Features, d.Sparse, err = n.features.x.finish(d.Dim)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path("nodes"), err)
	}
	if n.texts.named {
		noteTimes(d)
	}
	labels, notes := labelled(n.labels, &text)
	d.Notes = append(d.Notes, notes...)
	if d.Classes, d.Labels = classesOf(labels); len(d.Classes) > maxClasses {
		return nil, fmt.Errorf("%s: %d distinct labels, want at most %d", f.path("nodes"), len(d.Classes), maxClasses)
	}
	if err := text.complete(d, labels); err != nil {
		return nil, err
	}
	d.Notes = append(append(d.Notes, n.said...), n.notes(d.Classes)...)
	noteClasses(d, &text)
	switch {
	case n.parts != nil && d.Given != nil:
		return nil, fmt.Errorf("%s has a column split, and %s.json a split: keep one", f.path("nodes"), f.path("dataset"))
	case n.parts != nil:
		giveSplit(d, n.parts, "column split")
	}
	e := edgeTable{memory: f.memory, number: n.number}
	if d.Keys == nil || f.has("edges") {
		if err := f.records("edges", e.header, e.row); err != nil {
			return nil, err
		}
	}
	d.IDs, d.Edges = idsOf(n.ids), e.edges
	if err := d.setLabelTimes(n.labelTimes); err != nil {
		return nil, fmt.Errorf("%s%s %w", f.path("nodes"), strings.Join(f.present("nodes"), ""), err)
	}
	d.Mark(e.kinds, e.marks)
	if d.Keys != nil {
		if err := checkKeys(d); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path("nodes"), err)
		}
	}
	return d, nil
}

type nodeTable struct {
	id, label, vector int          // columns, -1 where there is none; vector has all features, and none if each has its own
	others            []cellReader // of the other columns that are no features
	columns           []int        // of single features, in order
	names             []string     // of all columns, for messages

	ofGraphs    bool // the rows are graphs, which have no features
	labelsApart bool // a table of labels may have those of all nodes
	memory      *budget
	number      map[string]int32 // a node's number by its id
	ids         []string         // by node
	labels      []string         // by node, "" for none
	times       []float64        // by node
	eras        eras             // of times, unless anyTime
	anyTime     bool
	// labelTimes are those of labels by node, NaN for none.
	labelTimes []float64
	// labelTimeAt is the column that has them, label_time unless dataset.json names another.
	labelTimeAt string
	parts       []Part // by node
	inContext   []bool // by node
	features    vectors
	texts       attributeTexts

	watched []watched // by feature
	said    []string  // of the header
}

type cellReader struct {
	name string
	at   int
	read func(text string) error
}

// attributeTexts are the columns of features as attributes, whose texts are kept, if named is set: because some
// have kinds, or because isNotNumbers was set when they were read as numbers.
type attributeTexts struct {
	named        bool
	isNotNumbers bool
	kinds        map[string]attributes.Given
	names        map[string]string // of attributes by their columns, where they are others
	table        []attributes.Column
}

type vectors struct {
	x   features
	dim int // of pairs, one more than the largest index so far

	// What the column vector holds: nothing yet, index:value pairs, or lists of numbers.
	form vectorForm
	// Storage for the features of one row.
	dense []float32
	index []uint32
	value []float32
	last  int // index of the latest pair, -1 before the first
}

func newNodeTable(memory *budget, text *description) *nodeTable {
	return &nodeTable{
		memory: memory, number: make(map[string]int32), features: vectors{x: features{memory: memory}},
		anyTime: text.Time == "any",
		texts: attributeTexts{
			named: len(text.Columns)+len(text.Attributes)+len(text.Keys) > 0, kinds: text.Columns, names: text.Attributes,
		},
	}
}

type vectorForm uint8

const (
	unknownForm vectorForm = iota
	pairs
	lists
)

func (t *nodeTable) header(fields []string) error {
	t.names = fields
	if err := unique(fields); err != nil {
		return err
	}
	t.id, t.label, t.vector = placeOf(fields, "id"), placeOf(fields, "label"), placeOf(fields, "features")
	labelTime := cmp.Or(t.labelTimeAt, "label_time")
	switch {
	case t.id < 0 || t.label < 0 && !t.labelsApart:
		return fmt.Errorf("the header is %.80q, want columns id and label, in lower case", strings.Join(fields, ","))
	case t.labelTimeAt != "" && !slices.Contains(fields, labelTime):
		return fmt.Errorf("dataset.json names the column %.40q for the times of labels, which is not here", labelTime)
	case slices.Contains(fields, "time") && slices.Contains(fields, "year"):
		return errors.New("columns time and year: keep the one that the nodes arrive by")
	}
	known := []int{t.id, t.label, t.vector}
	for _, r := range []cellReader{
		{name: "time", read: t.time},
		{name: "year", read: t.time},
		{name: labelTime, read: t.labelTime},
		{name: "split", read: t.part},
		{name: "context", read: t.context},
	} {
		if r.at = slices.Index(fields, r.name); r.at >= 0 {
			t.others, known = append(t.others, r), append(known, r.at)
		}
	}
	for i, name := range fields {
		if lower := strings.ToLower(name); lower != name && slices.Contains(reserved, lower) && !slices.Contains(fields, lower) {
			t.said = append(t.said, fmt.Sprintf("column %.40q is an attribute: if it is the column %s, write it so", name, lower))
		}
		if !slices.Contains(known, i) {
			t.columns = append(t.columns, i)
		}
	}
	if t.vector >= 0 && len(t.columns) > 0 {
		return fmt.Errorf("a column features, and %d more (%.40q): give all features in the one, or each a column and "+
			"none of that name", len(t.columns), fields[t.columns[0]])
	}
	if t.ofGraphs {
		if len(t.columns) > 0 || t.vector >= 0 || slices.Contains(fields, "context") {
			return errors.New("a graph has an id, a label, and a time or a split; features are those of nodes, in the table nodes")
		}
		return nil
	}
	if t.vector < 0 && len(t.columns) == 0 {
		return errors.New("no features: want a column for each, or one column features with index:value pairs or lists of numbers")
	}
	if t.features.dim = len(t.columns); t.features.dim > maxDim {
		return fmt.Errorf("%d features, want at most %d", t.features.dim, maxDim)
	}
	return t.nameColumns()
}

// nameColumns prepares to keep the texts of attributes.
func (t *nodeTable) nameColumns() error {
	for name := range t.texts.kinds {
		if at := slices.Index(t.names, name); at < 0 || !slices.Contains(t.columns, at) {
			return fmt.Errorf("dataset.json gives the kind of a column %.40q, which is no feature's here", name)
		}
	}
	if t.texts.named {
		for _, i := range t.columns {
			name := t.names[i]
			t.texts.table = append(t.texts.table, attributes.Column{
				Name: cmp.Or(t.texts.names[name], name), Kind: t.texts.kinds[name].Kind,
				Unit: t.texts.kinds[name].Unit,
			})
		}
	}
	return nil
}

func (t *nodeTable) row(fields []string) error {
	if err := t.identify(fields[t.id]); err != nil {
		return err
	}
	label := ""
	if t.label >= 0 {
		label = fields[t.label]
	}
	// The bytes of the label, and its string header.
	if err := t.memory.claim(len(label) + 16); err != nil {
		return err
	}
	t.labels = append(t.labels, strings.Clone(label))
	for _, r := range t.others {
		if err := r.read(fields[r.at]); err != nil {
			return fmt.Errorf("column %s: %w", r.name, err)
		}
	}
	if t.vector >= 0 {
		if err := t.features.addVector(fields[t.vector], len(t.ids) == 1); err != nil {
			return fmt.Errorf("column features: %w", err)
		}
		return nil
	}
	if t.label >= 0 {
		t.compare(fields, label)
	}
	if t.texts.named {
		for k, i := range t.columns {
			if err := t.memory.claim(len(fields[i]) + 16); err != nil {
				return err
			}
			t.texts.table[k].Texts = append(t.texts.table[k].Texts, strings.Clone(fields[i]))
		}
		return nil
	}
	t.features.dense = t.features.dense[:0]
	for _, i := range t.columns {
		v, err := parseFeature(fields[i])
		if err != nil {
			t.texts.isNotNumbers = isText(fields[i])
			return fmt.Errorf("column %.40q: %w", t.names[i], err)
		}
		t.features.dense = append(t.features.dense, v)
	}
	return t.features.x.add(t.features.dense)
}

func (t *nodeTable) time(text string) error {
	at, isDate, err := parseTime(text)
	if err == nil && !t.anyTime {
		err = t.eras.add(len(t.times)+1, text, at, isDate)
	}
	t.times = append(t.times, at)
	return err
}

func (t *nodeTable) labelTime(text string) error {
	at, err := parseLabelTime(text)
	t.labelTimes = append(t.labelTimes, at)
	return err
}

func (t *nodeTable) part(text string) error {
	part, err := partNamed(text)
	t.parts = append(t.parts, part)
	return err
}

func (t *nodeTable) context(text string) error {
	context, err := strconv.ParseBool(cmp.Or(text, "false"))
	t.inContext = append(t.inContext, context)
	switch label := t.labels[len(t.labels)-1]; {
	case err != nil:
		return fmt.Errorf("%.40q: want true, false or nothing", text)
	case context && label != "":
		return fmt.Errorf("a context node is never predicted, and has the label %.40q: leave one of them empty", label)
	}
	return nil
}

// watched is what is compared of the values of a feature with the label and the number of the row.
type watched struct {
	classes map[string]string // the label of each value; nil once one has two, or there are too many
	notRow  bool              // the values do not count the rows
	first   float64           // the value of the first row
	doubt   attributes.Doubt
}

func (t *nodeTable) compare(fields []string, label string) {
	if t.watched == nil {
		t.watched = make([]watched, len(t.columns))
		for k := range t.watched {
			t.watched[k].classes = make(map[string]string)
		}
	}
	label = spelling.Name(label)
	for k, i := range t.columns {
		w := &t.watched[k]
		if w.classes == nil && w.notRow && (t.texts.named || k >= mostDoubted) {
			continue
		}
		if w.classes != nil && label != "" && !spelling.IsDoubtful(label) {
			value := spelling.Name(fields[i])
			if of, known := w.classes[value]; known && of != label || len(w.classes) == mostOfLabel {
				w.classes = nil
			} else if !known {
				w.classes[strings.Clone(value)] = strings.Clone(label)
			}
		}
		v, isNumber := spelling.Number(fields[i])
		if isNumber && !t.texts.named && k < mostDoubted {
			w.doubt.Add(fields[i], v)
		}
		if row := float64(len(t.ids) - 1); row == 0 {
			w.first, w.notRow = v, !isNumber
		} else {
			w.notRow = w.notRow || !isNumber || v != w.first+row || v >= 1<<52
		}
	}
}

const (
	mostOfLabel = 64  // values of a column that may say the label
	mostDoubted = 256 // columns of a table of plain numbers that are looked at
)

func (t *nodeTable) notes(classes []string) (notes []string) {
	for k := range t.watched {
		w, name := &t.watched[k], t.names[t.columns[k]]
		doubt := w.doubt.Note(name)
		switch {
		case len(t.ids) < leastNoted || len(notes) == maxNotes:
		case w.classes != nil && len(classes) > 1 && len(w.classes) <= len(classes):
			notes = append(notes, fmt.Sprintf("column %.40q says the label in every row: leave it out, unless it is "+
				"known when a node arrives", name))
		case !w.notRow:
			notes = append(notes, fmt.Sprintf("column %.40q counts the rows: leave it out (pandas: index=False)", name))
		case doubt != "":
			notes = append(notes, fmt.Sprintf("column %.40q: %s", name, doubt))
		}
	}
	return notes
}

// noteClasses says that labels may be a quantity, that two classes may be one, and that no label is of those that stand for none.
func noteClasses(d *Dataset, text *description) {
	if alike := attributes.Alike(d.Classes); alike != "" {
		d.Notes = append(d.Notes, "classes "+alike)
	}
	if len(text.unused) > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("no node has the label %.40q, which dataset.json has in \"unlabelled\"", text.unused[0]))
	}
	if n := len(d.Classes); n > 100 && n > d.Labelled()/10 &&
		!slices.ContainsFunc(d.Classes, func(c string) bool { return !spelling.IsNumber(c) }) {
		d.Notes = append(d.Notes, fmt.Sprintf("the labels are %d different numbers, each a class here: if they are a "+
			"quantity, cut it into a few classes", n))
	}
}

// leastNoted is the number of rows from which on it is no chance that a column equals another.
const leastNoted = 20

// isText reports whether a feature is a gap or no number at all.
func isText(text string) bool {
	_, err := strconv.ParseFloat(text, 32)
	return spelling.IsGapWord(text) || errors.Is(err, strconv.ErrSyntax)
}

func (t *nodeTable) identify(id string) error {
	key := keyOf(id)
	if _, twice := t.number[key]; twice {
		return fmt.Errorf("id %.80q occurs twice: give each node its own", id)
	}
	if len(t.ids) == maxNodes {
		return fmt.Errorf("more than %d nodes", maxNodes)
	}
	if err := checkID(id); err != nil {
		return err
	}
	// The id's bytes, two string headers, and the map's entry.
	if err := t.memory.claim(len(id) + 96); err != nil {
		return err
	}
	id = strings.Clone(id)
	if key != id {
		key = strings.Clone(key)
	} else {
		key = id
	}
	t.number[key] = int32(len(t.ids))
	t.ids = append(t.ids, id)
	return nil
}

// addVector adds the features of a node from a text with all of them: index:value pairs,
// or as many numbers as the first node has.
func (f *vectors) addVector(text string, first bool) error {
	f.dense, f.index, f.value, f.last = f.dense[:0], f.index[:0], f.value[:0], -1
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]") // as lists are written
	for item := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' }) {
		at, value, isPair := strings.Cut(item, ":")
		if f.form == unknownForm {
			f.form = pairs
			if !isPair {
				f.form = lists
			}
		}
		var err error
		switch {
		case isPair != (f.form == pairs):
			err = fmt.Errorf("%.40q: want index:value pairs or lists of numbers, the same for every node", item)
		case isPair:
			err = f.addPair(at, value)
		default:
			err = f.addNumber(item)
		}
		if err != nil {
			return err
		}
	}
	if f.form != lists { // no features: all are zero
		return f.x.addSparse(f.index, f.value)
	}
	if first {
		f.dim = len(f.dense)
	}
	if len(f.dense) != f.dim {
		return fmt.Errorf("%d numbers, the first node has %d", len(f.dense), f.dim)
	}
	return f.x.add(f.dense)
}

func (f *vectors) addPair(at, value string) error {
	j, err := parseInt(at, 0, maxDim-1)
	if err != nil {
		return fmt.Errorf("a feature's index: %w", err)
	}
	if j <= f.last {
		return fmt.Errorf("feature %d after %d, want them ascending", j, f.last)
	}
	f.last = j
	v, err := parseFeature(value)
	if err != nil {
		return fmt.Errorf("feature %d: %w", j, err)
	}
	if v != 0 {
		f.index, f.value = append(f.index, uint32(j)), append(f.value, v)
	}
	f.dim = max(f.dim, j+1)
	return nil
}

func (f *vectors) addNumber(text string) error {
	if len(f.dense) == maxDim {
		return fmt.Errorf("more than %d features", maxDim)
	}
	v, err := parseFeature(text)
	if err != nil {
		return fmt.Errorf("feature %d: %w", len(f.dense), err)
	}
	f.dense = append(f.dense, v)
	return nil
}

// parseTime reads a time: any finite number, or a date into milliseconds since 1970.
func parseTime(text string) (v float64, isDate bool, err error) {
	if v, ok := spelling.Number(text); ok {
		return v, false, nil
	}
	if at, ok := spelling.Date(text); ok {
		return float64(at), true, nil
	}
	return 0, false, fmt.Errorf("%.40q is not a finite number: give times as numbers, such as years, or as 2026-03-01T12:00:00Z", text)
}

// eras are the rows in which times of each unit were first read, to find a column of several. Years have none.
type eras struct {
	rows  map[string]int
	texts map[string]string
}

// add notes a time. Dates are milliseconds.
func (e *eras) add(row int, text string, v float64, isDate bool) error {
	unit := cmp.Or(spelling.UnitOf(v), "other")
	if isDate {
		unit = "date"
	}
	if e.rows == nil {
		e.rows, e.texts = make(map[string]int), make(map[string]string)
	}
	if _, known := e.rows[unit]; known {
		return nil
	}
	e.rows[unit], e.texts[unit] = row, strings.Clone(text)
	for other, first := range e.rows {
		mixed := unit != "other" && unit != "days" && other != "other" && other != "days" || unit == "date" || other == "date"
		if mixed && other != unit && !(max(unit, other) == "ms" && min(unit, other) == "date") {
			return fmt.Errorf("%.40q, and %.40q in row %d: times of two units in one column, give all in one", text, e.texts[other], first)
		}
	}
	return nil
}

func formatTime(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// labelled returns the labels in the one spelling of names, and "" for those that stand for none, by one rule for all
// layouts: gaps; and unless dataset.json lists them as classes, or others as unlabelled, words such as NA and ?, words such as
// unknown among numbers, and -1 beside two numbers from 0 on at least. What is not certain is returned as notes.
func labelled(labels []string, text *description) (names, notes []string) {
	names = make([]string, len(labels))
	count := make(map[string]int)
	for v, l := range labels {
		names[v] = spelling.Name(l)
		count[names[v]]++
	}
	for _, name := range text.Unlabelled {
		if count[spelling.Name(name)] == 0 {
			text.unused = append(text.unused, name)
		}
	}
	given := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(g string) bool { return spelling.Name(g) == name })
	}
	numbers, others, whole := 0, 0, true // distinct ones, without what may be a gap
	for name := range count {
		v, isNumber := spelling.Number(name)
		switch {
		case isNumber && name != "-1":
			numbers++
			whole = whole && v >= 0 && v == math.Trunc(v)
		case !isNumber && !spelling.IsDoubtful(name):
			others++
		}
	}
	none := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		isGap := spelling.IsGap(name)
		switch {
		case given(text.Classes, name) && name != "":
		case given(text.Unlabelled, name), spelling.IsCertainGap(name):
			none[name] = true
		case text.Unlabelled != nil || text.Classes != nil && name != "-1":
		case isGap, name == "-1" && others == 0 && numbers > 1 && whole, name == "-1" && text.Classes != nil,
			spelling.IsGapWord(name) && !strings.EqualFold(name, "none"), spelling.IsDoubtful(name) && numbers > 0 && others == 0:
			none[name] = true
			if len(notes) < maxNotes {
				notes = append(notes, fmt.Sprintf("label %.40q of %d nodes is taken for none: if it is a class, list "+
					"all in dataset.json, \"classes\": […]", name, count[name]))
			}
		case spelling.IsDoubtful(name), name == "-1" && (numbers > 1 || others > 0):
			if len(notes) < maxNotes {
				notes = append(notes, fmt.Sprintf("label %.40q of %d nodes is taken for a class: if it stands for "+
					"none, give \"unlabelled\": [%q] in dataset.json", name, count[name], name))
			}
		}
	}
	for v, name := range names {
		if none[name] {
			names[v] = ""
		}
	}
	return names, notes
}

// maxNotes bounds the lines of a kind that are said about a data set.
const maxNotes = 8

// classesOf returns the distinct labels, ordered as numbers if all of them are finite
// numbers, else alphabetically, and every label's number in that order. An empty label is none.
func classesOf(labels []string) (classes []string, y []int32) {
	value := make(map[string]float64)
	numbers := true
	for _, l := range labels {
		if _, known := value[l]; known || l == "" {
			continue
		}
		v, isNumber := spelling.Number(l)
		numbers = numbers && isNumber
		value[l] = v
		classes = append(classes, l)
	}
	slices.SortFunc(classes, func(a, b string) int {
		if numbers && value[a] != value[b] {
			return cmp.Compare(value[a], value[b])
		}
		return strings.Compare(a, b)
	})
	y, _ = numberedBy(classes, labels)
	return classes, y
}
