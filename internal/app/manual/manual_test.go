// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestWrite(t *testing.T) {
	root := &cobra.Command{Use: "tool", Short: "A tool"}
	sub := &cobra.Command{Use: "copy FROM TO | copy LIST", Short: "Copy with `care`",
		Run:  func(*cobra.Command, []string) {},
		Long: "First.\n.SH is no request here, nor is\n'this; a \\ stays one…\n\nA table:  two spaces\n\nTry:\n\n\ttool copy", Example: "  tool copy a-b c"}
	sub.Flags().StringP("device", "d", "none", "the `name` of it; `tool list` has them")
	sub.Flags().Bool("secret", false, "")
	sub.Flags().MarkHidden("secret")
	hidden := &cobra.Command{Use: "peer", Hidden: true, Run: func(*cobra.Command, []string) {}}
	root.AddCommand(sub, hidden)
	if list := Commands(root); len(list) != 2 || list[1] != sub {
		t.Fatalf("%d commands have pages", len(list))
	}
	var b strings.Builder
	if err := Write(&b, sub, "v1", "2026-11-25"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".TH \"TOOL\\-COPY\" 1 \"2026-11-25\" \"v1\" \"Ramjet\"\n",
		"tool\\-copy \\- Copy with care\n", ".SH SYNOPSIS\ntool copy FROM TO\n.PP\ntool copy LIST",
		"First.\n\\&.SH is no request", "\n\\&'this; a \\e stays one\\[u2026]\n", ".nf\nA table:  two spaces\n.fi\n",
		".nf\n\ttool copy\n.fi\n", "\\fB\\-d, \\-\\-device\\fR \\fIname\\fR\nthe name of it; tool list has them (default none)\n", ".SH EXAMPLES\n.nf\n  tool copy a\\-b c\n.fi\n", ".BR tool (1)\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "secret") {
		t.Errorf("a hidden flag in\n%s", b.String())
	}
}
