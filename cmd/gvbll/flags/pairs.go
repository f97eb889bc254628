package flags

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Pair is one value of a flag that holds two by name, as
// --abstain confidence=0.3,set-size=4. Value is a *float64, *int, *time.Duration or *Size.
type Pair struct {
	Name  string
	Value any
}

// set sets the value from its text.
func (p Pair) set(text string) (err error) {
	switch v := p.Value.(type) {
	case *float64:
		*v, err = strconv.ParseFloat(text, 64)
	case *int:
		*v, err = strconv.Atoi(text)
	case *time.Duration:
		*v, err = time.ParseDuration(text)
	case *Size:
		*v, err = parseSize(text)
	}
	return err
}

// kind says what the value is: a word for help, and one for errors.
func (p Pair) kind() (placeholder, noun string) {
	switch p.Value.(type) {
	case *time.Duration:
		return "DURATION", "duration such as 5m"
	case *Size:
		return "SIZE", "size such as 512MiB"
	}
	return "NUMBER", "number"
}

// text returns the value's text, "" for zero.
func (p Pair) text() string {
	v := reflect.ValueOf(p.Value).Elem()
	if v.IsZero() {
		return ""
	}
	if d, ok := v.Interface().(time.Duration); ok {
		return ShortDuration(d)
	}
	return fmt.Sprint(v)
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

// ShortDuration returns a duration without the zeros at its end, as 5m instead of 5m0s.
func ShortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Size is a number of bytes. Its text is a whole number with a unit, as 512MiB.
type Size int64

// sizeUnits are the units of sizes, the largest first.
var sizeUnits = []struct {
	name  string
	bytes Size
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

func parseSize(text string) (Size, error) {
	for _, u := range sizeUnits {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/int64(u.bytes) {
			break
		}
		return Size(n) * u.bytes, nil
	}
	return 0, errors.New("no size")
}

func (s Size) String() string {
	for _, u := range sizeUnits {
		if s >= u.bytes && s%u.bytes == 0 {
			return fmt.Sprintf("%d%s", s/u.bytes, u.name)
		}
	}
	return "0B"
}
