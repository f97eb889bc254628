package setting

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Pair is one value of a flag that holds two by name, as
// --abstain confidence=0.3,set-size=4. Value is a *float64, *int or [Other].
type Pair struct {
	Name  string
	Value any
}

// Other is a value of another kind, whose text is "" where there is nothing to say.
type Other interface {
	Value
	// Kind says what the value is: a word for help, and one for errors.
	Kind() (placeholder, noun string)
}

// set sets the value from its text.
func (p Pair) set(text string) (err error) {
	switch v := p.Value.(type) {
	case *float64:
		*v, err = strconv.ParseFloat(text, 64)
	case *int:
		*v, err = strconv.Atoi(text)
	case Other:
		err = v.Set(text)
	}
	return err
}

// kind says what the value is: a word for help, and one for errors.
func (p Pair) kind() (placeholder, noun string) {
	if v, is := p.Value.(Other); is {
		return v.Kind()
	}
	return "NUMBER", "number"
}

// text returns the value's text, "" for zero.
func (p Pair) text() string {
	if v, is := p.Value.(Other); is {
		return v.String()
	}
	if v := reflect.ValueOf(p.Value).Elem(); !v.IsZero() {
		return fmt.Sprint(v)
	}
	return ""
}

// ParsePairs reads name=value pairs with commas between. A name may occur only once.
func ParsePairs(text string, pairs ...Pair) error {
	seen := map[string]bool{}
	for _, item := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		i := slices.IndexFunc(pairs, func(p Pair) bool { return p.Name == name })
		if !ok || i < 0 || seen[name] {
			names := make([]string, len(pairs))
			for i, p := range pairs {
				placeholder, _ := p.kind()
				names[i] = p.Name + "=" + placeholder
			}
			return fmt.Errorf("%q: give some of %s, each once, with commas between", item, strings.Join(names, ", "))
		}
		seen[name] = true
		if err := pairs[i].set(value); err != nil {
			_, noun := pairs[i].kind()
			return fmt.Errorf("%q: %q is not a %s", item, value, noun)
		}
	}
	return nil
}

// Pairs is a value of pairs, all zero for "". Check returns what is wrong with them together.
func Pairs(check func() error, pairs ...Pair) Value {
	return Func(func() string { return JoinPairs(pairs...) }, func(text string) error {
		for _, p := range pairs {
			reflect.ValueOf(p.Value).Elem().SetZero()
		}
		if text == "" {
			return nil
		}
		if err := ParsePairs(text, pairs...); err != nil {
			return err
		}
		return check()
	})
}

// JoinPairs returns the text of the pairs that are not zero.
func JoinPairs(pairs ...Pair) string {
	var items []string
	for _, p := range pairs {
		if text := p.text(); text != "" {
			items = append(items, p.Name+"="+text)
		}
	}
	return strings.Join(items, ",")
}
