// SPDX-License-Identifier: Apache-2.0

// Package explaincmd is `ramjet explain`: the meanings of errors, and of lines of logs.
package explaincmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/explain"
)

// New returns `ramjet explain`.
func New() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain [ERROR | -]",
		Short: "Explain what an RDMA error means, what usually causes it, and what mends it",
		Long: "Explain an error that a call returned, the status of a completion, an asynchronous event, a NAK, the cause of an\n" +
			"iWARP Terminate, or a connection manager's event or reason for a REJ. Give its name, with or without a prefix such\n" +
			"as IBV_WC_; its text as programs print it; or its number, if need be after errno, wc, vendor_err, event, nak,\n" +
			"terminate, rej or cm_event.\n\n" +
			"Or give lines of a log: as arguments, or, with -, on standard input. Of all lines it explains the one that matters,\n" +
			"with the numbers, calls and events in it. It knows what perftest, rdma-core, NCCL, RCCL, UCX, libfabric, Open MPI,\n" +
			"Ceph and the drivers of NVIDIA, Broadcom and Intel print. It says so when it knows none of the lines.\n\n" +
			"Without an argument, and with a terminal as standard input, all are listed.",
		Example: "  ramjet explain RETRY_EXC_ERR\n  ramjet explain wc 12\n  ramjet explain rej 28\n  ramjet explain 0x1101\n" +
			"  ramjet explain ErrQueueFull\n  ramjet explain 'Failed status 12: wr_id 0 syndrom 0x81'\n" +
			"  ramjet explain 'ibv_create_cq: Cannot allocate memory'\n  ./program 2>&1 | ramjet explain -\n  ramjet explain - <job.log",
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		out := c.OutOrStdout()
		switch {
		case len(args) == 1 && args[0] == "-":
			return explainLog(out, c.InOrStdin(), asJSON)
		case len(args) == 0 && isPiped(c.InOrStdin()):
			return explainLog(out, c.InOrStdin(), asJSON)
		case len(args) == 0 && asJSON:
			return cli.WriteJSON(out, explanation{Entries: explain.All()})
		case len(args) == 0:
			return writeExplainList(out, explain.All())
		}
		text := strings.Join(args, " ")
		if found := explain.Exactly(text); len(found) > 0 {
			if asJSON {
				return cli.WriteJSON(out, explanation{Entries: found})
			}
			return writeExplained(out, found)
		}
		found, err := explain.Log(strings.NewReader(text))
		if err != nil {
			return err
		}
		if found == nil {
			if like := explain.Like(text); len(like) > 0 && len(args) < 4 && !strings.Contains(text, "\n") {
				return cli.Usagef("%q is not known: did you mean %s?", text, strings.Join(like, ", "))
			}
			return cli.Usagef("%q is not known: `ramjet explain` lists what is", text)
		}
		return writeFound(out, found, asJSON)
	})
}

// explanation is the JSON of explain.
type explanation struct {
	Log     *explain.Found  `json:"log,omitempty"`
	Entries []explain.Entry `json:"entries"`
}

// isPiped says whether standard input is a file or another program's output.
func isPiped(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && (info.Mode()&os.ModeNamedPipe != 0 || info.Mode().IsRegular())
}

// explainLog explains the line that matters of a log.
func explainLog(out io.Writer, in io.Reader, asJSON bool) error {
	found, err := explain.Log(in)
	switch {
	case err != nil:
		return err
	case found == nil:
		return errors.New(
			"no line of the log is known: it has no error of RDMA, or one that `ramjet explain` does not list")
	}
	return writeFound(out, found, asJSON)
}

// writeFound writes the facts of a line, and their meanings.
func writeFound(out io.Writer, f *explain.Found, asJSON bool) error {
	if asJSON {
		entries := f.Entries
		f.Entries = nil
		return cli.WriteJSON(out, explanation{f, entries})
	}
	var b strings.Builder
	DescribeFound(&b, f)
	_, err := io.WriteString(out, b.String())
	return err
}

func DescribeFound(b *strings.Builder, f *explain.Found) {
	if f.Lines > 1 {
		fmt.Fprintf(b, "Line %d of %d is the one that matters:\n", f.Number, f.Lines)
		cli.Fold(b, printable(f.Line), "  ", "  ")
		b.WriteByte('\n')
	}
	widest := 0
	for _, fact := range f.Facts {
		widest = max(widest, len(fact.Name))
	}
	for _, fact := range f.Facts {
		first := fmt.Sprintf("  %-*s  ", widest, fact.Name)
		text := printable(fact.Value)
		if fact.Means != "" {
			text += ": " + fact.Means
		}
		cli.Fold(b, text, first, strings.Repeat(" ", len(first)))
	}
	if len(f.Facts) > 0 {
		b.WriteByte('\n')
	}
	explainEntry(b, &f.Entries[0])
	for i := range f.Entries[1:] {
		e := &f.Entries[1+i]
		b.WriteByte('\n')
		cli.Fold(b, fmt.Sprintf("Also %s (%s). %s", e.Title(), e.Kind, e.Means), "  ", "  ")
	}
	if len(f.Others) > 0 {
		b.WriteString("\n  Other lines that are known:\n")
		for _, o := range f.Others {
			cli.Fold(b, fmt.Sprintf("line %d: %s", o.Number, o.Title), "  - ", "    ")
		}
	}
}

// printable returns a text of a log without control characters for terminals.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
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
	calls := 0
	for i := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		explainEntry(&b, &list[i])
		if list[i].Kind == explain.Call {
			calls++
		}
	}
	if calls == len(list) && calls > 1 {
		b.WriteByte('\n')
		cli.Fold(&b, "What an errno means depends on the call: `ramjet explain 'ibv_reg_mr: Cannot allocate memory'`, or give the whole line.", "  ", "  ")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// explainEntry writes an entry: its meaning, and its causes, each with the command that tells it from the others, and
// the remedy.
func explainEntry(b *strings.Builder, e *explain.Entry) {
	fmt.Fprintf(b, "%s\n  %s\n\n", e.Title(), e.Kind)
	cli.Fold(b, e.Means, "  ", "  ")
	if len(e.Causes) > 0 {
		b.WriteString("\n  Usually, the most frequent first:\n")
	}
	for i, c := range e.Causes {
		cli.Fold(b, c.What, fmt.Sprintf("  %d. ", i+1), "     ")
		if c.Check != "" {
			cli.Fold(b, c.Check, "     check: ", "            ")
		}
		if c.Mend != "" {
			cli.Fold(b, c.Mend, "     mend:  ", "            ")
		}
	}
}
