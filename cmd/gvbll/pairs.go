package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// pair is one number of a flag that holds several by name, as
// --abstain confidence=0.3,outside=2. Exactly one of the two fields is set.
type pair struct {
	name   string
	number *float64
	count  *int
}

// parsePairs reads name=value pairs with commas between. A name may occur only once.
func parsePairs(text string, pairs ...pair) error {
	seen := map[string]bool{}
	for _, item := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		i := slices.IndexFunc(pairs, func(p pair) bool { return p.name == name })
		if !ok || i < 0 || seen[name] {
			names := make([]string, len(pairs))
			for i, p := range pairs {
				names[i] = p.name + "=NUMBER"
			}
			return fmt.Errorf("%q: give some of %s, each once, with commas between", item, strings.Join(names, ", "))
		}
		seen[name] = true
		var err error
		if p := pairs[i]; p.count != nil {
			*p.count, err = strconv.Atoi(value)
		} else {
			*p.number, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			return fmt.Errorf("%q: %q is not a number", item, value)
		}
	}
	return nil
}

// joinPairs returns the text of the pairs that are not zero.
func joinPairs(pairs ...pair) string {
	var items []string
	for _, p := range pairs {
		switch {
		case p.count != nil && *p.count != 0:
			items = append(items, fmt.Sprintf("%s=%d", p.name, *p.count))
		case p.number != nil && *p.number != 0:
			items = append(items, fmt.Sprintf("%s=%g", p.name, *p.number))
		}
	}
	return strings.Join(items, ",")
}
