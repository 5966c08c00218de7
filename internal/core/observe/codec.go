// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// maxText is how many bytes of a text are written and taken.
const maxText = 1024

var errField = errors.New("a field of a record is malformed")

// codec writes the fields of a record, or reads them: so that each list of fields is there once.
type codec struct {
	reading bool
	buf     []byte // written bytes, or the bytes left to read
	err     error
}

type number interface {
	~int | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// num is a number that is not negative.
func num[T number](c *codec, v *T) {
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, uint64(max(*v, 0)))
		return
	}
	n := c.uvarint()
	if *v = T(n); *v < 0 || uint64(*v) != n {
		*v, c.err = 0, errField
	}
}

// uvarint reads a number; 0 behind the end of the record.
func (c *codec) uvarint() uint64 {
	if len(c.buf) == 0 {
		return 0
	}
	n, size := binary.Uvarint(c.buf)
	if size <= 0 {
		c.buf, c.err = nil, errField
		return 0
	}
	c.buf = c.buf[size:]
	return n
}

func (c *codec) flag(v *bool) {
	n := uint8(0)
	if *v {
		n = 1
	}
	num(c, &n)
	*v = n != 0
}

// text is a text of at most maxText bytes. A text that is read has no control characters, which could
// do something to a terminal.
func (c *codec) text(v *string) {
	if !c.reading {
		s := *v
		if len(s) > maxText {
			s = s[:maxText]
		}
		c.buf = append(binary.AppendUvarint(c.buf, uint64(len(s))), s...)
		return
	}
	*v = Printable(string(c.bytes(maxText)))
}

// Printable returns a text that does nothing to a terminal.
func Printable(s string) string { return strings.Map(printable, s) }

// printable returns a character that stands for r in a terminal.
func printable(r rune) rune {
	if r == utf8.RuneError || !unicode.IsPrint(r) {
		return '?'
	}
	return r
}

// bytes reads bytes behind their number.
func (c *codec) bytes(most int) []byte {
	n := c.uvarint()
	if n > uint64(min(most, len(c.buf))) {
		c.buf, c.err = nil, errField
		return nil
	}
	b := c.buf[:n]
	c.buf = c.buf[n:]
	return b
}

// gid is a GID; zero is written as nothing.
func (c *codec) gid(g *verbs.GID) {
	if c.reading {
		b := c.bytes(len(g))
		if len(b) != 0 && len(b) != len(g) {
			c.err = errField
			return
		}
		copy(g[:], b)
		return
	}
	b := g[:]
	if *g == (verbs.GID{}) {
		b = nil
	}
	c.buf = append(append(c.buf, byte(len(b))), b...)
}

// addr is an address and a port, without a zone; an invalid one is written as nothing.
func (c *codec) addr(a *netip.AddrPort) {
	if !c.reading {
		b := a.Addr().AsSlice() // none of one that is not valid
		c.buf = append(append(c.buf, byte(len(b))), b...)
		c.buf = binary.AppendUvarint(c.buf, uint64(a.Port()))
		return
	}
	b := c.bytes(16)
	var port uint16
	num(c, &port)
	ip, ok := netip.AddrFromSlice(b)
	if !ok && len(b) != 0 {
		c.err = errField
		return
	}
	if ok {
		*a = netip.AddrPortFrom(ip, port)
	}
}
