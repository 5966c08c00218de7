// SPDX-License-Identifier: Apache-2.0

package main

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

// output is standard output, or standard error. It keeps the first error, so that a command fails if its results
// cannot be written.
type output struct {
	file  *os.File
	ascii bool // it is a terminal whose locale has no UTF-8
	mu    sync.Mutex
	err   error
}

func newOutput(f *os.File) *output {
	return &output{file: f, ascii: term.IsTerminal(int(f.Fd())) && !localeHasUTF8()}
}

func (o *output) Write(b []byte) (int, error) {
	text := b
	if o.ascii {
		text = []byte(inASCII(string(b)))
	}
	n, err := o.file.Write(text)
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

// failure returns the first error of a write.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// fileOf returns the file that w is, or nil.
func fileOf(w io.Writer) *os.File {
	if o, ok := w.(*output); ok {
		return o.file
	}
	f, _ := w.(*os.File)
	return f
}

// verbatim returns a writer of the same file that leaves bytes as they are.
func verbatim(w io.Writer) io.Writer {
	if o, ok := w.(*output); ok && o.ascii {
		return o.file
	}
	return w
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f := fileOf(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// jsonHeader begins every object that a command writes with --json: what wrote it, where and when, and the
// devices that it is about, if any.
type jsonHeader struct {
	Version string    `json:"version"` // of this program
	Host    string    `json:"host"`
	Time    time.Time `json:"time"`
	Devices []string  `json:"devices,omitempty"`
}

// encodeJSON returns v, whose JSON is an object, behind a header. A list of devices in v is instead of the
// header's.
func encodeJSON(v any, devices ...string) ([]byte, error) {
	host, _ := os.Hostname() // empty: not known
	head, err := marshal(jsonHeader{softdev.Version(), host, time.Now(), devices})
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

// writeJSON writes v behind a header, indented.
func writeJSON(w io.Writer, v any, devices ...string) error {
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

// writeJSONLine writes v behind a header, in one line.
func writeJSONLine(w io.Writer, v any, devices ...string) error {
	line, err := encodeJSON(v, devices...)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	return err
}

// Colors of words on a terminal.
const (
	colorOff    = "\x1b[0m"
	colorBold   = "\x1b[1m"
	colorRed    = "\x1b[1;31m"
	colorGreen  = "\x1b[32m"
	colorYellow = "\x1b[33m"
)

// tableStyle returns how many columns tables may have, 0: any number, as out is no terminal; and whether colors.
func tableStyle(out io.Writer) (width int, color bool) {
	if !isTerminal(out) {
		return 0, false
	}
	w, _, err := term.GetSize(int(fileOf(out).Fd()))
	if err != nil || w <= 0 {
		w = helpWidth
	}
	return w, os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// terminalStyle returns how many columns prose may have, at most those of help, and whether it may have colors.
func terminalStyle(out io.Writer) (width int, color bool) {
	o, ok := out.(*output)
	if !ok || !isTerminal(out) {
		return helpWidth, false
	}
	w, _, err := term.GetSize(int(o.file.Fd()))
	if err != nil || w <= 0 {
		w = helpWidth
	}
	return min(w, helpWidth), os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
