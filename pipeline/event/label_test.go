package event

import "testing"

// TestLabelIn: a number is the class that has it as its name, in any coding, and an index only where no name is a
// number; a name has one spelling.
func TestLabelIn(t *testing.T) {
	for _, c := range []struct {
		classes []string
		label   Label
		want    int32 // -1 for none
	}{
		{[]string{"1", "2"}, Label{Index: 1}, 0}, // Elliptic's classes: once the index of 2
		{[]string{"1", "2"}, Label{Index: 2}, 1},
		{[]string{"1", "2"}, Label{Index: 0}, -1},
		{[]string{"-1", "1"}, Label{Index: -1}, 0},
		{[]string{"-1", "1"}, Label{Index: 1}, 1},
		{[]string{"0", "1", "2"}, Label{Index: 2}, 2},
		{[]string{"1.0", "2.0"}, Label{Index: 2}, 1},
		{[]string{"3", "other"}, Label{Index: 1}, -1},
		{[]string{"good", "fraud"}, Label{Index: 1}, 1},
		{[]string{"good", "fraud"}, Label{Index: -1}, -1},
		{[]string{"good", "fraud"}, Label{Index: 2}, -1},
		{[]string{"good", "fraud"}, Label{Index: NoClass}, -1},
		{[]string{"1", "2"}, Label{Class: "2.0"}, 1},
		{[]string{"false", "true"}, Label{Class: "True"}, 1},
		{[]string{"False", "True"}, Label{Class: "true"}, 1}, // of a model from before
		{[]string{"good", "fraud"}, Label{Class: " fraud "}, 1},
		{[]string{"fraud", " fraud"}, Label{Class: " fraud"}, 1},
		{[]string{"7", "007"}, Label{Class: "007"}, 1},
		{[]string{"7"}, Label{Class: "007"}, -1},
	} {
		if got, ok := c.label.In(c.classes); ok != (c.want >= 0) || ok && got != c.want {
			t.Errorf("%+v among %q is %d, %t, want %d", c.label, c.classes, got, ok, c.want)
		}
	}
}
