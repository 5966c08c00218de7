// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// medians says what figures of so many runs are.
func medians(runs int) string {
	if runs == 1 {
		return "Figures of one run"
	}
	return fmt.Sprintf("Medians of %d runs", runs)
}

// decimal writes a number with so many decimals, or with fewer where it would have more columns than that.
func decimal(v float64, decimals, columns int) string {
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	for ; len(s) > columns && decimals > 0; s = strconv.FormatFloat(v, 'f', decimals, 64) {
		decimals--
	}
	return s
}

// gidText formats a GID as an IP address, an IPv4 address in its mapped form.
func gidText(g verbs.GID) string { return netip.AddrFrom16(g).String() }

func guidText(g uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
}

// peerOf returns the address of a queue pair's peer.
func peerOf(q *verbs.QPStats) string {
	if q.DestGID == (verbs.GID{}) {
		return fmt.Sprintf("LID %d", q.DestLID)
	}
	return q.DestGID.Addr().String()
}

// folded writes a paragraph in width columns, all lines but the first indented by two blanks more than that.
func folded(s, indent string, width int) string {
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

// trimLines takes away blanks at the ends of lines, which tables leave.
func trimLines(text string) string { return trailing.ReplaceAllString(text, "") }
