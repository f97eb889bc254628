package figure

import (
	"encoding/json"
	"maps"
	"testing"
)

var (
	seen  = Sum("seen_total", "Things seen.", "things seen", "")
	quiet = Sum("quiet_total", "Things that only metrics tell.", "", "")
	size  = Family{Name: "size", Label: "of", Level: true}.Of("things", "things there are")
)

// TestWindowsAddUp: sums of windows add up, a level is that of the last window that has one, and what a
// later program counted is passed on.
func TestWindowsAddUp(t *testing.T) {
	var first, second Window
	first.Count(seen, 2)
	first.Add(quiet, 0.5)
	first.Set(size, 7)
	second.Count(seen, 3)
	second.Set(size, 9)
	var sum Kept
	for _, w := range []Kept{first.Kept(), {"of_a_later_program": 4}, second.Kept(), nil} {
		sum.Merge(w)
	}
	want := Kept{"seen": 5, "quiet": 0.5, "size.things": 9, "of_a_later_program": 4}
	if !maps.Equal(sum, want) {
		t.Errorf("the windows are %v together, want %v", sum, want)
	}
	b, err := json.Marshal(sum)
	var again Kept
	if err != nil || json.Unmarshal(b, &again) != nil || !maps.Equal(again, want) {
		t.Errorf("written and read again: %v, %v", again, err)
	}
	rows := sum.Rows()
	if len(rows) != 2 || rows[0].Words != "things seen" || rows[0].Number != 5 || rows[1].Figure != size {
		t.Errorf("rows %v, want those of things seen and of things that there are", rows)
	}
	sum.Merge(Kept{"seen": 1}) // a window after which nothing is there any more
	if sum.Int(size) != 0 || sum.Int(seen) != 6 {
		t.Errorf("%d things are there and %d were seen, want 0 and 6", sum.Int(size), sum.Int(seen))
	}
	if first.Int(size) != 7 {
		t.Errorf("%d things there, want 7", first.Int(size))
	}
}

// TestNothingCounted: a window in which nothing was counted has no figures, and is an empty object in JSON.
func TestNothingCounted(t *testing.T) {
	var w Window
	if w.Of(seen) != 0 || w.Kept() != nil {
		t.Errorf("an empty window has %v", w.Kept())
	}
	if b, err := json.Marshal(w.Kept()); err != nil || string(b) != "{}" {
		t.Errorf("no figures are %s in JSON, want {}: %v", b, err)
	}
}

// TestKeysDiffer: no two figures have one key, by which a ledger knows them.
func TestKeysDiffer(t *testing.T) {
	keys := make(map[string]bool)
	for _, f := range All() {
		if keys[f.Key()] {
			t.Errorf("two figures have the key %s", f.Key())
		}
		keys[f.Key()] = true
	}
}
