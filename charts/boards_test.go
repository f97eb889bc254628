package charts_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// dashboard is what the tests look at in a dashboard. .ci/dashboards compares all of it
// with Grafana's types.
type dashboard struct {
	UID        string
	Title      string
	Panels     []panel
	Templating struct {
		List []struct {
			Name              string
			IncludeAll, Multi bool
		}
	}
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Collapsed                bool
	Panels                   []panel // of a collapsed row
	Datasource               struct{ UID string }
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct {
		Defaults struct {
			NoValue, Unit string
			Min, Max      *float64
			Color         struct{ Mode, FixedColor string }
			Mappings      []mapping
			Thresholds    thresholds
			Custom        struct {
				Stacking        any
				ThresholdsStyle struct{ Mode string }
			}
		}
		Overrides []struct {
			Matcher    struct{ ID, Options string }
			Properties []struct {
				ID    string
				Value json.RawMessage
			}
		}
	}
	Options struct {
		XField string
	}
	Targets         []struct{ Expr, LegendFormat string }
	Transformations []struct {
		ID      string
		Options struct {
			IndexByName   map[string]int
			ExcludeByName map[string]bool
			Mode          string
			RenameByName  map[string]string
			Sort          []struct {
				Field string
				Desc  bool
			}
		}
	}
}

type mapping struct {
	Type    string
	Options json.RawMessage
}

type thresholds struct {
	Steps []struct {
		Value *float64
		Color string
	}
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob("gvbll/dashboards/*.json")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d dashboards (%v), want 4", len(files), err)
	}
	all := make(map[string]dashboard)
	for _, file := range files {
		var d dashboard
		if err := json.Unmarshal([]byte(read(t, file)), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = d
	}
	return all
}

// all returns the panels of a dashboard, those of collapsed rows among them.
func (d dashboard) all() (list []panel) {
	for _, p := range d.Panels {
		list = append(append(list, p), p.Panels...)
	}
	return list
}

func (d dashboard) panel(t *testing.T, title string) panel {
	t.Helper()
	list := d.all()
	i := slices.IndexFunc(list, func(p panel) bool { return p.Title == title && p.Type != "row" })
	if i < 0 {
		t.Fatalf("%s has no panel %q", d.Title, title)
	}
	return list[i]
}

// override decodes a property that a panel gives to a field by its name, and reports whether
// there is one.
func override[T any](t *testing.T, p panel, field, property string) (value T, ok bool) {
	t.Helper()
	for _, o := range p.FieldConfig.Overrides {
		for _, q := range o.Properties {
			if o.Matcher.Options == field && q.ID == property {
				if err := json.Unmarshal(q.Value, &value); err != nil {
					t.Fatalf("%s: %s of %s: %v", p.Title, property, field, err)
				}
				ok = true
			}
		}
	}
	return value, ok
}

// words returns the texts that mappings give to values.
func words(t *testing.T, list []mapping) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, m := range list {
		if m.Type != "value" {
			continue
		}
		var options map[string]struct{ Text string }
		if err := json.Unmarshal(m.Options, &options); err != nil {
			t.Fatal(err)
		}
		for value, o := range options {
			texts[value] = o.Text
		}
	}
	return texts
}

// docked is the width in pixels that panels have in a window of 1280 with the menu beside
// them. A row of 24 columns fills it.
const docked = 1280 - 300 - 2*16

