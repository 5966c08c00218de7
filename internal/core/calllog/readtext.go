// SPDX-License-Identifier: Apache-2.0

package calllog

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// textLine reads a line of text.
type textLine struct {
	s    string
	at   int
	fail *LineError
}

// expected notes that something else is there. Only the first note counts.
func (t *textLine) expected(what string) {
	if t.fail == nil {
		t.fail = &LineError{Column: utf8.RuneCountInString(t.s[:t.at]) + 1, Expected: what}
	}
}

func (t *textLine) rest() string { return t.s[t.at:] }

// skip skips a text that must be there.
func (t *textLine) skip(text, what string) {
	if t.fail != nil || !strings.HasPrefix(t.rest(), text) {
		t.expected(what)
		return
	}
	t.at += len(text)
}

// match takes the text that a pattern matches.
func (t *textLine) match(re *regexp.Regexp, what string) string {
	m := ""
	if t.fail == nil {
		m = re.FindString(t.rest())
	}
	if m == "" {
		t.expected(what)
	}
	t.at += len(m)
	return m
}

var (
	processPattern  = regexp.MustCompile(`^\d{1,10}(/\d{1,10})?`)
	clockPattern    = regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d{6}`)
	wordPattern     = regexp.MustCompile(`^\w{1,100}`)
	addressPattern  = regexp.MustCompile(`^\[[0-9A-Fa-f:.]+(%[\w.-]+)?\]:\d+`)
	symbolPattern   = regexp.MustCompile(`^[^\s,(){}\[\]"]+`)
	durationPattern = regexp.MustCompile(`^<(\d{1,9}\.\d{6})>$`)
)

// parseText reads a line of text. Its time has no date.
func parseText(line string) (*Entry, *LineError) {
	t := &textLine{s: line}
	e := &Entry{}
	process := t.match(processPattern, "a process's id, such as 4292 or 4292/4300, or an object of JSON")
	pid, tid, _ := strings.Cut(process, "/")
	e.PID, _ = strconv.Atoi(pid)
	e.TID, _ = strconv.Atoi(tid)
	t.skip(" ", "a blank and a time")
	const clock = "a time, such as 10:31:00.139816"
	at := t.match(clockPattern, clock)
	if at != "" {
		var err error
		if e.At, err = time.Parse("15:04:05.000000", at); err != nil {
			t.at -= len(at)
			t.expected(clock)
		}
	}
	t.skip(" ", "a blank and a call")
	e.Call = t.match(wordPattern, "a call, such as ibv_create_qp")
	t.skip("(", "( and the call's arguments")
	if t.fail == nil && t.s[t.at:] != " ..." && !strings.HasPrefix(t.rest(), ")") {
		e.Args = t.fields(0)
	}
	if t.fail == nil && t.rest() == " ..." {
		e.Begins, e.Void = true, true
		return e, nil
	}
	t.skip(")", "a comma or )")
	t.ending(e)
	if t.fail != nil {
		return nil, t.fail
	}
	return e, nil
}

// ending reads the text behind the arguments.
func (t *textLine) ending(e *Entry) {
	if t.fail != nil {
		return
	}
	const duration = "the call's duration, such as <0.000016>"
	end := strings.LastIndex(t.rest(), " <")
	if end < 0 {
		t.at = len(t.s)
		t.expected(duration)
		return
	}
	end += t.at
	m := durationPattern.FindStringSubmatch(t.s[end+1:])
	if m == nil {
		t.at = end + 1
		t.expected(duration)
		return
	}
	e.Took, _ = time.ParseDuration(m[1] + "s")
	e.Void = t.at == end
	if e.Void {
		return
	}
	t.skip(" = ", "= and a result")
	e.Result = t.value(0)
	if t.fail != nil || t.at >= end {
		return
	}
	t.skip(" ", "a blank and an errno")
	if t.fail != nil {
		return
	}
	e.Errno, e.Error, _ = strings.Cut(t.s[t.at:end], " (")
	e.Error = strings.TrimSuffix(e.Error, ")")
}

// fields reads arguments, or the fields of a struct.
func (t *textLine) fields(depth int) (f Fields) {
	for {
		name := t.match(wordPattern, "the name of an argument")
		t.skip("=", "= and a value")
		f = append(f, Arg{name, t.value(depth)})
		if t.fail != nil || !strings.HasPrefix(t.rest(), ", ") {
			return f
		}
		t.at += 2
	}
}

func (t *textLine) list(depth int) List {
	l := List{}
	if strings.HasPrefix(t.rest(), "]") {
		return l
	}
	for {
		l = append(l, t.value(depth))
		if t.fail != nil || !strings.HasPrefix(t.rest(), ", ") {
			return l
		}
		t.at += 2
	}
}

// value reads a value. depth is how many structs and lists it is in.
func (t *textLine) value(depth int) any {
	if t.fail != nil {
		return nil
	}
	if depth == maxNesting {
		t.expected("fewer structs and lists in each other")
		return nil
	}
	switch s := t.rest(); {
	case strings.HasPrefix(s, `"`):
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			t.expected("a string with an end")
			return nil
		}
		t.at += len(quoted)
		text, _ := strconv.Unquote(quoted)
		return text
	case strings.HasPrefix(s, "{"):
		t.at++
		f := Fields{}
		if !strings.HasPrefix(t.rest(), "}") {
			f = t.fields(depth + 1)
		}
		t.skip("}", "a comma or }")
		return f
	case strings.HasPrefix(s, "["):
		if a := addressPattern.FindString(s); a != "" {
			t.at += len(a)
			return Symbol(a)
		}
		t.at++
		l := t.list(depth + 1)
		t.skip("]", "a comma or ]")
		return l
	}
	return plain(t.match(symbolPattern, "a value"))
}

// plain returns the value of a text without quotes.
func plain(s string) any {
	switch s {
	case "NULL":
		return nil
	case "true", "false":
		return s == "true"
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return n
	}
	return Symbol(s)
}
