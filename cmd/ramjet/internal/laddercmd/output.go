// SPDX-License-Identifier: Apache-2.0

package laddercmd

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/ladder"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
)

// ladderColumns is the width of a ladder that does not go to a terminal, and the widest on one.
const (
	ladderColumns    = 80
	ladderMaxColumns = 120
)

// listedConversations is how many conversations are listed above a ladder; --list lists all.
const listedConversations = 12

const (
	// ladderMany is how many rows a picture has before its size is looked at, and ladderLarge a size to warn of.
	ladderMany  = 10_000
	ladderLarge = 20_000_000
)

// countingWriter counts bytes.
type countingWriter int64

func (n *countingWriter) Write(b []byte) (int, error) {
	*n += countingWriter(len(b))
	return len(b), nil
}

// ladderWidth returns how wide a ladder may be.
func ladderWidth(out io.Writer) int {
	o, ok := out.(*cli.Output)
	if !ok || !cli.IsTerminal(out) {
		return ladderColumns
	}
	w, _, err := term.GetSize(int(o.File.Fd()))
	if err != nil {
		return ladderColumns
	}
	return min(max(w, ladder.MinWidth), ladderMaxColumns)
}

// write writes a ladder as the flags say.
func (f *ladderFlags) write(out, log io.Writer, name string, s *ladder.Survey, list []*ladder.Conversation,
	l *ladder.Ladder, why string) error {
	switch {
	case f.asJSON:
		return cli.WriteJSON(out, s.Report(list, l))
	case f.out != "":
		if err := f.writeFile(log, name, s, l); err != nil {
			return err
		}
		if len(list) > 1 && f.conversation == "" {
			if err := writeConversations(out, s, list, l); err != nil {
				return err
			}
		}
		title := slices.Concat(ladderTitle(s, l), ladderCalls(l), reason(why))
		_, err := fmt.Fprintf(out, "%s: %s\n", f.out, strings.Join(title, "; "))
		return err
	case len(l.Columns) > ladder.MaxTextColumns:
		return cli.Usagef("%d hosts do not fit a terminal: give -o ladder.html, or choose with --host or --conversation", len(l.Columns))
	}
	width := ladderWidth(out)
	if len(list) > 1 && f.conversation == "" {
		if err := writeConversations(out, s, list, l); err != nil {
			return err
		}
	}
	for _, t := range slices.Concat(ladderTitle(s, l), ladderCalls(l), reason(why), ladderKey(l.Conversations)) {
		fmt.Fprintln(out, t)
	}
	fmt.Fprintln(out)
	color := cli.IsTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if err := l.WriteText(out, ladder.Text{Width: width, Color: color}); err != nil {
		return err
	}
	if more := leftOut(l); more != "" {
		next := ""
		if l.Next() > 0 { // else they are calls before the first packet
			next = fmt.Sprintf("--from %.6f goes on there, ", l.Next().Seconds())
		}
		fmt.Fprintf(out, "\n%s: %s--limit 0 draws all\n", more, next)
	}
	return nil
}

// leftOut says how much the limit has left out, or nothing.
func leftOut(l *ladder.Ladder) string {
	var more []string
	if l.LeftOut > 0 {
		more = append(more, units.Count(l.LeftOut)+" more packets")
	}
	if l.CallsLeftOut > 0 {
		more = append(more, units.Count(l.CallsLeftOut)+" more calls and completions")
	}
	return strings.Join(more, ", ")
}

// ladderCalls says whose calls are drawn.
func ladderCalls(l *ladder.Ladder) []string {
	if l.Options.Calls == nil {
		return nil
	}
	all := l.Options.Calls.Sources
	if n := len(all) - listedConversations; n > 0 {
		all = append(slices.Clone(all[:listedConversations]),
			fmt.Sprintf("and calls of %s more", units.Plural(n, "queue pair")))
	}
	return all
}

// reason says why a conversation is drawn, if nobody chose it.
func reason(why string) []string {
	if why == "" {
		return nil
	}
	return []string{"It is " + why + ": --conversation chooses another, or all."}
}