// TestDashboards: every board begins with the verdict in words, then the alerts. Every panel
// says what it shows and what it means that there is no data, has room for its title where
// the window is narrow, and takes its data from the variable. Only one graph is shown at a
// time, but for the board of graphs.
func TestDashboards(t *testing.T) {
	for name, d := range dashboards(t) {
		first := slices.IndexFunc(d.Panels, func(p panel) bool { return p.Type == "table" })
		if verdict := d.Panels[1]; d.Panels[0].Type != "row" || verdict.Type != "stat" || !strings.Contains(verdict.Targets[0].Expr, "graph:gvbll_verdict:points1h") {
			t.Errorf("%s begins with %q, want the verdict", name, verdict.Title)
		}
		if name != "graphs" && d.Panels[first].Title != "Alerts" {
			t.Errorf("the first table of %s is %q, want the alerts", name, d.Panels[first].Title)
		}
		places := make(map[[2]int]string)
		for _, p := range d.all() {
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					other := places[[2]int{x, y}]
					if inside := slices.ContainsFunc(d.Panels, func(row panel) bool {
						return slices.ContainsFunc(row.Panels, func(q panel) bool { return q.ID == p.ID })
					}); other != "" && !inside || x >= 24 {
						t.Errorf("%s: %q lies on %q at %d, %d", name, p.Title, other, x, y)
					} else if !inside {
						places[[2]int{x, y}] = p.Title
					}
				}
			}
			letters := (docked*p.GridPos.W/24 - 46) / 8 // of 8 pixels, beside the sign of the description
			if utf8.RuneCountInString(p.Title) > letters {
				t.Errorf("%s: %q has more than the %d letters that fit", name, p.Title, letters)
			}
			if p.Type == "row" {
				continue
			}
			if p.Description == "" || p.Datasource.UID != "${datasource}" {
				t.Errorf("%s: %q has the description %q and the data source %q", name, p.Title, p.Description, p.Datasource.UID)
			}
			if p.FieldConfig.Defaults.NoValue == "" && p.Type != "stat" {
				t.Errorf("%s: %q does not say why there is no data", name, p.Title)
			}
			if p.FieldConfig.Defaults.Custom.Stacking != nil {
				t.Errorf("%s: %q is stacked, but what it shows does not add up", name, p.Title)
			}
			for _, q := range p.Targets {
				if strings.Contains(q.Expr, "vector(0)") {
					t.Errorf("%s: %q shows 0 where there is no data: %s", name, p.Title, q.Expr)
				}
				if p.Type == "timeseries" && q.LegendFormat == "" {
					t.Errorf("%s: %q has a series without a name", name, p.Title)
				}
			}
		}
		for _, v := range d.Templating.List {
			if v.Name != "clusters" && v.Name != "instance" && (v.IncludeAll || v.Multi) {
				t.Errorf("%s: more than one %s can be chosen, over which its panels would add up", name, v.Name)
			}
			// Links between boards hand on variables by name, so "all" must not become a graph's.
			if name == "graphs" && (v.Name == "cluster" || v.Name == "graph") {
				t.Errorf("%s has the variable %s, which its links would hand on to the boards of one graph", name, v.Name)
			}
		}
	}
}

// TestVerdict: the board of a graph says in words whether it can be trusted, now and an hour
// before, and all boards say the same of the same number.
func TestVerdict(t *testing.T) {
	want := map[string]string{
		"0": "calibrated", "-1": "too few labels", "-2": "no broker", "-3": "no owner", "-4": "throttled",
		"-5": "labels of one class", "-6": "labels stopped", "-7": "a class is worse",
	}
	all := dashboards(t)
	for _, name := range []string{"calibration", "posterior", "stream"} {
		p := all[name].panel(t, "Verdict")
		if got := words(t, p.FieldConfig.Defaults.Mappings); !maps.Equal(got, want) || p.FieldConfig.Defaults.Unit != "suffix: points off" {
			t.Errorf("%s: the verdict is one of %v, or points in %q", name, got, p.FieldConfig.Defaults.Unit)
		}
		if len(p.Targets) != 2 || p.Targets[1].LegendFormat != "the hour before" || !strings.Contains(p.Targets[1].Expr, "offset 1h") {
			t.Errorf("%s: the verdict has no hour before", name)
		}
	}
	counts := make(map[string]string)
	for _, q := range all["graphs"].panel(t, "Now").Targets {
		counts[found("points1h{[^}]*} ([^)]*)\\)", q.Expr)[0]] = q.LegendFormat
	}
	if got := map[string]string{
		"== 0": "calibrated", "> 0": "off", "== -1": "too few", "== -2": "no broker", "== -3": "no owner", "== -4": "throttled", "<= -5": "labels",
	}; !maps.Equal(counts, got) {
		t.Errorf("graphs are counted as %v", counts)
	}
	gain := all["calibration"].panel(t, "Gain, nats").Targets[0].Expr
	if !strings.HasPrefix(gain, "(-2000 + 0 * count(graph:gvbll_labels_apart:ratio1h{") {
		t.Errorf("a gain is shown where labels are of one class: %s", gain)
	}
}

