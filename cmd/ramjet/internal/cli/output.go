// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
)

// Output is standard output, or standard error. It keeps the first error, so that a command fails if its results
// cannot be written.
type Output struct {
	File  *os.File
	ASCII bool // it is a terminal whose locale has no UTF-8
	mu    sync.Mutex
	err   error
}

func NewOutput(f *os.File) *Output {
	return &Output{File: f, ASCII: term.IsTerminal(int(f.Fd())) && !LocaleHasUTF8()}
}

func (o *Output) Write(b []byte) (int, error) {
	text := b
	if o.ASCII {
		text = []byte(InASCII(string(b)))
	}
	n, err := o.File.Write(text)
	if err == nil {
		n = len(b)
	}
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// Failure returns the first error of a write.
func (o *Output) Failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// FileOf returns the file that w is, or nil.
func FileOf(w io.Writer) *os.File {
	if o, ok := w.(*Output); ok {
		return o.File
	}
	f, _ := w.(*os.File)
	return f
}

// Verbatim returns a writer of the same file that leaves bytes as they are.
func Verbatim(w io.Writer) io.Writer {
	if o, ok := w.(*Output); ok && o.ASCII {
		return o.File
	}
	return w
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f := FileOf(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// JSONHeader begins every object that a command writes with --json: the program and its version, the host, the
// time, and the devices that it is about, if any.
type JSONHeader struct {
	Version string    `json:"version"` // of this program
	Host    string    `json:"host"`
	Time    time.Time `json:"time"`
	Devices []string  `json:"devices,omitempty"`
}

// encodeJSON returns v, whose JSON is an object, behind a header. A list of devices in v is instead of the
// header's.
func encodeJSON(v any, devices ...string) ([]byte, error) {
	host, _ := os.Hostname() // empty: not known
	head, err := marshal(JSONHeader{softdev.Version(), host, time.Now(), devices})
	if err != nil {
		return nil, err
	}
	body, err := marshal(v)
	if err != nil {
		return nil, err
	}
	if len(body) < 2 || body[0] != '{' {
		return nil, fmt.Errorf("%T is not an object in JSON", v)
	}
	if bytes.Equal(body, []byte("{}")) {
		return head, nil
	}
	return append(append(head[:len(head)-1], ','), body[1:]...), nil
}

// marshal is json.Marshal, which leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// WriteJSON writes v behind a header, indented.
func WriteJSON(w io.Writer, v any, devices ...string) error {
	text, err := encodeJSON(v, devices...)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err = w.Write(b.Bytes())
	return err
}

// WriteJSONLine writes v behind a header, in one line.
func WriteJSONLine(w io.Writer, v any, devices ...string) error {
	line, err := encodeJSON(v, devices...)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	return err
}

// Colors of words on a terminal.
const (
	ColorOff    = "\x1b[0m"
	ColorBold   = "\x1b[1m"
	ColorRed    = "\x1b[1;31m"
	ColorGreen  = "\x1b[32m"
	ColorYellow = "\x1b[33m"
)

// TableStyle returns how many columns tables may have, 0: any number, as out is no terminal; and whether colors.
func TableStyle(out io.Writer) (width int, color bool) {
	if !IsTerminal(out) {
		return 0, false
	}
	w, _, err := term.GetSize(int(FileOf(out).Fd()))
	if err != nil || w <= 0 {
		w = HelpWidth
	}
	return w, os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// TerminalStyle returns how many columns prose may have, at most those of help, and whether it may have colors.
func TerminalStyle(out io.Writer) (width int, color bool) {
	o, ok := out.(*Output)
	if !ok || !IsTerminal(out) {
		return HelpWidth, false
	}
	w, _, err := term.GetSize(int(o.File.Fd()))
	if err != nil || w <= 0 {
		w = HelpWidth
	}
	return min(w, HelpWidth), os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
