// SPDX-License-Identifier: Apache-2.0

// Package manual writes manual pages of commands from their own definitions, in the macros of man(7).
package manual

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Name returns the name of a command's page: the words of the command, joined by hyphens.
func Name(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// Commands returns a command and all commands below it that have a page, because help shows them.
func Commands(c *cobra.Command) []*cobra.Command {
	if c.Hidden || c.Name() == "help" {
		return nil
	}
	list := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		list = append(list, Commands(sub)...)
	}
	return list
}

// Write writes the page of a command. version and date, such as 2026-11-25, are the program's. The date may be
// empty.
func Write(w io.Writer, c *cobra.Command, version, date string) error {
	c.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".TH \"%s\" 1 \"%s\" \"%s\" \"Ramjet\"\n", escape(strings.ToUpper(Name(c))), date, escape(version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", line(Name(c)), escape(plain(c.Short)))
	b.WriteString(".SH SYNOPSIS\n")
	for i, use := range strings.Split(c.UseLine(), " | ") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if !strings.HasPrefix(use, c.Root().Name()+" ") && use != c.Root().Name() {
			use = strings.TrimSuffix(c.CommandPath(), c.Name()) + use
		}
		fmt.Fprintf(&b, "%s\n", line(use))
	}
	if text := cmp.Or(c.Long, c.Short); text != "" {
		b.WriteString(".SH DESCRIPTION\n")
		section(&b, text)
	}
	flags(&b, "OPTIONS", c.NonInheritedFlags())
	flags(&b, "OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s.fi\n", block(c.Example))
	}
	var related []string
	if p := c.Parent(); p != nil {
		related = append(related, Name(p))
	}
	for _, sub := range c.Commands() {
		if len(Commands(sub)) > 0 {
			related = append(related, Name(sub))
		}
	}
	if len(related) > 0 {
		b.WriteString(".SH SEE ALSO\n")
		for i, name := range related {
			end := ","
			if i == len(related)-1 {
				end = ""
			}
			fmt.Fprintf(&b, ".BR %s (1)%s\n", escape(name), end)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// section writes text as it is laid out: help has lines that belong together.
func section(b *strings.Builder, text string) {
	for i, part := range strings.Split(plain(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.Contains(part, "  ") || strings.Contains(part, "\t") { // a table or commands
			fmt.Fprintf(b, ".nf\n%s.fi\n", block(part))
		} else {
			b.WriteString(block(part))
		}
	}
}

// flags writes a section of flags, unless there are none.
func flags(b *strings.Builder, title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR", escape(name))
		if kind != "" {
			fmt.Fprintf(b, " \\fI%s\\fR", escape(kind))
		}
		fmt.Fprintf(b, "\n%s", line(plain(usage)))
		if d := f.DefValue; d != "" && d != "false" && d != "0" && d != "[]" && !strings.Contains(usage, "default") {
			fmt.Fprintf(b, " (default %s)", escape(d))
		}
		b.WriteByte('\n')
	})
}

// plain takes the marks of code away.
func plain(text string) string { return strings.ReplaceAll(text, "`", "") }

// block escapes lines, and ends the last of them.
func block(text string) string {
	var b strings.Builder
	for l := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		b.WriteString(line(l) + "\n")
	}
	return b.String()
}

// line escapes a line, which may not look like a request.
func line(text string) string {
	text = escape(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

// escape has text printed as it is, by troffs that read ASCII too.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch r {
		case '\\':
			b.WriteString(`\e`)
		case '-':
			b.WriteString(`\-`)
		case '"':
			b.WriteString(`\(dq`)
		case '~':
			b.WriteString(`\(ti`)
		case '^':
			b.WriteString(`\(ha`)
		default:
			if r > 126 {
				fmt.Fprintf(&b, `\[u%04X]`, r)
			} else {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}