// TestLandingBoard: in a window of 1280 pixels with the menu beside it, who looks at the board
// of all graphs sees for seven of them, the worst first, in which state they are, and how right
// and how calibrated they were.
func TestLandingBoard(t *testing.T) {
	p := dashboards(t)["graphs"].panel(t, "Graphs, the worst first")
	columns := p.Transformations[2].Options
	order := []string{"graph", "state", "ECE beyond chance", "accuracy", "gain", "labels", "what"}
	width := 0
	for name, i := range columns.IndexByName {
		if as := columns.RenameByName[name]; as != "" {
			name = as
		}
		if i < len(order) && name != order[i] {
			t.Errorf("column %d is %s, want %s", i, name, order[i])
		}
		if w, ok := override[int](t, p, name, "custom.width"); i < len(order) {
			if least := 8*utf8.RuneCountInString(name) + 16; !ok || w < least {
				t.Errorf("column %s is %d wide, want at least %d", name, w, least)
			}
			width += w
		}
	}
	if width > docked-16 {
		t.Errorf("the columns up to %s take %d pixels, want at most %d", order[len(order)-1], width, docked-16)
	}
	if rows := (38*p.GridPos.H - 8 - 40 - 36) / 36; rows < 7 {
		t.Errorf("%d rows are seen, want seven", rows)
	}
	if last := p.Transformations[3]; last.ID != "sortBy" || last.Options.Sort[0].Field != "state" || !last.Options.Sort[0].Desc {
		t.Errorf("the table ends with %+v, want it sorted by state", last)
	}
	states, _ := override[[]mapping](t, p, "state", "mappings")
	if got, want := words(t, states), map[string]string{"5": "no owner", "4": "no broker", "3": "critical", "2": "warning", "1": "info", "0": "ok"}; !maps.Equal(got, want) {
		t.Errorf("the states are %v, want %v", got, want)
	}
}

// TestColumnsFit: a column has room for its name, and where a window is 1280 pixels wide a table has room for its columns: but that of all
// graphs, see [TestLandingBoard].
func TestColumnsFit(t *testing.T) {
	for name, d := range dashboards(t) {
		for _, p := range d.all() {
			if p.Type != "table" {
				continue
			}
			columns, taken := make(map[string]bool), 0
			for _, s := range p.Transformations {
				for column := range s.Options.IndexByName {
					if as := s.Options.RenameByName[column]; as != "" {
						column = as
					}
					columns[column] = true
				}
				maps.DeleteFunc(columns, func(column string, _ bool) bool { return s.Options.ExcludeByName[column] })
			}
			for column := range columns {
				w, ok := override[int](t, p, column, "custom.width")
				if least := 8*utf8.RuneCountInString(column) + 16; ok && w < least {
					t.Errorf("%s: %q: column %q is %d wide, want at least %d", name, p.Title, column, w, least)
				}
				if hidden, _ := override[bool](t, p, column, "custom.hidden"); !hidden {
					taken += max(w, 70)
				}
			}
			if wide := docked*p.GridPos.W/24 - 16; taken > wide && p.Title != "Graphs, the worst first" {
				t.Errorf("%s: the columns of %q take %d pixels of %d", name, p.Title, taken, wide)
			}
		}
	}
}

