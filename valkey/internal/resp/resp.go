// SPDX-License-Identifier: Apache-2.0

// Package resp is a small server of strings and of channels in the protocol of Valkey and Redis, RESP
// 2 and 3. It serves any net.Listener: tests and an example serve package valkey's with it. It is no
// database: nothing expires, and nothing is kept on disk.
package resp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Limits of a command, which are Valkey's.
const (
	maxBulk   = 512 << 20
	maxArgs   = 1 << 20
	maxInline = 64 << 10
	maxLine   = 32
)

var errSyntax = errors.New("protocol error")

// reader reads commands.
type reader struct{ *bufio.Reader }

// command reads a command: an array of strings, or words in one line. Memory that a client announces is not allocated
// before the bytes have come.
func (r reader) command() ([][]byte, error) {
	b, err := r.Peek(1)
	if err != nil {
		return nil, err
	}
	if b[0] != '*' {
		line, err := r.line(maxInline)
		return bytes.Fields(line), err
	}
	n, err := r.number('*', maxArgs)
	if err != nil {
		return nil, err
	}
	var args [][]byte
	for total := 0; len(args) < n; {
		arg, err := r.bulk()
		if err != nil {
			return nil, err
		}
		if total += len(arg); total > 2*maxBulk {
			return nil, fmt.Errorf("%w: a command of more than %d bytes", errSyntax, 2*maxBulk)
		}
		args = append(args, arg)
	}
	return args, nil
}

// bulk reads one string with its length.
func (r reader) bulk() ([]byte, error) {
	n, err := r.number('$', maxBulk)
	if err != nil {
		return nil, err
	}
	var b []byte
	if n <= r.Size() {
		b = make([]byte, n)
		_, err = io.ReadFull(r, b)
	} else {
		var all bytes.Buffer
		_, err = io.CopyN(&all, r, int64(n))
		b = all.Bytes()
	}
	if err == nil {
		var end [2]byte
		if _, err = io.ReadFull(r, end[:]); err == nil && string(end[:]) != "\r\n" {
			err = fmt.Errorf("%w: no line end behind a string", errSyntax)
		}
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

// number reads a line of a mark and a number from 0 to limit.
func (r reader) number(mark byte, limit int) (int, error) {
	line, err := r.line(maxLine)
	if err != nil {
		return 0, err
	}
	if len(line) == 0 || line[0] != mark {
		return 0, fmt.Errorf("%w: %q where there should be %q and a number", errSyntax, line, mark)
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil || n < 0 || n > limit {
		return 0, fmt.Errorf("%w: %q is no number from 0 to %d", errSyntax, line[1:], limit)
	}
	return n, nil
}

// line reads a line of at most limit bytes, without its end.
func (r reader) line(limit int) ([]byte, error) {
	var line []byte
	for {
		b, err := r.ReadByte()
		switch {
		case err == io.EOF && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case b == '\n':
			return bytes.TrimSuffix(line, []byte("\r")), nil
		case len(line) == limit:
			return nil, fmt.Errorf("%w: a line of more than %d bytes", errSyntax, limit)
		}
		line = append(line, b)
	}
}

// writer writes replies.
type writer struct {
	*bufio.Writer
	three bool // RESP 3
}

func (w writer) simple(s string)  { w.WriteString("+" + s + "\r\n") }
func (w writer) number(n int)     { w.WriteString(":" + strconv.Itoa(n) + "\r\n") }
func (w writer) array(n int)      { w.WriteString("*" + strconv.Itoa(n) + "\r\n") }
func (w writer) failure(s string) { w.WriteString("-ERR " + s + "\r\n") }

func (w writer) bulk(b []byte) {
	w.WriteString("$" + strconv.Itoa(len(b)) + "\r\n")
	w.Write(b)
	w.WriteString("\r\n")
}

func (w writer) null() {
	if w.three {
		w.WriteString("_\r\n")
		return
	}
	w.WriteString("$-1\r\n")
}

// mapOf begins a map of n pairs, which RESP 2 has as an array.
func (w writer) mapOf(n int) {
	if w.three {
		w.WriteString("%" + strconv.Itoa(n) + "\r\n")
		return
	}
	w.array(2 * n)
}

// push begins a message that comes without having been asked for, which RESP 2 has as an array.
func (w writer) push(n int) {
	if w.three {
		w.WriteString(">" + strconv.Itoa(n) + "\r\n")
		return
	}
	w.array(n)
}
