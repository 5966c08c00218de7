// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// checkName refuses names that a quoted name cannot hold.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf(`the name is empty: write it between quotes, such as "host-1"`)
	case len(name) > MaxName:
		return fmt.Errorf("the name %q has %d bytes: shorten it to %d", name, len(name), MaxName)
	case strings.ContainsAny(name, `"@`):
		return fmt.Errorf("the name %q has a quote or an @: the one ends names, the other marks aliases", name)
	case strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name):
		return fmt.Errorf("the name %q has control characters or is no UTF-8: use letters, digits, - and _", name)
	}
	return nil
}

// cleanDescription returns the part of a text that a NodeDescription can hold.
func cleanDescription(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	for len(s) > MaxName {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}

// number reads a number as C writes them: decimal, 0x or, with a 0 in front, octal.
func number(s string, limit uint64) (uint64, error) {
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number: write it as 12 or 0xc", s)
	}
	if v > limit {
		return 0, fmt.Errorf("%s is too large: at most %#x fits", s, limit)
	}
	return v, nil
}

// hexGUID reads a GUID as it stands between parentheses; 0x may be in front.
func hexGUID(s string) (uint64, error) {
	v, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
	if err != nil || v == 0 {
		return 0, fmt.Errorf("(%s) is no GUID: up to 16 hexadecimal digits, not all 0", s)
	}
	return v, nil
}

// bracketed takes the text between two characters at the start of s.
func bracketed(s string, from, to byte) (in, rest string, ok bool) {
	if s == "" || s[0] != from {
		return "", s, false
	}
	in, rest, ok = strings.Cut(s[1:], string(to))
	return in, rest, ok
}

// trimmed cuts white space from the start.
func trimmed(s string) string { return strings.TrimLeft(s, " \t") }

// rates are the words of ibnetdiscover for lane speeds.
var rates = map[string]node.Speed{
	"SDR": node.SDR, "DDR": node.DDR, "QDR": node.QDR, "FDR10": node.QDR, "FDR": node.FDR, "EDR": node.EDR,
	"HDR": node.HDR, "NDR": node.NDR, "XDR": node.NDR,
}

// rate reads the width and speed of a link, such as 4xEDR. The speed may be ???, if
// ibnetdiscover does not know it: 0 here.
func rate(s string) (w node.Width, sp node.Speed, ok bool) {
	lanes, speed, found := strings.Cut(s, "x")
	if !found {
		return 0, 0, false
	}
	for _, c := range []node.Width{node.Width1x, node.Width2x, node.Width4x, node.Width8x, node.Width12x} {
		if strconv.Itoa(c.Lanes()) == lanes {
			w = c
		}
	}
	sp = rates[speed]
	if w == 0 || sp == 0 && speed != "???" {
		return 0, 0, false
	}
	return w, sp, true
}

// upTo returns all widths that are not above one; 0 gives 0.
func upToWidth(w node.Width) (all node.Width) {
	for _, c := range []node.Width{node.Width1x, node.Width2x, node.Width4x, node.Width8x, node.Width12x} {
		if c.Lanes() <= w.Lanes() {
			all |= c
		}
	}
	return all
}

// upToSpeed returns all speeds that are not above one; 0 gives 0.
func upToSpeed(s node.Speed) (all node.Speed) {
	for _, c := range []node.Speed{node.SDR, node.DDR, node.QDR, node.FDR, node.EDR, node.HDR, node.NDR} {
		if c.Mbps() <= s.Mbps() {
			all |= c
		}
	}
	return all
}
