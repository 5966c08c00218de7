// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"slices"
)

// A schema is a file with many of its mutants: each function that has some begins with a switch, which carries
// one of them out instead. An environment variable says which one, so that one build serves for all. Constants
// and variables outside of functions cannot be chosen so: such a mutant is built by itself.

// selector is the environment variable with the number of the mutant.
const selector = "RAMJET_MUTANT"

// selectorFile is the file that each package with a schema has beside its own.
func selectorFile(pkg string) []byte {
	return fmt.Appendf(nil, "package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar selectedMutant, _ = strconv.Atoi(os.Getenv(%q))\n", pkg, selector)
}

// numbered is a mutant with its number in a schema.
type numbered struct {
	*mutant
	number int
}

// schemaOf returns a file with mutants, which are all in functions.
func schemaOf(source []byte, list []numbered) (schema []byte, pkg string, err error) {
	set := token.NewFileSet()
	name := path.Base(list[0].file)
	tree, err := parser.ParseFile(set, name, source, parser.PackageClauseOnly)
	if err != nil {
		return nil, "", err
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b numbered) int { return cmp.Compare(a.body.start, b.body.start) })
	at := 0
	for i, m := range list {
		if i == 0 || list[i-1].body.start != m.body.start {
			schema = append(schema, source[at:m.body.start]...)
			schema = append(schema, "\nswitch selectedMutant {\n"...)
			at = m.body.start
		}
		// Errors of compilers name the mutant instead of the file.
		schema = fmt.Appendf(schema, "case %d:\n/*line mutant%d.go:%d:1*/{%s\n}\n", m.number, m.number, m.line,
			m.bodyText(source))
		if !m.body.results {
			schema = append(schema, "return\n"...)
		}
		if i == len(list)-1 || list[i+1].body.start != m.body.start {
			schema = fmt.Appendf(schema, "}\n/*line %s:%d:1*/", name, 1+bytes.Count(source[:at], []byte("\n")))
		}
	}
	return append(schema, source[at:]...), tree.Name.Name, nil
}

// bodyText returns the body of the mutant's function, changed. Its labels, which are the whole function's, get
// names of their own.
func (m numbered) bodyText(source []byte) (text []byte) {
	at := m.body.start
	change := func() {
		text = append(text, source[at:m.start]...)
		text = append(text, m.text...)
		at = m.end
	}
	for _, label := range m.body.labels {
		if at <= m.start && m.start < label {
			change()
		}
		if label > at {
			text = append(text, source[at:label]...)
			text = fmt.Appendf(text, "Mutant%d", m.number)
			at = label
		}
	}
	if at <= m.start {
		change()
	}
	return append(text, source[at:m.body.end]...)
}
