package ledger

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// Difference is a setting with its values A and B; empty means that it is not set.
type Difference struct{ Name, A, B string }

func (d Difference) String() string {
	return fmt.Sprintf("%s is %s there and %s here", d.Name, cmp.Or(d.A, "not set"), cmp.Or(d.B, "not set"))
}

// Diff returns the settings in which a and b differ, by name.
func Diff(a, b Settings) (list []Difference) {
	inA, inB := a.values(), b.values()
	for name, value := range inA {
		if other := inB[name]; value != other {
			list = append(list, Difference{name, value, other})
		}
	}
	for name, value := range inB {
		if _, ok := inA[name]; !ok {
			list = append(list, Difference{name, "", value})
		}
	}
	slices.SortFunc(list, func(a, b Difference) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// values returns the settings' values by name, none if s is not a JSON object.
func (s Settings) values() map[string]string {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s), &raw); err != nil {
		return nil
	}
	values := make(map[string]string, len(raw))
	for name, value := range raw {
		text := string(value)
		var quoted string
		if json.Unmarshal(value, &quoted) == nil {
			text = cmp.Or(quoted, text)
		}
		values[name] = text
	}
	return values
}
