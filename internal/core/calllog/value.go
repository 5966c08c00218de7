// SPDX-License-Identifier: Apache-2.0

package calllog

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Arg is an argument, or a field of a struct, by its name in C.
type Arg = struct {
	Name  string
	Value any
}

// The values of arguments. Others are bool, string (quoted), integers (decimal) and nil (NULL).
type (
	// Symbol is the name of a constant of C, or other text without quotes, such as an address.
	Symbol string
	// Hex is an address, a key, or a number of bits.
	Hex uint64
	// Fields are the fields of a struct.
	Fields []Arg
	// List is an array.
	List []any
	// Object is an object of the program, such as a queue pair. Key is its address, unique among objects of its kind.
	Object struct {
		Kind string
		Key  uintptr
	}
)

// named is an object by its kind and number.
type named struct {
	kind string
	n    uint32  // 0: the object is not known
	key  uintptr // its address
}

func (o named) String() string {
	if o.n == 0 {
		return fmt.Sprintf("%s?%#x", o.kind, o.key)
	}
	return o.kind + strconv.FormatUint(uint64(o.n), 10)
}

// appendText appends a value as text.
func appendText(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "NULL"...)
	case Symbol:
		if v == "" || strings.ContainsFunc(string(v), separates) {
			return strconv.AppendQuote(b, string(v))
		}
		return append(b, v...)
	case string:
		return strconv.AppendQuote(b, v)
	case Hex:
		return strconv.AppendUint(append(b, "0x"...), uint64(v), 16)
	case named:
		return append(b, v.String()...)
	case Fields:
		return append(appendArgs(append(b, '{'), v), '}')
	case List:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendText(b, e)
		}
		return append(b, ']')
	}
	return fmt.Append(b, v)
}

// separates reports whether a character ends a value without quotes, or a line.
func separates(r rune) bool { return strings.ContainsRune(` ,(){}"`, r) || !unicode.IsPrint(r) }

// appendArgs appends name=value, with commas between them.
func appendArgs(b []byte, args []Arg) []byte {
	for i, a := range args {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendText(append(append(b, a.Name...), '='), a.Value)
	}
	return b
}

// appendJSON appends a value as JSON. Keys and addresses, which may be larger than JavaScript's numbers, are strings.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case Fields:
		b = append(b, '{')
		for i, a := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(append(appendJSONString(b, a.Name), ':'), a.Value)
		}
		return append(b, '}')
	case List:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, e)
		}
		return append(b, ']')
	case string:
		return appendJSONString(b, v)
	case Symbol:
		return appendJSONString(b, string(v))
	case Hex, named:
		return appendJSONString(b, string(appendText(nil, v)))
	}
	return fmt.Append(b, v)
}

// MarshalJSON returns the fields as an object, in their order.
func (f Fields) MarshalJSON() ([]byte, error) { return appendJSON(nil, f), nil }

// MarshalJSON returns the elements as an array.
func (l List) MarshalJSON() ([]byte, error) { return appendJSON(nil, l), nil }

// appendJSONString appends a string of JSON. Bytes that are not UTF-8 are replaced.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range strings.ToValidUTF8(s, string(utf8.RuneError)) {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ' || r == 0x7f:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
