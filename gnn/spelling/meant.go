package spelling

import (
	"fmt"
	"strings"
)

// Unknown counts values that came under a name which nobody knows.
type Unknown struct {
	Name   string `json:"name"`
	Values int64  `json:"values"`
	Meant  string `json:"meant,omitempty"` // the known name that it may be a misspelling of, "" for none
}

// Question asks whether the known name was meant, "" if there is none.
func (u Unknown) Question() string {
	if u.Meant == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %.64q?", u.Meant)
}

// Meant returns the one of the known names that a name may be a misspelling of, "" if there is none or more
// than one. Capitals and marks never count. Of four letters up one may be wrong, of eight up two: missing, added, other,
// or exchanged with its neighbour. Digits must agree: x1 is not x2.
func Meant(name string, known []string) (meant string) {
	given := plain(name)
	least := 3
	for _, k := range known {
		p := plain(k)
		most := min(len(given), len(p), 8) / 4
		if d := edits(given, p, most); d > most || d > least || digits(given) != digits(p) {
			continue
		} else if d < least {
			meant, least = k, d
		} else {
			meant = ""
		}
	}
	return meant
}

// plain returns a name in lower case, without marks and spaces between its words.
func plain(name string) string {
	return marks.Replace(strings.ToLower(name))
}

var marks = strings.NewReplacer("_", "", "-", "", " ", "", ".", "")

func digits(name string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, name)
}

// edits returns the number of letters to add, drop, replace or exchange with a neighbour that make a of b, or a number
// above most.
func edits(a, b string, most int) int {
	switch {
	case a == b:
		return 0
	case most == 0 || len(a)-len(b) > most || len(b)-len(a) > most:
		return most + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, replaced)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
