package spelling

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	inLine     = regexp.MustCompile(`\bline (\d+): (.*)`)
	noField    = regexp.MustCompile(`^(?:json: unknown field "(.+)"|field (.+) not found in type (\S+))$`)
	setTwice   = regexp.MustCompile(`^(?:field|key) "?(.+?)"? already set in `)
	otherValue = regexp.MustCompile(`^cannot unmarshal !!(\w+).* into (.+)$`)
)

// Mistake says in the words of who wrote a text in JSON or YAML what its decoder found wrong: line, field, and what is
// expected there. The text may be nil, and has no lines then. It was decoded into a value of into's type.
func Mistake(text []byte, err error, into any) error {
	known := make(map[string]reflect.Type)
	types(reflect.TypeOf(into), known)
	said, place, n := err.Error(), "", 0
	if m := inLine.FindStringSubmatch(said); m != nil { // of YAML
		place, said = "line "+m[1]+": ", m[2]
		n, _ = strconv.Atoi(m[1])
	}
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) {
		if field := typed.Field[strings.LastIndexByte(typed.Field, '.')+1:]; field != "" {
			place = fmt.Sprintf("%s%.60q: ", lineOf(text, field), field)
		}
		return fmt.Errorf("%s%s where %s", place, words(typed.Value), needed(typed.Type))
	}
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		if said == "unexpected end of JSON input" {
			said = "it ends before its last } or ]"
		}
		return fmt.Errorf("line %d: this is no JSON: %s", 1+bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n")), said)
	}
	if m := noField.FindStringSubmatch(said); m != nil {
		var list []string
		for name, t := range known {
			if m[3] == "" || m[3] == name {
				list = append(list, fields(t)...)
			}
		}
		slices.Sort(list)
		list = slices.Compact(list)
		if m[1] != "" {
			place = lineOf(text, m[1])
		}
		question := Unknown{Meant: Meant(m[1]+m[2], list)}.Question()
		if question == "" && len(list) < 20 { // else it may be of several types
			question = ": give " + strings.Join(list, ", ")
		}
		return fmt.Errorf("%sthere is no field %.40q%s", place, m[1]+m[2], question)
	}
	if m := setTwice.FindStringSubmatch(said); m != nil {
		return fmt.Errorf("%s%.40q is given twice", place, m[1])
	}
	if m := otherValue.FindStringSubmatch(said); m != nil && known[m[2]] != nil {
		if lines := strings.Split(string(text), "\n"); n > 0 && n <= len(lines) {
			place = fmt.Sprintf("line %d, %.60q: ", n, strings.TrimSpace(lines[n-1]))
		}
		return fmt.Errorf("%s%s where %s", place, words(m[1]), needed(known[m[2]]))
	}
	return errors.New(place + strings.TrimPrefix(said, "yaml: "))
}

// lineOf says in which line of JSON a field stands, "" if it stands there twice or not at all.
func lineOf(text []byte, field string) string {
	quoted := strconv.AppendQuote(nil, field)
	before, _, _ := bytes.Cut(text, quoted)
	if bytes.Count(text, quoted) != 1 {
		return ""
	}
	return fmt.Sprintf("line %d, ", 1+bytes.Count(before, []byte("\n")))
}

// types collects the types of a value's parts by their names.
func types(t reflect.Type, all map[string]reflect.Type) {
	if t == nil || all[t.String()] != nil {
		return
	}
	all[t.String()] = t
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Pointer:
		types(t.Elem(), all)
	case reflect.Struct:
		for i := range t.NumField() {
			types(t.Field(i).Type, all)
		}
	}
}

// fields returns the names of a struct's fields in YAML or JSON.
func fields(t reflect.Type) (names []string) {
	for i := 0; t.Kind() == reflect.Struct && i < t.NumField(); i++ {
		tag := t.Field(i).Tag
		if name, _, _ := strings.Cut(tag.Get("yaml")+tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// words says what a decoder found.
func words(found string) string {
	kind, _, _ := strings.Cut(found, " ")
	switch kind {
	case "str", "string":
		return "a text"
	case "seq", "array":
		return "a list"
	case "map", "object":
		return "fields"
	case "int", "float", "number":
		return "a number"
	case "bool":
		return "true or false"
	}
	return "another value"
}

// needed says what a type needs.
func needed(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return needed(t.Elem())
	case reflect.Slice:
		return "a list is needed"
	case reflect.Map:
		return "names with their values are needed"
	case reflect.Struct:
		names := fields(t)
		if len(names) > 4 {
			names = append(names[:4], "…")
		}
		return "fields are needed: " + strings.Join(names, ", ")
	case reflect.Bool:
		return "true or false is needed"
	case reflect.String:
		return "a text is needed"
	case reflect.Float32, reflect.Float64:
		return "a number is needed"
	}
	return "a whole number is needed"
}
