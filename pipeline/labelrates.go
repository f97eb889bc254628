package pipeline

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/pipeline/setting"
)

// LabelRates says for which share of each class's nodes a label comes: "" for the same of all,
// [CountedRates], or a list such as ok=0.1,fraud=1, in which a class that is left out has 1. Only their ratios
// matter.
type LabelRates string

// CountedRates has them estimated along the stream, see [parts.NewCountedRates].
const CountedRates LabelRates = "counted"

// ParseLabelRates returns the rates of a text, with classes in the order of their names.
func ParseLabelRates(text string) (LabelRates, error) {
	if text == "" || LabelRates(text) == CountedRates {
		return LabelRates(text), nil
	}
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		at := strings.LastIndexByte(item, '=')
		rate, err := strconv.ParseFloat(item[at+1:], 64)
		if at < 1 || err != nil || !(rate > 0 && rate <= math.MaxFloat32) {
			return "", fmt.Errorf("label-rates %.100q: give CLASS=RATE with commas between, rates above 0 such as "+
				"ok=0.1, or %s", item, CountedRates)
		}
		list = append(list, item[:at]+"="+setting.FormatNumber(rate))
	}
	slices.Sort(list)
	for i := range list[1:] {
		if a, b := list[i], list[i+1]; a[:strings.LastIndexByte(a, '=')] == b[:strings.LastIndexByte(b, '=')] {
			return "", fmt.Errorf("label-rates: %s and %s: give each class once", a, b)
		}
	}
	return LabelRates(strings.Join(list, ",")), nil
}

// declare declares the rates, which are for a pool.
func (r *LabelRates) declare(l *setting.List, c *Config) {
	l.Add(setting.Setting{
		Name: "label-rates", Group: "update", Kept: setting.Optional, Placeholder: "CLASS=RATE,...",
		Help: "Share of a class's nodes whose label comes, such as ok=0.1 (1 for others), or counted; the pool then " +
			"predicts all nodes (docs/method.md).",
		Value: setting.Func(func() string { return string(*r) }, func(text string) (err error) {
			*r, err = ParseLabelRates(text)
			return err
		}),
		Idle: func() string {
			if c.Head == HeadPaper {
				return "no effect on the paper's head: leave it out, or serve with a pool"
			}
			return ""
		},
	})
	l.Check(func() (err error) {
		*r, err = ParseLabelRates(string(*r))
		return err
	})
}

// Of returns the rates by class, 1 where r is counted. The text must have been parsed.
func (r LabelRates) Of(classes []string) ([]float64, error) {
	by := slices.Repeat([]float64{1}, len(classes))
	if r == "" || r == CountedRates {
		return by, nil
	}
	for item := range strings.SplitSeq(string(r), ",") {
		at := strings.LastIndexByte(item, '=')
		c := slices.Index(classes, item[:at])
		if c < 0 {
			return nil, fmt.Errorf("label-rates: class %q is not one of the model's %d: give names such as %q", item[:at],
				len(classes), classes[0])
		}
		by[c], _ = strconv.ParseFloat(item[at+1:], 64)
	}
	return by, nil
}
