package wire

import (
	"encoding/base64"
	"slices"
	"strconv"

	"github.com/gvbll/gvbll/gnn/spelling"
)

// wrappers are the names under which unions of Avro, and extended JSON of MongoDB, have a value with its type.
var wrappers = []string{
	"double", "float", "int", "long", "string", "boolean", "$date", "$numberLong", "$numberInt",
	"$numberDouble", "$numberDecimal", "$oid",
}

// unwrapped returns the value that an object stands for: one with its type as the only member's name, or a decimal of
// Connect, {"scale": 2, "value": "BAg="}. Others are returned as they are.
func (f field) unwrapped() field {
	if len(f) == 0 || f[0] != '{' {
		return f
	}
	members, value := 0, field(nil)
	f.each(func(name []byte, v field) error {
		if members++; slices.Contains(wrappers, string(name)) {
			value = v
		}
		return nil
	})
	switch {
	case members == 1 && value != nil:
		return value.unwrapped()
	case members == 2:
		if d := decimal(f.member("scale"), f.member("value")); d != nil {
			return d
		}
	}
	return f
}

// decimal returns the number of a scale, and of an integer in the base64 of its two's complement; nil if they are none.
func decimal(scale, value field) field {
	places, err := strconv.Atoi(string(scale))
	if err != nil || len(value) < 2 || value[0] != '"' {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(string(value[1 : len(value)-1]))
	text, ok := spelling.Decimal(b, places)
	if err != nil || len(b) == 0 || !ok {
		return nil
	}
	return field(text)
}

// unavailable reports whether Debezium does not know a value, because the database kept it apart and it has not changed.
func (f field) unavailable() bool { return string(f) == `"__debezium_unavailable_value"` }
