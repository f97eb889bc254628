// Package spelling reads values as people and programs write them: gaps, numbers, truth
// values, times, and the names of classes and categories. Tables, events and maps read through it,
// so that a text means the same in training and in serving. docs/data.md has its table of spellings.
package spelling

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// IsGap reports whether a text stands for no value wherever it is found.
func IsGap(text string) bool {
	switch text = strings.TrimSpace(text); len(text) {
	case 0:
		return true
	case 2:
		return text == `\N`
	case 3:
		return strings.EqualFold(text, "nan") || text == "NaT"
	case 4:
		return strings.EqualFold(text, "null") || text == "None" || text == "<NA>"
	}
	return false
}

// IsCertainGap reports whether a text stands for no value beyond doubt: it is empty, NaN or null.
func IsCertainGap(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || strings.EqualFold(text, "nan") || strings.EqualFold(text, "null")
}

// gapWords are gaps among numbers, times and truth values. Elsewhere they may be values: NA is a country.
var gapWords = []string{
	"na", "n/a", "n.a.", "#n/a", "none", "nil", "?", "-", "--", "–", "—", ".", "inf", "+inf", "-inf", "infinity",
	"-infinity", "#div/0!", "#value!", "0000-00-00", "0000-00-00 00:00:00",
}

// doubtful are words that may be gaps, and may be classes.
var doubtful = []string{
	"unknown", "unlabelled", "unlabeled", "unclassified", "undefined", "missing", "unk",
	"empty", "not available",
}

// IsGapWord reports whether a text stands for no value where values are numbers, times or truth values.
func IsGapWord(text string) bool { return IsGap(text) || among(gapWords, text) }

// IsDoubtful reports whether a text may stand for no value: one that IsGapWord names, or a word such as unknown.
func IsDoubtful(text string) bool { return IsGapWord(text) || among(doubtful, text) }

func among(words []string, text string) bool {
	text = strings.TrimSpace(text)
	return len(text) <= 19 && slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, text) })
}

// Name returns the one spelling of the name of a class or a category: without space around it, true and
// false in lower case, composed accents (NFC), spaces for line breaks, and whole numbers without the .0 that tables with gaps give them.
func Name(text string) string {
	if n := len(text); n > 0 && (text[0] <= ' ' || text[n-1] <= ' ' || text[0] >= utf8.RuneSelf || text[n-1] >= utf8.RuneSelf) {
		text = strings.TrimSpace(text)
	}
	if strings.ContainsAny(text, "\r\n") {
		text = OneLine(text)
	}
	text = norm.NFC.String(text)
	switch len(text) {
	case 4:
		if strings.EqualFold(text, "true") {
			return "true"
		}
	case 5:
		if strings.EqualFold(text, "false") {
			return "false"
		}
	}
	if n := len(text); n < 3 || text[n-1] != '0' {
		return text
	}
	whole, zeros, found := strings.Cut(text, ".")
	if !found || strings.Trim(zeros, "0") != "" {
		return text
	}
	if whole == "-0" {
		return "0"
	}
	if _, ok := Integer(whole); ok {
		return whole
	}
	return text
}

var lineBreaks = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")

// OneLine returns a text with spaces in the place of line breaks, as tables have it.
func OneLine(text string) string { return lineBreaks.Replace(text) }

// NameOf returns the name of a class or a category that came as a number.
func NameOf(v float64) string { return Name(strconv.FormatFloat(v, 'f', -1, 64)) }

// IsNumber reports whether a text is a finite decimal number.
func IsNumber(text string) bool { _, ok := Number(text); return ok }