// TestJoinsOfNothing: Grafana's inner join of tables that are all empty fails with a message of its own in place of why there is no data.
func TestJoinsOfNothing(t *testing.T) {
	for name, d := range dashboards(t) {
		for _, p := range d.all() {
			for _, s := range p.Transformations {
				if s.ID == "joinByField" && s.Options.Mode != "outer" {
					t.Errorf("%s: %q joins by %q, want outer", name, p.Title, s.Options.Mode)
				}
			}
		}
	}
}

// TestAlertsTable: the most severe alert is the first row, each says what it is about in one
// column, and no cell of an alert that fires says that none does.
func TestAlertsTable(t *testing.T) {
	alerts := read(t, "gvbll/rules/gvbll.yml")
	alerts = alerts[strings.Index(alerts, "name: gvbll-alerts"):]
	for name, d := range dashboards(t) {
		p := d.panel(t, "Alerts")
		if sorted := p.Transformations[0]; sorted.ID != "sortBy" || sorted.Options.Sort[0].Field != "severity" || sorted.Options.Sort[0].Desc {
			t.Errorf("%s: alerts are not sorted by severity: %+v", name, sorted)
		}
		ranks, _ := override[[]mapping](t, p, "severity", "mappings")
		for rank, severity := range words(t, ranks) {
			if !strings.Contains(p.Targets[0].Expr, fmt.Sprintf(`"severity", %q, "severity", %q`, rank, severity)) {
				t.Errorf("%s: %s is shown for %s, which the query does not return", name, severity, rank)
			}
		}
		sentences, _ := override[[]mapping](t, p, "what to do", "mappings")
		for _, runbook := range found(`runbook: (\w+)}`, alerts) {
			if said := words(t, sentences)[runbook]; said == "" || strings.Contains(said, "Gvbll") {
				t.Errorf("%s: the alert of %s has no sentence", name, runbook)
			}
		}
		if blank, ok := override[string](t, p, "/.*/", "noValue"); !ok || blank != " " || p.GridPos.H < 7 {
			t.Errorf("%s: a cell without text says %q, and the table has %d rows", name, blank, p.GridPos.H)
		}
		joined := found(`"(\w+)"`, p.Targets[0].Expr[strings.Index(p.Targets[0].Expr, `"what", " "`):])
		for _, label := range found(`\$labels\.(\w+)`, alerts) {
			if label != "graph" && !slices.Contains(joined, label) {
				t.Errorf("%s: an alert names the label %s, which is not in the column what", name, label)
			}
		}
		if _, ok := override[[]any](t, p, "graph", "links"); ok != (name == "graphs") {
			t.Errorf("%s: the graph of an alert is a link: %t", name, ok)
		}
	}
}

