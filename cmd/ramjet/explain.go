// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/internal/app/explain"
)

func newExplainCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain [ERROR]",
		Short: "Explain what an RDMA error means and what usually causes it",
		Long: "Explain an error that a call returned, the status of a completion, an asynchronous event, a NAK, the cause of an\n" +
			"iWARP Terminate, or a connection manager's event or reason for a REJ. Give its name, with or without a prefix such\n" +
			"as IBV_WC_; its text as programs print it, or the whole line; or its number, if need be after errno, wc, vendor_err,\n" +
			"event, nak, terminate, rej or cm_event. Without an argument, all are listed.",
		Example: "  ramjet explain RETRY_EXC_ERR\n  ramjet explain wc 12\n  ramjet explain rej 28\n  ramjet explain 0x1101\n" +
			"  ramjet explain transport retry counter exceeded\n  ramjet explain ErrQueueFull\n  ramjet explain 'Failed status 12: wr_id 0 syndrom 0x81'",
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return leaf(c, func(c *cobra.Command, args []string) error {
		found := explain.All()
		if len(args) > 0 {
			text := strings.Join(args, " ")
			if found = explain.Find(text); len(found) == 0 {
				if like := explain.Like(text); len(like) > 0 {
					return usagef("%q is not known: did you mean %s?", text, strings.Join(like, ", "))
				}
				return usagef("%q is not known: `ramjet explain` lists what is", text)
			}
		}
		out := c.OutOrStdout()
		switch {
		case asJSON:
			return writeJSON(out, struct {
				Entries []explain.Entry `json:"entries"`
			}{found})
		case len(args) == 0:
			return writeExplainList(out, found)
		}
		return writeExplained(out, found)
	})
}

// writeExplainList writes names and texts.
func writeExplainList(out io.Writer, list []explain.Entry) error {
	var b strings.Builder
	kind := explain.Kind("")
	for i := range list {
		e := &list[i]
		if e.Kind != kind {
			if kind = e.Kind; i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%s:\n", kind)
		}
		fmt.Fprintf(&b, "  %s\n", e.Title())
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeExplained writes entries in full.
func writeExplained(out io.Writer, list []explain.Entry) error {
	var b strings.Builder
	for i := range list {
		e := &list[i]
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\n  %s\n\n", e.Title(), e.Kind)
		fold(&b, e.Means, "  ", "  ")
		if len(e.Causes) > 0 {
			b.WriteString("\n  Usually:\n")
		}
		for _, c := range e.Causes {
			fold(&b, c, "  - ", "    ")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// fold writes a text in lines of 80 columns.
func fold(b *strings.Builder, text, first, indent string) {
	line := first
	for i, word := range strings.Fields(text) {
		if i > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > helpWidth {
			fmt.Fprintln(b, line)
			line = indent + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	fmt.Fprintln(b, line)
}