// Number reads a finite decimal number.
func Number(text string) (v float64, ok bool) {
	if text = strings.TrimSpace(text); text == "" || text[0] > '9' || strings.ContainsAny(text, "_xX") {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && math.Abs(v) <= math.MaxFloat64
}

// Integer reads an integer that is written as programs write one, without a sign + or zeros before it: an id that is a number.
func Integer(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}

// Decimal returns an integer in two's complement, the highest byte first, with so many decimal places: a number as Avro and
// Connect have it. It is not ok beyond the decimals of any database.
func Decimal(b []byte, places int) (text string, ok bool) {
	const most = 128
	if len(b) > most || places < 0 || places > most {
		return "", false
	}
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	text = fmt.Sprintf("%0*d", places+1, new(big.Int).Abs(n))
	if places > 0 {
		text = text[:len(text)-places] + "." + text[len(text)-places:]
	}
	if n.Sign() < 0 {
		text = "-" + text
	}
	return text, true
}

// WithComma reads a number of a column of decimal commas: one with a comma, or a whole one.
func WithComma(text string) (v float64, ok bool) {
	if strings.ContainsAny(text, ".eE") {
		return 0, false
	}
	if before, after, found := strings.Cut(text, ","); found {
		text = before + "." + after
	}
	return Number(text)
}

// IsThousands reports whether the comma of a number may part thousands as well as decimals: 1,234.
func IsThousands(text string) bool {
	before, after, found := strings.Cut(strings.TrimSpace(text), ",")
	before = strings.TrimLeft(before, "+-")
	return found && len(after) == 3 && len(before) > 0 && len(before) <= 3 && before[0] != '0'
}

// amounts is the form of numbers with more to them than Number reads: a currency or a percent sign, the brackets or the minus of
// what is negative, groups of three digits that are parted by one mark, another mark before decimals, and an exponent.
var amounts = func() *regexp.Regexp {
	const currency, marks = "[€$£¥]", ",.' \u00a0\u202f’"
	forms := []string{`\d+(?:[` + marks + `]\d+)?`}
	for _, mark := range marks {
		m, others := regexp.QuoteMeta(string(mark)), strings.ReplaceAll(marks, string(mark), "")
		forms = append(forms, `\d+(?:`+m+`\d{3})+(?:[`+others+`]\d+)?`)
	}
	const space = `[\s\x{a0}\x{202f}]*`
	const unit = `(?:` + space + `(?:[%€$£¥]|USD|EUR|GBP|CHF|JPY)){0,2}` + space
	return regexp.MustCompile(`^` + unit + `\(?` + space + `[+\-−]*` + space + currency + `?` + space +
		`(?:` + strings.Join(forms, "|") + `)` + space + `(?:[eE][+-]?\d+)?` + space + `-?` + space + `\)?` + unit + `$`)
}()

// IsAmount reports whether a text is a number with more to it, which Number does not read: groups of
// thousands, a decimal comma, a percent sign, a currency, or a minus of another kind.
func IsAmount(text string) bool {
	text = strings.TrimSpace(text)
	return len(text) <= 32 && strings.ContainsAny(text, "0123456789") && !IsNumber(text) && amounts.MatchString(text) &&
		(strings.Contains(text, "(") || !strings.Contains(text, ")"))
}

// Bool reads a truth value.
func Bool(text string) (v, ok bool) {
	if len(text) > 5 {
		text = strings.TrimSpace(text)
	}
	switch len(text) {
	case 1:
		switch text[0] {
		case '1', 't', 'T':
			return true, true
		case '0', 'f', 'F':
			return false, true
		}
	case 4, 5:
		switch Name(text) {
		case "true":
			return true, true
		case "false":
			return false, true
		}
	}
	return false, false
}

// latest bounds times in milliseconds, so that sums of two fit an int64.
const latest = 1 << 60

// units are the lengths of units of time by name.
var units = []struct {
	name   string
	length time.Duration
}{
	{"s", time.Second},
	{"ms", time.Millisecond},
	{"us", time.Microsecond},
	{"ns", time.Nanosecond},
	{"days", 24 * time.Hour},
}

// Units are the names of units, for messages.
const Units = "s, ms, us, ns or days"

// Unit returns the length of a unit of time, that of ms for "".
func Unit(name string) (one time.Duration, ok bool) {
	if name == "" {
		return time.Millisecond, true
	}
	for _, u := range units {
		if u.name == name || name == "µs" && u.name == "us" || name == "d" && u.name == "days" {
			return u.length, true
		}
	}
	return 0, false
}

// millis returns the milliseconds of a number of units since 1970, rounded down.
func millis(n int64, one time.Duration) (at int64, ok bool) {
	if one >= time.Millisecond {
		k := int64(one / time.Millisecond)
		return n * k, n < latest/k && n > -latest/k
	}
	k := int64(time.Millisecond / one)
	at = n / k
	if n%k < 0 {
		at--
	}
	return at, at < latest && at > -latest
}

// Times in milliseconds: of the years 1990 to 2100.
const firstMillis, LastMillis = 631_152_000_000, 4_102_444_800_000

// Guess returns the unit in which a number of milliseconds is a time of the years 1990 to 2100, if that is
// another one: "" for what can be a time in milliseconds.
func Guess(at int64) string {
	for _, u := range units {
		if ms, ok := millis(at, u.length); ok && u.length != time.Millisecond && ms >= firstMillis && ms < LastMillis {
			return u.name
		}
	}
	return ""
}

// UnitOf returns the unit in which a number is a time of the years 1990 to 2100, "" if it is none in any.
func UnitOf(v float64) string {
	switch {
	case v >= firstMillis && v < LastMillis:
		return "ms"
	case v == math.Trunc(v) && math.Abs(v) < 1<<62:
		return Guess(int64(v))
	}
	return ""
}

// UnitNames has the units as words, by their names.
var UnitNames = map[string]string{"s": "seconds", "us": "microseconds", "ns": "nanoseconds", "days": "days"}

// dateTimes are the layouts of a date with a time of day, and maybe a zone.
var dateTimes = []string{
	"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07", "2006-01-02 15:04:05Z0700", "2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04", "2006-01-02 15:04Z07", "2006-01-02 15:04Z0700", "2006-01-02 15:04Z07:00",
}

// Date reads a date into milliseconds since 1970: 2026-03-01 or 2026/03/01; behind it, after T or a space,
// a time of day with or without seconds; behind that a zone: Z, UTC, +01, +0100 or +01:00. Without one it is in UTC.
func Date(text string) (at int64, ok bool) {
	text = strings.TrimSpace(text)
	const day = len("2006-01-02")
	if len(text) < day || text[4] != '-' && text[4] != '/' || text[7] != text[4] || len(text) > 64 { // what most texts are not
		return 0, false
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t.UnixMilli(), true
	}
	date, clock := strings.ReplaceAll(text[:day], "/", "-"), text[day:]
	if clock == "" {
		t, err := time.Parse(time.DateOnly, date)
		return t.UnixMilli(), err == nil
	}
	if !strings.ContainsAny(clock[:1], "Tt ") {
		return 0, false
	}
	clock = strings.TrimSpace(clock[1:])
	for _, utc := range []string{"Z", "z", "UTC", "GMT"} {
		if before, found := strings.CutSuffix(clock, utc); found {
			clock = strings.TrimSpace(before) + "Z"
			break
		}
	}
	if i := strings.LastIndexAny(clock, "+-"); i > 0 {
		clock = strings.TrimSpace(clock[:i]) + clock[i:]
	}
	for _, layout := range dateTimes {
		if t, err := time.Parse(layout, date+" "+clock); err == nil {
			_, east := t.Zone()
			return t.UnixMilli(), max(east, -east) <= 18*3600
		}
	}
	return 0, false
}

// Time reads a time into milliseconds since 1970: a number of units since then, or a date.
func Time(text string, one time.Duration) (at int64, ok bool) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return millis(n, one)
	}
	if v, number := Number(text); number { // as tables with gaps write whole numbers: 1774800000000.0
		return MillisOf(v, one)
	}
	return Date(text)
}