// TestThresholds: where an alert has a bound on what a panel shows, the panel draws it.
func TestThresholds(t *testing.T) {
	rules, all := read(t, "gvbll/rules/gvbll.yml"), dashboards(t)
	for _, c := range []struct{ board, panel, rule, bound string }{
		{"graphs", "ECE, by graph", "graph:gvbll_served_ece:ratio1h > ", "0.1"},
		{"graphs", "Work that waits, by graph", "graph:gvbll_input_lag_seconds:estimate > ", "60"},
		{"calibration", "ECE", "graph:gvbll_served_ece:ratio1h > ", "0.1"},
		{"posterior", "Gain over the model as trained", "graph:gvbll_served_log_loss_gain_nats:mean1h < ", "-0.05"},
		{"posterior", "Class shift", "graph:gvbll_class_shift:ratio1h > ", "0.3"},
		{"posterior", "Clipped weights", "graph_head:gvbll_posterior_clipped:ratio15m > ", "0.2"},
		{"stream", "Work that waits", "graph:gvbll_input_lag_seconds:estimate > ", "60"},
		{"posterior", "Labels apart", "graph:gvbll_labels_apart:ratio1h > ", "0.5"},
		{"stream", "Waits for Kafka, and standbys", "graph:gvbll_kafka_waiting:seconds > ", "60"},
		{"stream", "Waits for Kafka, and standbys", "max by (cluster, graph) (time() - (gvbll_behind_timestamp_seconds > 0)) > ", "60"},
		{"stream", "Age of the newest checkpoint", "instance:gvbll_checkpoint_age:seconds > ", "3600"},
	} {
		if !regexp.MustCompile(regexp.QuoteMeta(c.rule+c.bound) + `\b`).MatchString(rules) {
			t.Errorf("no rule has %s%s", c.rule, c.bound)
		}
		list := all[c.board].all()
		p := list[slices.IndexFunc(list, func(p panel) bool { return p.Title == c.panel && p.Type == "timeseries" })]
		drawn := ""
		for _, s := range p.FieldConfig.Defaults.Thresholds.Steps {
			if s.Value != nil {
				drawn += fmt.Sprint(*s.Value)
			}
		}
		if p.FieldConfig.Defaults.Custom.ThresholdsStyle.Mode == "" || drawn != c.bound {
			t.Errorf("%s: %q draws %q, and the alert fires at %s", c.board, c.panel, drawn, c.bound)
		}
	}
	for _, line := range []struct{ panel, name, part string }{
		{"Accuracy", "day less 5 points", "graph:gvbll_served_accuracy:ratio1d"},
		{"Coverage", "target less 5 points", "gvbll_set_coverage_target"},
		{"Coverage", "target and 5 points", "gvbll_set_coverage_target"},
	} {
		if !slices.ContainsFunc(all["calibration"].all(), func(p panel) bool {
			return p.Title == line.panel && slices.ContainsFunc(p.Targets, func(q struct{ Expr, LegendFormat string }) bool {
				return q.LegendFormat == line.name && strings.Contains(q.Expr, line.part)
			})
		}) {
			t.Errorf("%q has no line %q", line.panel, line.name)
		}
	}
}

// TestObjective: what the chart's value changes in the rules is there, and the bound is a bucket.
func TestObjective(t *testing.T) {
	rules, template := read(t, "gvbll/rules/gvbll.yml"), read(t, "gvbll/templates/prometheusrule.yaml")
	for text, times := range map[string]int{`le="0.25"`: 4, "(1 - 0.99)": 4} {
		if n := strings.Count(rules, text); n != times || !strings.Contains(template, text) {
			t.Errorf("%s is %d times in the rules, want %d, and in the template: %t", text, n, times, strings.Contains(template, text))
		}
	}
	for _, b := range exported(t)["gvbll_prediction_age_seconds"].Metric[0].Histogram.Bucket {
		if le := strconv.FormatFloat(b.GetUpperBound(), 'f', -1, 64); !strings.Contains(read(t, "gvbll/values.schema.json"), strconv.Quote(le)) {
			t.Errorf("the bucket %s is no value of the objective", le)
		}
	}
}

