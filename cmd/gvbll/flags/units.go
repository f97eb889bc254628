package flags

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gvbll/gvbll/pipeline/setting"
)

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

// Duration is a duration in a flag of several values.
func Duration(d *time.Duration) setting.Other { return durationValue{d} }

// Bytes is a size in a flag of several values.
func Bytes(s *Size) setting.Other { return sizeValue{s} }

type (
	durationValue struct{ of *time.Duration }
	sizeValue     struct{ of *Size }
)

func (v durationValue) Kind() (placeholder, noun string) { return "DURATION", "duration such as 5m" }
func (v sizeValue) Kind() (placeholder, noun string)     { return "SIZE", "size such as 512MiB" }

func (v durationValue) Set(text string) (err error) {
	*v.of, err = time.ParseDuration(text)
	return err
}

func (v sizeValue) Set(text string) (err error) {
	*v.of, err = parseSize(text)
	return err
}

func (v durationValue) String() string {
	if *v.of == 0 {
		return ""
	}
	return ShortDuration(*v.of)
}

func (v sizeValue) String() string {
	if *v.of == 0 {
		return ""
	}
	return v.of.String()
}
