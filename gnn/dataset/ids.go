package dataset

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// IDs are the names of a data set's nodes: Texts, or Numbers, or, if both are nil,
// the nodes' own numbers from 0.
type IDs struct {
	Texts   []string // by node, none empty
	Numbers []int64  // by node
}

// At returns the id of node v: a text, or a number where the text is empty.
func (l IDs) At(v int32) (text string, number int64) {
	switch {
	case l.Texts != nil:
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

// idsOf returns ids that were read as text. They are numbers if every one is written
// as an integer is, without a sign + or zeros before it: a producer of the same graph
// would send these as numbers.
func idsOf(texts []string) IDs {
	numbers := make([]int64, len(texts))
	for v, text := range texts {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != text {
			return IDs{Texts: texts}
		}
		numbers[v] = n
	}
	return numberedIDs(numbers)
}

// numberedIDs returns integer ids.
func numberedIDs(numbers []int64) IDs {
	for v, n := range numbers {
		if n != int64(v) {
			return IDs{Numbers: numbers}
		}
	}
	return IDs{}
}

// checkID returns an error unless the text can be an id.
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