// TestColours: what was served, the model as trained, the head that learns and chance have one
// colour each on all boards and on the page. Graphs, whose panels have
// others each, have their colours by their names. Names may share one; classes do not: they have
// theirs in the order of the alphabet, as Prometheus answers, and the same ones are in all panels.
func TestColours(t *testing.T) {
	css := read(t, "page/files/page.css")
	of := make(map[string]string)
	for series, class := range map[string]string{"served": "served", "static": "static", "online": "online", "by chance": "by-chance"} {
		of[series] = found(`(?m)^\.`+class+` { color: (#\w{6}); }$`, css)[0]
	}
	byName := regexp.MustCompile(`{{(head|graph|value|instance)}}`) // what several panels have
	byPlace, chosen := regexp.MustCompile(`{{(class|group)}}`), map[string]string{}
	for name, d := range dashboards(t) {
		for _, p := range d.all() {
			if p.Type != "timeseries" && p.Type != "bargauge" && p.Type != "trend" {
				continue
			}
			for i, q := range p.Targets {
				c, ok := override[struct{ FixedColor string }](t, p, q.LegendFormat, "color")
				switch want := of[q.LegendFormat]; {
				case p.Type == "bargauge" && q.LegendFormat != "served" && q.LegendFormat != "by chance" && of["static"] == p.FieldConfig.Defaults.Color.FixedColor: // grey: it does not serve
				case want != "" && c.FixedColor != want:
					t.Errorf("%s: %q draws %s in %q, want %s", name, p.Title, q.LegendFormat, c.FixedColor, want)
				case p.Type == "timeseries" && byName.MatchString(q.LegendFormat) && p.FieldConfig.Defaults.Color.Mode != "palette-classic-by-name":
					t.Errorf("%s: %q colours %s by place: %v %v", name, p.Title, q.LegendFormat, p.FieldConfig.Defaults.Color, ok)
				case p.Type == "timeseries" && byPlace.MatchString(q.LegendFormat) && p.FieldConfig.Defaults.Color.Mode != "palette-classic":
					t.Errorf("%s: %q colours %s by a hash of the name, which others have, too", name, p.Title, q.LegendFormat)
				}
				if m := byPlace.FindString(q.LegendFormat); p.Type == "timeseries" && m == q.LegendFormat {
					_, these, _ := strings.Cut(q.Expr, " topk(")
					if chosen[m] = cmp.Or(chosen[m], these); these == "" || these != chosen[m] || i > 0 {
						t.Errorf("%s: %q has other %s first: topk(%s, elsewhere topk(%s", name, p.Title, m, these, chosen[m])
					}
				}
				for head, as := range map[string]string{"online": "online", "pool": "served"} {
					if c, _ := override[struct{ FixedColor string }](t, p, head, "color"); q.LegendFormat == "{{head}}" && p.Type == "timeseries" && c.FixedColor != of[as] {
						t.Errorf("%s: %q draws %s in %q, want %s", name, p.Title, head, c.FixedColor, of[as])
					}
				}
			}
		}
	}
}

// TestReliabilityDiagram: the diagram has numbers on both axes, the diagonal, and the band of
// what chance gives. Its scale is from 0 to 1; those of scores are not, so that an NLL of 1.8
// is seen beside one of 2.5.
func TestReliabilityDiagram(t *testing.T) {
	d := dashboards(t)["calibration"]
	p := d.panel(t, "Reliability over this range")
	if lo, hi := p.FieldConfig.Defaults.Min, p.FieldConfig.Defaults.Max; p.Type != "trend" || p.Options.XField != "confidence" || lo == nil || *lo != 0 || hi == nil || *hi != 1 {
		t.Errorf("it is a %s over %s from %v to %v", p.Type, p.Options.XField, lo, hi)
	}
	fields := p.Transformations[1].Options.RenameByName
	if confidence, diagonal := p.Targets[0].Expr, p.Targets[4].Expr; fields["Value #A"] != "confidence" || fields["Value #E"] != "calibrated" || confidence != diagonal {
		t.Errorf("the diagonal is %s over %s", diagonal, confidence)
	}
	// Filled, the band of a trend panel reaches down to the axis in Grafana: its bounds are lines.
	for _, bound := range []string{fields["Value #C"], fields["Value #D"]} {
		width, _ := override[int](t, p, bound, "custom.lineWidth")
		if _, filled := override[string](t, p, bound, "custom.fillBelowTo"); filled || width == 0 || !strings.HasPrefix(bound, "by chance, at ") {
			t.Errorf("%q is drawn %d wide, filled: %t", bound, width, filled)
		}
	}
	for _, title := range []string{"NLL", "NLL, by head", "NLL: served less shadow"} {
		if p := d.panel(t, title); p.FieldConfig.Defaults.Min != nil || p.FieldConfig.Defaults.Max != nil {
			t.Errorf("%q has a scale that does not follow its values", title)
		}
	}
}

