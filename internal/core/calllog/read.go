// SPDX-License-Identifier: Apache-2.0

package calllog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// MaxLine is the length of the longest line that a [Reader] reads, in bytes.
const MaxLine = 1 << 18

// maxNesting is how deep the structs and lists of an argument may be in each other.
const maxNesting = 16

// Entry is a line of a log.
type Entry struct {
	Line     int       // from 1
	Size     int       // of the line, in bytes
	At       time.Time // when the call began
	PID, TID int       // TID 0: there is none
	Call     string
	Args     Fields // of nil, bool, int64, uint64, string, [Symbol], [Fields] and [List]
	Begins   bool   // the call begins; the rest is in the line of its end
	Result   any    // nil: NULL, or the call returns nothing
	Void     bool   // it returns nothing, or has not returned
	Errno    string // if it failed, such as EINVAL
	Error    string // further facts about the error
	Took     time.Duration
}

// Ended returns when the call returned.
func (e *Entry) Ended() time.Time { return e.At.Add(e.Took) }

// Arg returns an argument, or nil.
func (e *Entry) Arg(name string) any { return e.Args.Get(name) }

// Get returns a field, or nil.
func (f Fields) Get(name string) any {
	for i := range f {
		if f[i].Name == name {
			return f[i].Value
		}
	}
	return nil
}

// String returns the call as the text form has it, without time and process.
func (e *Entry) String() string {
	b := append(appendArgs(append([]byte(e.Call), '('), e.Args), ')')
	if e.Begins {
		return string(b)
	}
	if !e.Void {
		b = appendText(append(b, " = "...), e.Result)
	}
	if e.Errno != "" {
		b = append(append(b, ' '), e.Errno...)
	}
	if e.Error != "" {
		b = append(append(append(b, " ("...), e.Error...), ')')
	}
	return string(b)
}

// LineError is an error in a log, and its place.
type LineError struct {
	Line     int // from 1
	Column   int // from 1; it counts characters
	Expected string
}

// Error names the line, the column, and the text expected there.
func (e *LineError) Error() string {
	return fmt.Sprintf("line %d, column %d: expected %s", e.Line, e.Column, e.Expected)
}

// Reader reads a log line by line, of text, JSON, or both.
type Reader struct {
	r    *bufio.Reader
	near time.Time // of the last call
	line int
	cut  bool
}

// NewReader returns a reader. Lines of text have no date, and the time of their time zone: they are of the zone of
// near, and of the day on which they are nearest to it, or to the line before.
func NewReader(r io.Reader, near time.Time) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, MaxLine), near: near}
}

// Cut reports whether the log ended in the middle of a line, which Next has left out.
func (r *Reader) Cut() bool { return r.cut }

// Next returns the next line. At the end the error is io.EOF; a line that cannot be read is a [*LineError].
func (r *Reader) Next() (*Entry, error) {
	for {
		r.line++
		b, err := r.r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, &LineError{r.line, 1, fmt.Sprintf("a line of at most %d bytes", MaxLine)}
		case err != nil && (err != io.EOF || len(b) == 0):
			return nil, err
		}
		text := strings.TrimRight(string(b), "\r\n")
		if text == "" {
			continue
		}
		parse := parseText
		if text[0] == '{' {
			parse = parseJSON
		}
		e, bad := parse(text)
		switch {
		case bad == nil:
			e.Line, e.Size = r.line, len(text)
			r.date(e)
			return e, nil
		case err == io.EOF: // the last line has no end
			r.cut = true
			return nil, io.EOF
		}
		bad.Line = r.line
		return nil, bad
	}
}

// date gives a time without a date the day on which it is nearest to the call before.
func (r *Reader) date(e *Entry) {
	if e.At.Year() == 0 {
		y, m, d := r.near.Date()
		h, min, s := e.At.Clock()
		e.At = time.Date(y, m, d, h, min, s, e.At.Nanosecond(), r.near.Location())
		switch off := e.At.Sub(r.near); {
		case off > 12*time.Hour:
			e.At = e.At.AddDate(0, 0, -1)
		case off < -12*time.Hour:
			e.At = e.At.AddDate(0, 0, 1)
		}
	}
	r.near = e.At.In(r.near.Location())
}
