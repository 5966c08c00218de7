// SPDX-License-Identifier: Apache-2.0

package calllog

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/internal/core/spell"
)

// MaxFilter is the greatest length of a filter, in bytes.
const MaxFilter = 1 << 16

// Filter says which calls are logged, and how.
type Filter struct {
	Errors bool // only calls that fail
	Data   bool // calls of the data path, too
	Enter  bool // a line as a call begins, too
	JSON   bool // lines of JSON

	patterns []pattern
	objects  []wanted
}

// pattern selects calls, or excludes them.
type pattern struct {
	glob    string
	exclude bool
}

// wanted selects objects: all of a kind, one of them, or a queue pair by its number.
type wanted struct {
	kind string
	n    uint32 // 0: all of the kind
	qpn  uint32 // 0: not by the number of a queue pair
}

// FilterError is an error in a filter, and its place.
type FilterError struct {
	Column   int    // from 1; it counts characters
	Word     string // the word there; empty: the end
	Expected string // the valid words there
}

// Error names the column, the word there, and the expected ones.
func (e *FilterError) Error() string {
	there := "the end"
	if e.Word != "" {
		there = strconv.Quote(e.Word)
	}
	return fmt.Sprintf("column %d: %s: expected %s", e.Column, there, e.Expected)
}

// switches are the words of a filter that set an option.
var switches = map[string]func(*Filter){
	"errors": func(f *Filter) { f.Errors = true },
	"data":   func(f *Filter) { f.Data = true },
	"enter":  func(f *Filter) { f.Enter = true },
	"json":   func(f *Filter) { f.JSON = true },
}

const (
	objectWord = "object="
	others     = "a call such as ibv_create_qp, a pattern such as ibv_*_qp or !ibv_query_*, object=qp1, " +
		"errors, data, enter or json"
)

// ParseFilter parses a filter: words, with commas or blanks between them. The error is a [*FilterError].
func ParseFilter(text string) (*Filter, error) {
	f := &Filter{}
	if len(text) > MaxFilter {
		expected := fmt.Sprintf("a filter of at most %d bytes", MaxFilter)
		return nil, &FilterError{Column: 1, Word: short(text), Expected: expected}
	}
	start, column, at := -1, 0, 0
	for i, r := range text + "," {
		column++
		if separator := r == ',' || unicode.IsSpace(r); !separator {
			if start < 0 {
				start, at = i, column
			}
			continue
		}
		if start >= 0 {
			if expected := f.word(text[start:i]); expected != "" {
				return nil, &FilterError{Column: at, Word: short(text[start:i]), Expected: expected}
			}
			start = -1
		}
	}
	return f, nil
}

// word takes a word of a filter. It returns the words expected in its place, or nothing.
func (f *Filter) word(w string) (expected string) {
	if set := switches[w]; set != nil {
		set(f)
		return ""
	}
	if object, ok := strings.CutPrefix(w, objectWord); ok {
		return f.object(object)
	}
	glob, exclude := strings.CutPrefix(w, "!")
	if _, err := path.Match(glob, ""); err != nil {
		return "a pattern in which each [ has its ]"
	}
	p := pattern{glob, exclude}
	if !slices.ContainsFunc(names, p.matches) {
		return others + meant(glob)
	}
	f.patterns = append(f.patterns, p)
	return ""
}

// object takes an object: qp, qp2, or qp:0x11.
func (f *Filter) object(w string) (expected string) {
	const what = "an object as the log names it, such as qp1, a kind, such as mr, " +
		"or a queue pair by its number, such as qp:0x11"
	if number, ok := strings.CutPrefix(w, "qp:"); ok {
		n, err := strconv.ParseUint(number, 0, 24)
		if err != nil || n == 0 {
			return what
		}
		f.objects = append(f.objects, wanted{kind: "qp", qpn: uint32(n)})
		return ""
	}
	kind := strings.TrimRight(w, "0123456789")
	if !slices.Contains(Kinds, kind) {
		if near := spell.Nearest(kind, Kinds, 2); near != "" {
			return what + "; did you mean " + near + "?"
		}
		return what + ": the kinds are " + strings.Join(Kinds, ", ")
	}
	var n uint64
	if digits := w[len(kind):]; digits != "" {
		var err error
		if n, err = strconv.ParseUint(digits, 10, 32); err != nil || n == 0 {
			return what
		}
	}
	f.objects = append(f.objects, wanted{kind: kind, n: uint32(n)})
	return ""
}

// matches reports whether a pattern matches a call's name, with or without ibv_ or rdma_.
func (p pattern) matches(call string) bool {
	for _, name := range []string{call, bare(call)} {
		if ok, _ := path.Match(p.glob, name); ok {
			return true
		}
	}
	return false
}

// bare returns the name of a call without its library's prefix.
func bare(call string) string {
	return strings.TrimPrefix(strings.TrimPrefix(call, "ibv_"), "rdma_")
}

// wants reports whether calls of a name are logged. A call of the data path has to be asked for by its name, if the
// filter does not say data.
func (f *Filter) wants(call string) bool {
	var selects, selected, named bool
	for _, p := range f.patterns {
		ok := p.matches(call)
		switch {
		case p.exclude && ok:
			return false
		case !p.exclude:
			selects = true
			selected = selected || ok
			named = named || ok && !strings.ContainsAny(p.glob, "*?[")
		}
	}
	return (selected || !selects) && (named || f.Data || !DataPath(call))
}

// concerns reports whether the filter selects one of the objects. Without a word for objects it selects all.
func (f *Filter) concerns(objects []seen) bool {
	if len(f.objects) == 0 {
		return true
	}
	for _, o := range objects {
		for _, w := range f.objects {
			switch {
			case o.kind != w.kind:
			case w.qpn != 0:
				if o.qpn == w.qpn {
					return true
				}
			case w.n == 0 || w.n == o.n:
				return true
			}
		}
	}
	return false
}

// meant suggests a word that is spelled like w, or returns nothing.
func meant(w string) string {
	words := append(slices.Sorted(func(yield func(string) bool) {
		for s := range switches {
			if !yield(s) {
				return
			}
		}
	}), names...)
	near := spell.Nearest(w, words, 2)
	if near == "" {
		bares := make([]string, len(names))
		for i, n := range names {
			bares[i] = bare(n)
		}
		near = spell.Nearest(w, bares, 2)
	}
	if near == "" {
		return ""
	}
	return "; did you mean " + near + "?"
}

// short cuts a word that is too long for an error.
func short(w string) string {
	const most = 40
	if len(w) <= most {
		return w
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(w[cut]) {
		cut--
	}
	return w[:cut] + "…"
}