// TestFewPanels: the boards have 85 panels at most. Those of one graph begin with the same five tiles, and what not everybody uses is in rows
// that are closed.
func TestFewPanels(t *testing.T) {
	first := []string{"Verdict", "Last label", "Lag", "Latency", "Errors"}
	closed := map[string][]string{
		"calibration": {"The model in the shadow", "Members of the pool", "By the value", "By slice of the graph", "Sets of classes", "Labels that were asked for"},
		"posterior":   {"The online head"},
		"stream":      {"Calls that decide", "Cells", "Attributes", "Departures and forgetting", "Bases"},
		"graphs":      nil,
	}
	panels := 0
	for name, d := range dashboards(t) {
		var rows, tiles []string
		for i, p := range d.Panels {
			if p.Collapsed {
				rows = append(rows, p.Title)
			}
			if i >= 1 && i <= len(first) {
				tiles = append(tiles, p.Title)
			}
			if p.Collapsed != (len(p.Panels) > 0) {
				t.Errorf("%s: the row %q is closed: %t, with %d panels", name, p.Title, p.Collapsed, len(p.Panels))
			}
		}
		for _, p := range d.all() {
			if p.Type != "row" {
				panels++
			}
		}
		if name != "graphs" && !slices.Equal(tiles, first) {
			t.Errorf("%s begins with %q, want %q", name, tiles, first)
		}
		if !slices.EqualFunc(rows, closed[name], strings.HasPrefix) {
			t.Errorf("%s: closed are %q, want %q", name, rows, closed[name])
		}
	}
	if panels > 85 {
		t.Errorf("%d panels, want 85 at most", panels)
	}
}

