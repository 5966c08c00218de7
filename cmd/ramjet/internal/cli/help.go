// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// HelpWidth is the width of help in columns.
const HelpWidth = 80

// FoldHelp has help of root and all below it fit HelpWidth: cobra folds nothing.
func FoldHelp(root *cobra.Command) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		fmt.Fprintf(c.OutOrStdout(), "%s%s", foldText(cmp.Or(c.Long, c.Short)), foldUsage(c.UsageString()))
	})
}

// foldText folds paragraphs. One with an indent or columns is a table or has commands: it stays as it is.
func foldText(text string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.Contains(part, "  ") {
			b.WriteString(part + "\n\n")
			continue
		}
		Fold(&b, part, "", "")
		b.WriteByte('\n')
	}
	return b.String()
}

// helpItem is the line of a flag, or of a command in a list, up to where its text begins.
var helpItem = regexp.MustCompile(`^ +(-\w, )?--[\w-]+( \S+)? +|^  [\w-]+ +`)

// foldUsage folds cobra's text about a command's flags and subcommands. Examples are commands, and stay as they are.
func foldUsage(text string) string {
	var b strings.Builder
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasSuffix(line, ":") && !strings.HasPrefix(line, " ") {
			section = line
		}
		if utf8.RuneCountInString(line) <= HelpWidth || section == "Examples:" {
			b.WriteString(line + "\n")
			continue
		}
		head := helpItem.FindString(line)
		indent := utf8.RuneCountInString(head)
		if section == "Usage:" {
			head, indent = "  ", 6
		}
		Fold(&b, strings.TrimPrefix(line, head), head, strings.Repeat(" ", indent))
	}
	return b.String()
}

// Fold writes a text in lines of 80 columns.
func Fold(b *strings.Builder, text, first, indent string) {
	line := first
	for i, word := range strings.Fields(text) {
		if i > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > HelpWidth {
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
