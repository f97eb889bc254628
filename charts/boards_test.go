package charts_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// dashboard is what the tests look at in a dashboard. .ci/dashboards compares all of it
// with Grafana's types.
type dashboard struct {
	UID    string
	Title  string
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Datasource               struct{ UID string }
		GridPos                  struct{ X, Y, W, H int }
		FieldConfig              struct {
			Defaults struct {
				NoValue  string
				Mappings []struct {
					Type    string
					Options json.RawMessage
				}
				Thresholds struct{ Steps []struct{ Color string } }
				Custom     struct{ Stacking any }
			}
			Overrides []struct {
				Properties []struct {
					ID    string
					Value json.RawMessage
				}
			}
		}
		Targets []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct {
			Name              string
			IncludeAll, Multi bool
		}
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
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(b, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = d
	}
	return all
}

// TestDashboards: every panel says what it shows and what it means that there is no data,
// has room for its title at 1280 pixels, and takes its data from the variable. Alerts are
// first on every board. Only one graph is shown at a time, but for the board of graphs.
func TestDashboards(t *testing.T) {
	for name, d := range dashboards(t) {
		if first := d.Panels[0]; first.Title != "Alerts" || first.Type != "table" {
			t.Errorf("%s begins with %s, want the table of alerts", name, first.Title)
		}
		places := make(map[[2]int]string)
		for _, p := range d.Panels {
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := places[[2]int{x, y}]; other != "" || x >= 24 {
						t.Errorf("%s: %q lies on %q at %d, %d", name, p.Title, other, x, y)
					}
					places[[2]int{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			if p.Description == "" || p.Datasource.UID != "${datasource}" {
				t.Errorf("%s: %q has the description %q and the data source %q", name, p.Title, p.Description, p.Datasource.UID)
			}
			if room := 6*p.GridPos.W - 3; utf8.RuneCountInString(p.Title) > room {
				t.Errorf("%s: %q has more than the %d letters that fit", name, p.Title, room)
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

// TestNothingScrapedIsRed: a panel of one number without data is red and says why.
func TestNothingScrapedIsRed(t *testing.T) {
	for name, d := range dashboards(t) {
		for _, p := range d.Panels {
			if p.Type != "stat" {
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
		for _, p := range d.Panels {
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
	if links != 3 || runbook < len(all) {
		t.Errorf("%d links to boards and %d to the runbook, want 3 and one on each of %d boards", links, runbook, len(all))
	}
}