// MillisOf is Millis of a number with a fraction.
func MillisOf(v float64, one time.Duration) (at int64, ok bool) {
	if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
		return millis(int64(v), one)
	}
	v = math.Floor(v * (float64(one) / float64(time.Millisecond)))
	return int64(v), math.Abs(v) < latest
}

// otherLayouts are those of dates that are known as such, and not read.
var otherLayouts = []string{
	"2-Jan-2006", "2-Jan-06", "2 Jan 2006", "2 January 2006", "Jan 2, 2006", "January 2, 2006", "20060102T150405Z0700",
	"20060102T150405", "20060102 150405", time.RFC1123, time.RFC1123Z, time.ANSIC, time.UnixDate, "15:04:05", "15:04", "3:04 PM",
}

// LooksLikeDate reports whether a text has the form of a date, though maybe not one that Date reads:
// three numbers with the same mark between them, one of them a year.
func LooksLikeDate(text string) bool {
	text = strings.TrimSpace(text)
	if len(text) > 40 || !strings.ContainsAny(text, "0123456789") {
		return false
	}
	for _, layout := range otherLayouts {
		if _, err := time.Parse(layout, text); err == nil {
			return true
		}
	}
	if i := strings.IndexAny(text, " T"); i > 0 && len(text) > 10 {
		text = text[:i]
	}
	for _, mark := range []string{"/", ".", "-"} {
		if strings.Contains(text, mark) {
			numbers := strings.ReplaceAll(text, mark, "|")
			return dateForms.MatchString(numbers) || mark != "-" && shortDate.MatchString(numbers)
		}
	}
	return false
}

// Three numbers of which one is a year of four digits, and three of two digits.
var (
	dateForms = regexp.MustCompile(`^(?:\d{4}\|\d\d?\|\d\d?|\d\d?\|\d{4}\|\d\d?|\d\d?\|\d\d?\|\d{4})$`)
	shortDate = regexp.MustCompile(`^\d\d\|\d\d\|\d\d$`)
)

// spans are the units of lengths of time, in milliseconds.
var spans = map[string]int64{"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}

const longestSpan = 36_525 * 86_400_000

// Span reads a length of time in milliseconds: a whole number of d, h, m, s or ms, at most a hundred years. Any other text is 0.
func Span(text string) (ms int64) {
	digits := strings.TrimRight(text, "dhms")
	n, err := strconv.ParseInt(digits, 10, 64)
	if unit := spans[text[len(digits):]]; err == nil && unit > 0 && n > 0 && n <= longestSpan/unit {
		return n * unit
	}
	return 0
}

// FormatMillis returns a time in milliseconds since 1970 as a date.
func FormatMillis(at int64) string { return time.UnixMilli(at).UTC().Format(time.RFC3339) }
