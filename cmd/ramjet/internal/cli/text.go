// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Medians describes the figures of a number of runs.
func Medians(runs int) string {
	if runs == 1 {
		return "Figures of one run"
	}
	return fmt.Sprintf("Medians of %d runs", runs)
}

// Decimal writes a number with so many decimals, or with fewer where it would have more columns than that.
func Decimal(v float64, decimals, columns int) string {
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	for ; len(s) > columns && decimals > 0; s = strconv.FormatFloat(v, 'f', decimals, 64) {
		decimals--
	}
	return s
}

// GIDText formats a GID as an IP address, an IPv4 address in its mapped form.
func GIDText(g verbs.GID) string { return netip.AddrFrom16(g).String() }

func GUIDText(g uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
}

// PeerOf returns the address of a queue pair's peer.
func PeerOf(q *verbs.QPStats) string {
	if q.DestGID == (verbs.GID{}) {
		return fmt.Sprintf("LID %d", q.DestLID)
	}
	return q.DestGID.Addr().String()
}

// Folded writes a paragraph in width columns, all lines but the first indented by two blanks more than that.
func Folded(s, indent string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(s) {
		switch n := utf8.RuneCountInString(word); {
		case column == 0:
			b.WriteString(indent + word)
			column = len(indent) + n
		case column+1+n > width:
			b.WriteString("\n" + indent + "  " + word)
			column = len(indent) + 2 + n
		default:
			b.WriteString(" " + word)
			column += 1 + n
		}
	}
	return b.String() + "\n"
}

var trailing = regexp.MustCompile(`(?m) +$`)

// TrimLines takes away blanks at the ends of lines, which tables leave.
func TrimLines(text string) string { return trailing.ReplaceAllString(text, "") }
