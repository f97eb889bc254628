package event

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Settings is the part of an engine's configuration that its outcomes depend on: a
// JSON object of names and values. The ledger stores and compares them without
// interpreting them. Equal settings are equal strings, because engines write them in
// one order and one form.
type Settings string

// MarshalJSON implements [json.Marshaler]. It returns the object as it is.
func (s Settings) MarshalJSON() ([]byte, error) { return []byte(s), nil }

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Settings) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '{' {
		return errors.New("the settings are not a JSON object")
	}
	// Bring it into the form that json.Marshal gives it, so that it stays the same
	// however often it is read and written.
	var compact, escaped bytes.Buffer
	if err := json.Compact(&compact, b); err != nil {
		return err
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	*s = Settings(escaped.String())
	return nil
}

// Hash returns the first 16 hexadecimal digits of the settings' SHA-256.
func (s Settings) Hash() string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:8])
}

// Values returns the settings by name. A number keeps its digits.
func (s Settings) Values() (map[string]string, error) {
	var decoded map[string]any
	d := json.NewDecoder(strings.NewReader(string(s)))
	d.UseNumber()
	if err := d.Decode(&decoded); err != nil {
		return nil, err
	}
	values := make(map[string]string, len(decoded))
	for name, value := range decoded {
		values[name] = fmt.Sprint(value)
	}
	return values, nil
}

// Value returns the value of a setting, "" if it is not set.
func (s Settings) Value(name string) string {
	values, _ := s.Values()
	return values[name]
}

// FirstReading reports whether events are read as by 1.0.0, which had no such setting.
func (s Settings) FirstReading() bool { return s.Value("reading") == "" }

// Difference is a setting with its values A and B, each at most 60 printable characters;
// empty means that it is not set.
type Difference struct{ Name, A, B string }

func (d Difference) String() string {
	return fmt.Sprintf("%s is %s there and %s here", d.Name, cmp.Or(d.A, "not set"), cmp.Or(d.B, "not set"))
}

// Change returns the difference as a change from A to B.
func (d Difference) Change() string {
	return fmt.Sprintf("%s %s to %s", d.Name, cmp.Or(d.A, "not set"), cmp.Or(d.B, "not set"))
}

// printable returns the beginning of a text from a file or a topic, without control
// characters.
func printable(text string) string {
	quoted := fmt.Sprintf("%.60q", text)
	return quoted[1 : len(quoted)-1]
}

// Diff returns the settings in which a and b differ, by name. A text that is no JSON
// object has no settings.
func Diff(a, b Settings) (list []Difference) {
	inA, _ := a.Values()
	inB, _ := b.Values()
	names := slices.Concat(slices.Collect(maps.Keys(inA)), slices.Collect(maps.Keys(inB)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		valueA, setA := inA[name]
		valueB, setB := inB[name]
		if valueA != valueB || setA != setB {
			list = append(list, Difference{printable(name), shown(valueA, setA), shown(valueB, setB)})
		}
	}
	return list
}

// shown returns a setting's value as a [Difference] has it.
func shown(value string, set bool) string {
	if set && value == "" {
		return `""`
	}
	return printable(value)
}

// maxDifferences is the largest number of settings that [Describe] names. A damaged file
// may hold any number.
const maxDifferences = 50

// Describe returns differences as one line of bounded length.
func Describe(list []Difference) string {
	var texts []string
	for _, d := range list[:min(len(list), maxDifferences)] {
		texts = append(texts, d.String())
	}
	if more := len(list) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}
