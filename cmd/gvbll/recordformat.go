package main

import (
	"fmt"
	"strconv"

	"github.com/gvbll/gvbll/topics/kafka"
)

// recordFormat is a format for records as kcat's -f has them: pieces of text, and
// functions of the record in their place.
type recordFormat []formatPiece

// formatPiece appends its text. readable is the record's value as JSON.
type formatPiece func(dst []byte, r *kafka.Record, readable []byte) []byte

// formatTokens are the pieces by their letter behind a percent sign.
var formatTokens = map[byte]formatPiece{
	's': func(dst []byte, _ *kafka.Record, readable []byte) []byte { return append(dst, readable...) },
	'S': func(dst []byte, r *kafka.Record, _ []byte) []byte { return appendLength(dst, r.Value) },
	'k': func(dst []byte, r *kafka.Record, _ []byte) []byte { return append(dst, r.Key...) },
	'K': func(dst []byte, r *kafka.Record, _ []byte) []byte { return appendLength(dst, r.Key) },
	't': func(dst []byte, r *kafka.Record, _ []byte) []byte { return append(dst, r.Topic...) },
	'p': func(dst []byte, r *kafka.Record, _ []byte) []byte {
		return strconv.AppendInt(dst, int64(r.Partition), 10)
	},
	'o': func(dst []byte, r *kafka.Record, _ []byte) []byte { return strconv.AppendInt(dst, r.Offset, 10) },
	'T': func(dst []byte, r *kafka.Record, _ []byte) []byte {
		return strconv.AppendInt(dst, r.Time.UnixMilli(), 10)
	},
	'h': func(dst []byte, r *kafka.Record, _ []byte) []byte {
		for i, h := range r.Headers {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(append(dst, h.Key...), '='), h.Value...)
		}
		return dst
	},
	'%': literal("%"),
}

// formatEscapes are the characters by their letter behind a backslash.
var formatEscapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '0': "\x00", '\\': `\`}

// appendLength appends the length of a key or value, -1 for null, as kcat does.
func appendLength(dst, b []byte) []byte {
	if b == nil {
		return append(dst, "-1"...)
	}
	return strconv.AppendInt(dst, int64(len(b)), 10)
}

func literal(text string) formatPiece {
	return func(dst []byte, _ *kafka.Record, _ []byte) []byte { return append(dst, text...) }
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *recordFormat) UnmarshalText(text []byte) error {
	*f = recordFormat{}
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '%' && c != '\\' {
			*f = append(*f, literal(string(text[i:i+1])))
			continue
		}
		if i++; i == len(text) {
			return fmt.Errorf("%q: a %c at the end", text, c)
		}
		piece := formatTokens[text[i]]
		if escape, ok := formatEscapes[text[i]]; c == '\\' {
			if piece = nil; ok {
				piece = literal(escape)
			}
		}
		if piece == nil {
			return fmt.Errorf(`%q: %q is unknown: give %%s, %%S, %%k, %%K, %%t, %%p, %%o, %%T, %%h, %%%%, \n, \t, \r, \0 or \\`, text, text[i-1:i+1])
		}
		*f = append(*f, piece)
	}
	return nil
}

// append appends a record in this format.
func (f recordFormat) append(dst []byte, r *kafka.Record, readable []byte) []byte {
	for _, piece := range f {
		dst = piece(dst, r, readable)
	}
	return dst
}