// TestFewLabels: a score of fewer than 50 labels is a dash, and its series has a gap, whether it is a tile, a line or a cell.
func TestFewLabels(t *testing.T) {
	all := dashboards(t)
	score := regexp.MustCompile(`graph(_head)?:gvbll_(served_)?(accuracy|ece|log_loss_nats|log_loss_gain_nats):(ratio|mean)(1h|15m)\{`)
	seen := 0
	for name, d := range all {
		for _, p := range d.all() {
			for _, q := range p.Targets {
				if !score.MatchString(q.Expr) {
					continue
				}
				if seen++; !strings.Contains(q.Expr, "graph:gvbll_served_labels:increase1h") || !strings.Contains(q.Expr, " >= 50") {
					t.Errorf("%s: %q shows a score of few labels: %s", name, p.Title, q.Expr)
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d scores, want ten or more", seen)
	}
	for _, title := range []string{"ECE", "Accuracy", "Gain, nats"} {
		list := all["calibration"].all()
		p := list[slices.IndexFunc(list, func(p panel) bool { return p.Title == title && p.Type == "stat" })]
		texts := words(t, p.FieldConfig.Defaults.Mappings)
		if texts["-1"] != "–" && texts["-1000"] != "–" {
			t.Errorf("%q has no dash: %v", title, texts)
		}
	}
}

// TestColumnsStay: a column of the table of graphs is there where its query has nothing to say, too, so that the others do not move.
func TestColumnsStay(t *testing.T) {
	for i, q := range dashboards(t)["graphs"].panel(t, "Graphs, the worst first").Targets {
		switch ref := string(rune('A' + i)); ref {
		case "A", "F", "G": // the state and the workers are always known; the alert is in words
		default:
			if !strings.HasSuffix(q.Expr, ` or NaN * graph:gvbll_verdict:points1h{cluster=~"$clusters"}`) {
				t.Errorf("query %s of the table may return nothing: %s", ref, q.Expr)
			}
		}
	}
}

// TestHeadsHaveTheirColours: no two heads that a default pool may have are drawn in one colour, or in colours that look alike.
func TestHeadsHaveTheirColours(t *testing.T) {
	source := read(t, "../posterior/pool/config.go")
	for title, board := range map[string]string{"NLL, by head": "calibration", "Weights": "posterior", "Shares of the mixture": "posterior"} {
		p, of := dashboards(t)[board].panel(t, title), make(map[string]string)
		for _, head := range append(found(`Name: "([\w-]+)"`, source), "product", "product-flat") {
			c, ok := override[struct{ FixedColor string }](t, p, head, "color")
			if head == "static" {
				continue
			}
			if other := of[c.FixedColor]; !ok || other != "" && other != head {
				t.Errorf("%q draws %s and %s in %q", title, head, other, c.FixedColor)
			}
			of[c.FixedColor] = head
		}
		for a := range of {
			for b := range of {
				if d := apart(t, a, b); a != b && d < 60 {
					t.Errorf("%q draws %s and %s in %s and %s, which look alike", title, of[a], of[b], a, b)
				}
			}
		}
	}
}

// apart returns how far two colours are apart, of 441.
func apart(t *testing.T, a, b string) float64 {
	t.Helper()
	var x, y [3]float64
	for c, to := range map[string]*[3]float64{a: &x, b: &y} {
		v, err := strconv.ParseUint(strings.TrimPrefix(c, "#"), 16, 24)
		if err != nil {
			t.Fatal(err)
		}
		*to = [3]float64{float64(v >> 16), float64(v >> 8 & 255), float64(v & 255)}
	}
	return math.Sqrt((x[0]-y[0])*(x[0]-y[0]) + (x[1]-y[1])*(x[1]-y[1]) + (x[2]-y[2])*(x[2]-y[2]))
}

// TestNothingScrapedIsRed: a panel of one number without data is red and says why. Of the hour
// before nothing need be known.
func TestNothingScrapedIsRed(t *testing.T) {
	for name, d := range dashboards(t) {
		for _, p := range d.all() {
			if p.Type != "stat" || p.Title == "The hour before" {
				continue
			}
			said := ""
			for _, m := range p.FieldConfig.Defaults.Mappings {
				var special struct {
					Match  string
					Result struct{ Text, Color string }
				}
				if m.Type != "special" {
					continue
				}
				if err := json.Unmarshal(m.Options, &special); err != nil {
					t.Fatal(err)
				}
				if special.Match == "null+nan" && special.Result.Color == "red" {
					said = special.Result.Text
				}
			}
			if said != "not scraped" && said != "no owner" {
				t.Errorf("%s: %q without data says %q in red", name, p.Title, said)
			}
		}
	}
}

// TestDashboardLinks: links lead to boards that exist, and those of alerts to the runbook,
// by the label that TestRunbook checks.
func TestDashboardLinks(t *testing.T) {
	all := dashboards(t)
	uids := make(map[string]bool)
	for _, d := range all {
		uids[d.UID] = true
	}
	board := regexp.MustCompile(`^/d/([\w-]+)\?`)
	links, runbook := 0, 0
	for name, d := range all {
		for _, p := range d.all() {
			for _, o := range p.FieldConfig.Overrides {
				for _, property := range o.Properties {
					if property.ID != "links" {
						continue
					}
					var list []struct{ URL string }
					if err := json.Unmarshal(property.Value, &list); err != nil {
						t.Fatal(err)
					}
					for _, l := range list {
						switch m := board.FindStringSubmatch(l.URL); {
						case m != nil && uids[m[1]]:
							links++
						case l.URL == "https://github.com/gvbll/gvbll/blob/main/docs/runbook.md#${__data.fields.runbook}":
							runbook++
						default:
							t.Errorf("%s: %q links to %s", name, p.Title, l.URL)
						}
					}
				}
			}
		}
	}
	if links != 6 || runbook < len(all) {
		t.Errorf("%d links to boards and %d to the runbook, want 6 and one on each of %d boards", links, runbook, len(all))
	}
}
