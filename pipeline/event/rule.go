package event

import (
	"fmt"
	"regexp"
	"strconv"
)

// Rule says when a model in the shadow is promoted without a command: once it and the model
// that serves are compared by After labels, if its log loss is lower. The zero Rule is never.
type Rule struct{ After int64 }

// maxAfter bounds Rule.After.
const maxAfter = 1 << 40

var ruleText = regexp.MustCompile(`^after=([0-9]{1,13}),if=nll$`)

// ParseRule reads a rule from its text, such as after=500,if=nll; "" is never.
func ParseRule(text string) (r Rule, err error) {
	if text == "" {
		return r, nil
	}
	if m := ruleText.FindStringSubmatch(text); m != nil {
		r.After, err = strconv.ParseInt(m[1], 10, 64)
	}
	if err != nil || r.After < 1 || r.After > maxAfter {
		return Rule{}, fmt.Errorf("%.40q: give after=LABELS,if=nll, such as after=500,if=nll", text)
	}
	return r, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rule) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRule(string(text))
	return err
}

// String returns the text that ParseRule reads.
func (r Rule) String() string {
	if r.After == 0 {
		return ""
	}
	return fmt.Sprintf("after=%d,if=nll", r.After)
}
