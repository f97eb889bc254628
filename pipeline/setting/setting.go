// Package setting is how a part of the engine declares its settings: each once, with its name, its
// default, its help, and when it has no effect. Flags, docs/cli.md, the chart's values and the terms of
// a ledger are read from the declarations.
package setting

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Value is the field of a configuration that a setting is bound to, as text.
type Value interface {
	Set(text string) error
	String() string
}

// Setting is one setting, bound to a field.
type Setting struct {
	Name  string
	Group string // of flags, by its key
	// Help says what the flag does, its Placeholder what it takes, and Default what it is where it is
	// not given. A setting without help has no flag.
	Help, Placeholder, Default string
	// Only are the values that there are, nil for any. The default is among them.
	Only []string
	// File says that the flag takes the name of a file with the text.
	File bool
	// Idle says why the setting has no effect beside the others, with a remedy; "" if it has one. It
	// may be nil.
	Idle func() string

	Value Value
	// Kept says whether a ledger holds the setting.
	Kept Kept
}

// Kept says whether a ledger holds a setting.
type Kept uint8

const (
	Always   Kept = iota
	Optional      // where its text is not "", false or 0, so that older ledgers are equal without it
	Never         // because outcomes do not depend on it, or others hold it
)

// List are the settings of a configuration, in the order in which a ledger holds them.
type List struct {
	all    []*Setting
	checks []func() error
}

// Add declares a setting.
func (l *List) Add(s Setting) { l.all = append(l.all, &s) }

// Check has a function fill defaults in and return what is out of range, with its remedy.
func (l *List) Check(f func() error) { l.checks = append(l.checks, f) }

// AddText declares a setting whose value is a text that can be parsed, checked where it is set and where it is given in place.
func AddText[T any](l *List, s Setting, field *string, parse func(text string) (T, error)) {
	check := func(text string) error {
		_, err := parse(text)
		return err
	}
	s.Value = Text(field, check)
	l.Add(s)
	l.Check(func() error {
		if err := check(*field); err != nil {
			return fmt.Errorf("%s %w", s.Name, err)
		}
		return nil
	})
}

// Err fills defaults in, and joins all problems.
func (l *List) Err() error {
	var problems []error
	for _, check := range l.checks {
		problems = append(problems, check())
	}
	return errors.Join(problems...)
}

// Flags returns the settings that have flags, in their order.
func (l *List) Flags() (list []*Setting) {
	for _, s := range l.all {
		if s.Help != "" {
			list = append(list, s)
		}
	}
	return list
}

// Object returns the settings as a JSON object, as a ledger holds them.
func (l *List) Object() []byte {
	b := []byte{'{'}
	for _, s := range l.all {
		text := s.Value.String()
		if s.Kept == Never || s.Kept == Optional && (text == "" || text == "false" || text == "0") {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, s.Name), ':')
		if _, literal := s.Value.(literal); literal && json.Valid([]byte(text)) { // +Inf is not
			b = append(b, text...)
		} else {
			b = appendQuoted(b, text)
		}
	}
	return append(b, '}')
}

func appendQuoted(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return append(b, quoted...)
}

// SetAll sets the settings that a ledger holds, by name. All must be there that are always kept, and no
// others.
func (l *List) SetAll(values map[string]string) error {
	unknown := maps.Clone(values)
	for _, s := range l.all {
		text, ok := values[s.Name]
		switch {
		case s.Kept == Never, !ok && s.Kept == Optional:
			continue
		case !ok:
			return fmt.Errorf("%s is missing: use the program that wrote them", s.Name)
		}
		if err := s.Value.Set(text); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		delete(unknown, s.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		return fmt.Errorf("%s is unknown: use the program that wrote them", name)
	}
	return nil
}

// literal is a value whose text is JSON by itself.
type literal interface{ literal() }

// NumberValue, IntegerValue and SwitchValue are the values of flags that are no texts.
type (
	NumberValue  struct{ field *float64 }
	IntegerValue struct{ field *int }
	SwitchValue  struct{ field *bool }
)

// Number is a value that is a number.
func Number(field *float64) Value { return NumberValue{field} }

// Integer is a value that is a whole number.
func Integer(field *int) Value { return IntegerValue{field} }

// Switch is a value that is true or false.
func Switch(field *bool) Value { return SwitchValue{field} }

func (NumberValue) literal()  {}
func (IntegerValue) literal() {}
func (SwitchValue) literal()  {}

// FormatNumber returns the shortest text that reads back as x.
func FormatNumber(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func (v NumberValue) String() string  { return FormatNumber(*v.field) }
func (v IntegerValue) String() string { return strconv.Itoa(*v.field) }
func (v SwitchValue) String() string  { return strconv.FormatBool(*v.field) }

func (v NumberValue) Set(text string) (err error) {
	*v.field, err = strconv.ParseFloat(text, 64)
	return err
}

func (v IntegerValue) Set(text string) (err error) {
	*v.field, err = strconv.Atoi(text)
	return err
}

func (v SwitchValue) Set(text string) (err error) {
	*v.field, err = strconv.ParseBool(text)
	return err
}

// Func is a value with a text of its own. Parse leaves the field as it is where it returns an error.
func Func(text func() string, parse func(text string) error) Value { return textual{text, parse} }

// Plain is Func for a value whose text is JSON by itself, such as a number.
func Plain(text func() string, parse func(text string) error) Value {
	return plain{textual{text, parse}}
}

type textual struct {
	text  func() string
	parse func(string) error
}

func (v textual) String() string        { return v.text() }
func (v textual) Set(text string) error { return v.parse(text) }

type plain struct{ of textual }

func (v plain) String() string        { return v.of.text() }
func (v plain) Set(text string) error { return v.of.parse(text) }
func (plain) literal()                {}

// Parsed is a value whose type has a text.
func Parsed[T fmt.Stringer](field *T, parse func(text string) (T, error)) Value {
	return Func(func() string { return (*field).String() }, func(text string) error {
		v, err := parse(text)
		if err == nil {
			*field = v
		}
		return err
	})
}

// Text is a value that is a text. Check returns what is wrong with one.
func Text[T ~string](field *T, check func(text string) error) Value {
	return Func(func() string { return string(*field) }, func(text string) error {
		err := check(text)
		if err == nil {
			*field = T(text)
		}
		return err
	})
}

// Named is a value that is one of a few, which have names.
func Named[T fmt.Stringer](field *T, values ...T) Value {
	return Parsed(field, func(text string) (T, error) {
		for _, v := range values {
			if v.String() == text {
				return v, nil
			}
		}
		return values[0], fmt.Errorf("%q is unknown: give one of %v", text, values)
	})
}

// Count declares a number of things: 0 stands for usual, and most is the largest, 0 for any.
func (l *List) Count(s Setting, field *int, usual, most int) {
	s.Value = Integer(field)
	l.Add(s)
	l.CheckCount(s.Name, field, usual, most)
}

// CheckCount checks a number of things as Count does.
func (l *List) CheckCount(name string, field *int, usual, most int) {
	l.Check(func() error {
		switch {
		case *field == 0:
			*field = usual
		case *field < 0:
			return fmt.Errorf("%s %d: give a positive number, or 0 for the default of %d", name, *field, usual)
		case most > 0 && *field > most:
			return fmt.Errorf("%s %d: give at most %d", name, *field, most)
		}
		return nil
	})
}
