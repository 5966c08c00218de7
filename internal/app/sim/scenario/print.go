// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"io"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Print writes a scenario with all its values, and their meanings. Read reads it back.
func (f *File) Print(w io.Writer) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(node(reflect.ValueOf(f).Elem())); err != nil {
		return err
	}
	return enc.Close()
}

// node returns a value as a node.
func node(v reflect.Value) *yaml.Node {
	if text, ok := v.Addr().Interface().(value); ok {
		return scalar(text.String())
	}
	switch v.Kind() {
	case reflect.Struct:
		return structNode(v)
	case reflect.Slice:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			list.Content = append(list.Content, node(v.Index(i)))
		}
		if v.Len() == 0 {
			list.Style = yaml.FlowStyle
		}
		return list
	case reflect.String:
		return scalar(v.String())
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v.Interface())}
}

// scalar returns a text, in quotes only where there is none.
func scalar(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if text == "" {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func structNode(v reflect.Value) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode}
	k, hasKind := v.Addr().Interface().(keyed)
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		key := tag.Get("yaml")
		if key == "" {
			continue
		}
		if hasKind && key != "kind" {
			if _, keys := k.keys(); !slices.Contains(keys, key) {
				continue
			}
		}
		field := node(v.Field(i))
		if field.Kind == yaml.ScalarNode {
			field.LineComment = tag.Get("help")
		}
		m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, field)
	}
	return m
}
