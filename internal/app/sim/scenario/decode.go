// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile is the most bytes of a scenario.
const maxFile = 16 << 20

// Read reads a scenario. name is the file's, for errors; folder has the files that it names.
func Read(r io.Reader, name, folder string) (*File, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: it has more than %d bytes", name, maxFile)
	}
	f := Default()
	f.name, f.folder, f.lines = name, folder, make(map[any]int)
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, syntaxError(name, err)
	}
	if doc.Kind == 0 {
		return f, nil
	}
	d := decoder{name, f.lines}
	return f, d.decode(doc.Content[0], reflect.ValueOf(f).Elem(), "")
}

var lineOfError = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntaxError writes an error of the YAML library as file and line.
func syntaxError(name string, err error) error {
	text := err.Error()
	m := lineOfError.FindStringSubmatch(text)
	if m == nil || m[1] == "" {
		return fmt.Errorf("%s: %s: expected YAML", name, strings.TrimPrefix(text, "yaml: "))
	}
	return fmt.Errorf("%s:%s: %s: expected YAML", name, m[1], text[len(m[0]):])
}

type decoder struct {
	name  string
	lines map[any]int
}

func (d *decoder) errorf(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", d.name, n.Line, fmt.Sprintf(format, args...))
}

// keyed is a struct of which only some keys mean anything, depending on its kind.
type keyed interface {
	keys() (what string, keys []string)
}

// decode sets v to the value of a node. tag is the field's.
func (d *decoder) decode(n *yaml.Node, v reflect.Value, tag reflect.StructTag) error {
	d.lines[v.Addr().Interface()] = n.Line
	if text, ok := v.Addr().Interface().(value); ok {
		if n.Kind != yaml.ScalarNode {
			return d.errorf(n, "expected a value such as %v", v.Interface())
		}
		if err := text.parse(n.Value); err != nil {
			return d.errorf(n, "%v", err)
		}
		return d.check(n, v, tag)
	}
	switch v.Kind() {
	case reflect.Struct:
		return d.decodeStruct(n, v)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			return d.errorf(n, "expected a list: lines that begin with -")
		}
		list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
		for i, item := range n.Content {
			if t, ok := list.Index(i).Addr().Interface().(interface{ defaults() }); ok {
				t.defaults()
			}
			if err := d.decode(item, list.Index(i), ""); err != nil {
				return err
			}
		}
		v.Set(list)
		return nil
	}
	if n.Kind != yaml.ScalarNode {
		return d.errorf(n, "expected a value such as %v", v.Interface())
	}
	return d.decodeScalar(n, v, tag)
}

// decodeStruct decodes a mapping: its kind first, which determines the other keys.
func (d *decoder) decodeStruct(n *yaml.Node, v reflect.Value) error {
	if n.Kind != yaml.MappingNode {
		return d.errorf(n, "expected keys: %s", strings.Join(keysOf(v), ", "))
	}
	at := make(map[string]*yaml.Node)
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i].Value
		if !slices.Contains(keysOf(v), key) {
			return d.errorf(n.Content[i], "unknown key %q: expected one of %s", key, strings.Join(keysOf(v), ", "))
		}
		if at[key] != nil {
			return d.errorf(n.Content[i], "key %q stands there twice", key)
		}
		at[key] = n.Content[i+1]
	}
	for _, kinds := range []bool{true, false} {
		for i := range v.NumField() {
			tag := v.Type().Field(i).Tag
			key := tag.Get("yaml")
			if at[key] == nil || (key == "kind") != kinds {
				continue
			}
			if k, ok := v.Addr().Interface().(keyed); ok && !kinds {
				if what, keys := k.keys(); !slices.Contains(keys, key) {
					return d.errorf(at[key], "%s has no %q: expected one of %s", what, key, strings.Join(keys, ", "))
				}
			}
			if err := d.decode(at[key], v.Field(i), tag); err != nil {
				return fmt.Errorf("%w", err)
			}
		}
	}
	return nil
}

// keysOf returns the keys of a struct.
func keysOf(v reflect.Value) (keys []string) {
	for i := range v.NumField() {
		if key := v.Type().Field(i).Tag.Get("yaml"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

func (d *decoder) decodeScalar(n *yaml.Node, v reflect.Value, tag reflect.StructTag) error {
	err := errors.New("")
	expected := ""
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value)
		err = nil
	case reflect.Bool:
		var b bool
		if err = n.Decode(&b); err == nil {
			v.SetBool(b)
		}
		expected = "true or false"
	case reflect.Int:
		var i int64
		if i, err = strconv.ParseInt(n.Value, 10, 64); err == nil {
			v.SetInt(i)
		}
		expected = "a whole number"
	case reflect.Uint64:
		var i uint64
		if i, err = strconv.ParseUint(n.Value, 10, 64); err == nil {
			v.SetUint(i)
		}
		expected = "a whole number from 0"
	case reflect.Float64:
		var f float64
		if f, err = strconv.ParseFloat(n.Value, 64); err == nil {
			v.SetFloat(f)
		}
		expected = "a number"
	}
	if err != nil {
		return d.errorf(n, "%q: expected %s", n.Value, expected)
	}
	return d.check(n, v, tag)
}

// check holds a value within the limits that its field's tag has.
func (d *decoder) check(n *yaml.Node, v reflect.Value, tag reflect.StructTag) error {
	if words := strings.Fields(tag.Get("words")); len(words) > 0 && !slices.Contains(words, n.Value) {
		return d.errorf(n, "%q: expected %s", n.Value, strings.Join(words, ", "))
	}
	limits, ok := tag.Lookup("range")
	if !ok {
		return nil
	}
	var low, high, f float64
	fmt.Sscan(limits, &low, &high)
	if v.CanInt() {
		f = float64(v.Int())
	} else {
		f = v.Float()
	}
	if !(f >= low && f <= high) {
		return d.errorf(n, "%s: expected %v to %v", n.Value, int64OrFloat(low), int64OrFloat(high))
	}
	return nil
}

// int64OrFloat keeps large whole numbers from being written with an exponent.
func int64OrFloat(f float64) any {
	if f == float64(int64(f)) {
		return int64(f)
	}
	return f
}
