// SPDX-License-Identifier: Apache-2.0

package calllog

import (
	"encoding/json"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// parseJSON reads a line of JSON.
func parseJSON(line string) (*Entry, *LineError) {
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	fail := func(expected string) (*Entry, *LineError) {
		at := min(int(d.InputOffset()), len(line))
		return nil, &LineError{Column: utf8.RuneCountInString(line[:at]) + 1, Expected: expected}
	}
	v, ok := jsonValue(d, 0)
	f, object := v.(Fields)
	switch _, err := d.Token(); {
	case !ok || !object:
		return fail("an object of JSON, with at most 16 structs and lists in each other")
	case err != io.EOF:
		return fail("one object of JSON in a line")
	}
	e := &Entry{Void: true}
	at, _ := f.Get("time").(Symbol)
	var err error
	if e.At, err = time.Parse(time.RFC3339Nano, string(at)); err != nil || e.At.Year() < 1 {
		return fail(`a call's "time", such as "2026-11-28T10:31:00.173755029Z"`)
	}
	e.PID, ok = jsonNumber(f, "pid")
	if !ok || e.PID <= 0 {
		return fail(`the "pid" of a process`)
	}
	if e.TID, ok = jsonNumber(f, "tid"); !ok {
		return fail(`the "tid" of a thread`)
	}
	call, _ := f.Get("call").(Symbol)
	if e.Call = string(call); e.Call == "" {
		return fail(`a "call", such as "ibv_create_qp"`)
	}
	if e.Args, ok = f.Get("args").(Fields); !ok {
		return fail(`"args", an object`)
	}
	e.Begins, _ = f.Get("begins").(bool)
	took, ok := jsonNumber(f, "duration_ns")
	if !ok || took < 0 {
		return fail(`a "duration_ns"`)
	}
	e.Took = time.Duration(took)
	for _, a := range f {
		switch text, _ := a.Value.(Symbol); a.Name {
		case "result":
			e.Void, e.Result = false, a.Value
		case "errno":
			e.Errno = string(text)
		case "error":
			e.Error = string(text)
		}
	}
	return e, nil
}

// jsonNumber returns a number, or 0 if there is none of that name.
func jsonNumber(f Fields, name string) (n int, ok bool) {
	switch v := f.Get(name).(type) {
	case nil:
		return 0, true
	case int64:
		return int(v), true
	}
	return 0, false
}

// jsonValue reads a value, with its fields in their order.
func jsonValue(d *json.Decoder, depth int) (v any, ok bool) {
	t, err := d.Token()
	if err != nil || depth > maxNesting {
		return nil, false
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return jsonList(d, depth)
		}
		return jsonFields(d, depth)
	case string:
		return Symbol(t), true
	case json.Number:
		return plain(t.String()), true
	}
	return t, true // true, false, null
}

func jsonList(d *json.Decoder, depth int) (v any, ok bool) {
	l := List{}
	for d.More() {
		e, ok := jsonValue(d, depth+1)
		if !ok {
			return nil, false
		}
		l = append(l, e)
	}
	_, err := d.Token()
	return l, err == nil
}

func jsonFields(d *json.Decoder, depth int) (v any, ok bool) {
	f := Fields{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		e, ok := jsonValue(d, depth+1)
		if !ok {
			return nil, false
		}
		f = append(f, Arg{name.(string), e})
	}
	_, err := d.Token()
	return f, err == nil
}