// writeFile writes a picture or a page.
func (f *ladderFlags) writeFile(log io.Writer, name string, s *ladder.Survey, l *ladder.Ladder) error {
	title := append(slices.Concat(ladderTitle(s, l), ladderCalls(l), ladderKey(l.Conversations)),
		fmt.Sprintf("%s, from %s UTC", filepath.Base(name), s.Start.Format("2006-01-02 15:04:05.000000")))
	if more := leftOut(l); more != "" {
		title = append(title, more+" after the last row, which are not drawn")
	}
	write := func(w io.Writer) error { return l.WriteHTML(w, title) }
	if strings.EqualFold(filepath.Ext(f.out), ".svg") {
		write = func(w io.Writer) error { return l.WriteSVG(w, title, f.width) }
	}
	if len(l.Rows) > ladderMany {
		var n countingWriter
		if err := write(&n); err != nil {
			return err
		}
		if n > ladderLarge {
			fmt.Fprintf(log, "%s: will have %s, which browsers open slowly or not at all: --limit, --from and --to draw less\n", f.out, units.Bytes(n))
		}
	}
	file, err := os.Create(f.out)
	if err != nil {
		return usage.Of(err)
	}
	err = write(file)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	return err
}

// ladderTitle names the conversation that is drawn, and its faults.
func ladderTitle(s *ladder.Survey, l *ladder.Ladder) []string {
	if len(l.Conversations) > 1 {
		var packets int
		var bytes int64
		var tally ladder.Tally
		for _, c := range l.Conversations {
			packets, bytes = packets+c.Packets, bytes+c.Bytes
			for i, n := range c.Tally {
				tally[i] += n
			}
		}
		return ladderNoticed(fmt.Sprintf("%d conversations: %s packets, %s", len(l.Conversations), units.Count(packets),
			units.Bytes(bytes)), &tally, "")
	}
	c := l.Conversations[0]
	first := ""
	if !c.Trouble.IsZero() {
		first = fmt.Sprintf(", the first fault at %.6f", c.Trouble.Sub(s.Start).Seconds())
	}
	what := c.Service + " over " + c.Fabric.String()
	if c.Service == c.Fabric.String() {
		what = c.Service
	}
	title := ladderNoticed(fmt.Sprintf("conversation %d: %s, %s packets, %s in %s", c.Number, what,
		units.Count(c.Packets), units.Bytes(c.Bytes),
		units.Duration(c.Last.Sub(c.First))), &c.Tally, first)
	if end := c.Ending(); end != "" {
		title = append(title, "end: "+end)
	}
	return title
}

// ladderKey says which conversations the numbers behind packets are, if there are several.
func ladderKey(list []*ladder.Conversation) (key []string) {
	if len(list) < 2 {
		return nil
	}
	key = append(key, "behind a packet is the number of its conversation:")
	for i, c := range list {
		if i == listedConversations {
			return append(key, fmt.Sprintf("and %d more: --list lists them", len(list)-i))
		}
		key = append(key, fmt.Sprintf("#%d  %v – %v  %s", c.Number, c.A, c.B, c.Service))
		if c.Ended {
			key = append(key, "    end: "+c.Ending())
		}
	}
	return key
}

func ladderNoticed(title string, tally *ladder.Tally, first string) []string {
	if tally.Total() == 0 {
		return []string{title}
	}
	return []string{title, tally.String() + first}
}

// writeConversations lists conversations, and marks the ones that l draws.
func writeConversations(out io.Writer, s *ladder.Survey, list []*ladder.Conversation, l *ladder.Ladder) error {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Box.PaddingLeft, t.Style().Box.PaddingRight = "", "  "
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"", "between", "and", "service", "packets", "bytes", "at"})
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 1, Align: text.AlignRight}, {Number: 5, Align: text.AlignRight},
		{Number: 6, Align: text.AlignRight},
		{Number: 7, Align: text.AlignRight}})
	shown := list
	if l != nil && len(list) > listedConversations {
		shown = list[:listedConversations]
	}
	for _, c := range shown {
		t.AppendRow(table.Row{c.Number, c.A, c.B, c.Service, units.Count(c.Packets), units.Bytes(c.Bytes),
			fmt.Sprintf("%.3f", c.First.Sub(s.Start).Seconds())})
	}
	for i, line := range strings.Split(t.Render(), "\n") {
		fmt.Fprintln(out, strings.TrimRight(line, " "))
		if i == 0 {
			continue
		}
		c := shown[i-1]
		if c.Tally.Total() > 0 {
			fmt.Fprintf(out, "    %s\n", c.Tally.String())
		}
		if end := c.Ending(); end != "" && (c.Ended || l == nil) {
			fmt.Fprintf(out, "    end: %s\n", end)
		}
	}
	if n := len(list) - len(shown); n > 0 {
		fmt.Fprintf(out, "and %d more: --list lists them\n", n)
	}
	_, err := fmt.Fprintln(out)
	return err
}
