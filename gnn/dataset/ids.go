package dataset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gvbll/gvbll/gnn/spelling"
)

// IDs are the names of a data set's nodes: Texts, or Numbers, or, if both are nil,
// the nodes' own numbers from 0. With both, a node whose text is empty has a number.
type IDs struct {
	Texts   []string // by node
	Numbers []int64  // by node
}

// At returns the id of node v: a text, or a number where the text is empty.
func (l IDs) At(v int32) (text string, number int64) {
	switch {
	case l.Texts != nil && (l.Numbers == nil || l.Texts[v] != ""):
		return l.Texts[v], 0
	case l.Numbers != nil:
		return "", l.Numbers[v]
	}
	return "", int64(v)
}

// String returns the id of node v as text.
func (l IDs) String(v int32) string {
	if text, number := l.At(v); text == "" {
		return strconv.FormatInt(number, 10)
	} else {
		return text
	}
}

// idsOf returns ids that were read from the cells of a table. A text in JSON, in quotes, is that text. The others are numbers
// if every one is written as an integer is, without a sign + or zeros before it: a producer of the same graph
// would send these as numbers.
func idsOf(cells []string) IDs {
	texts, numbers := make([]string, len(cells)), make([]int64, len(cells))
	plain, whole := 0, true
	for v, cell := range cells {
		if text, ok := unquoted(cell); ok {
			texts[v] = text
			continue
		}
		plain++
		n, ok := spelling.Integer(cell)
		whole = whole && ok
		numbers[v] = n
	}
	switch {
	case plain == len(cells) && whole:
		return numberedIDs(numbers)
	case plain > 0 && whole:
		return IDs{Texts: texts, Numbers: numbers}
	}
	for v, cell := range cells {
		texts[v] = cmp.Or(texts[v], cell)
	}
	return IDs{Texts: texts}
}

func unquoted(cell string) (text string, ok bool) {
	if len(cell) < 2 || cell[0] != '"' || cell[len(cell)-1] != '"' {
		return "", false
	}
	err := json.Unmarshal([]byte(cell), &text)
	return text, err == nil && text != ""
}

// keyOf returns what tells the node of a cell from others: the text, or the cell where a text looks like a number.
func keyOf(cell string) string {
	if text, ok := unquoted(cell); ok {
		if _, isInteger := spelling.Integer(text); !isInteger {
			return text
		}
	}
	return cell
}

// cells returns the ids as a table has them: texts in JSON where they would else be read as others.
func (l IDs) cells(n int) []string {
	cells := make([]string, n)
	mixed, allWhole := l.Texts != nil && l.Numbers != nil, true
	for v := range cells {
		text, number := l.At(int32(v))
		if cells[v] = text; text == "" {
			cells[v] = strconv.FormatInt(number, 10)
			continue
		}
		_, isInteger := spelling.Integer(text)
		if mixed || isOdd(text) {
			cells[v] = quote(text)
		} else {
			allWhole = allWhole && isInteger
		}
	}
	if l.Texts != nil && !mixed && allWhole {
		for v, text := range l.Texts {
			cells[v] = quote(text)
		}
	}
	return cells
}

// isOdd reports whether a table would have another text than this one if it had it as it is.
func isOdd(text string) bool {
	return text != "" && text[0] == '"' || strings.TrimSpace(text) != text || strings.ContainsFunc(text, unicode.IsControl) ||
		strings.ContainsRune(text, '\ufeff')
}

func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text
	}
	return string(b)
}

func numberedIDs(numbers []int64) IDs {
	for v, n := range numbers {
		if n != int64(v) {
			return IDs{Numbers: numbers}
		}
	}
	return IDs{}
}

func checkID(id string) error {
	switch {
	case id == "":
		return errors.New("the id is empty: give each node its own")
	case len(id) > maxID || !utf8.ValidString(id):
		return fmt.Errorf("id %.80q of %d bytes: want at most %d, in UTF-8", id, len(id), maxID)
	}
	return nil
}

// maxID bounds the length of an id in bytes, as the wire format does.
const maxID = 1024
