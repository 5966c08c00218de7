// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var write = flag.Bool("write", false, "write the tables of docs/kinds.md")

const (
	page  = "../../../docs/kinds.md"
	begin = "<!-- by go test ./internal/testkit/conformance -write -->\n"
)

// TestKindsPage holds that docs/kinds.md shows the facts and the differences that the suite tests.
func TestKindsPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	prose, have, ok := strings.Cut(string(text), begin)
	if !ok {
		t.Fatalf("%s has no line %q", page, begin)
	}
	want := tables()
	if *write {
		if err := os.WriteFile(page, []byte(prose+begin+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != want {
		t.Errorf("%s is not what the suite tests: go test ./internal/testkit/conformance -write", page)
	}
}

// TestDifferences holds that each row is of a fact or a test, differs from it, and has a reason.
func TestDifferences(t *testing.T) {
	wants := map[string]string{}
	for _, f := range allFacts() {
		wants[f.name] = f.want
	}
	for _, d := range Differences {
		want, isFact := wants[d.Fact]
		if !isFact && d.Instead != "" {
			t.Errorf("%q is no fact", d.Fact)
		}
		if isFact && (d.Instead == "" || d.Instead == want) {
			t.Errorf("%q: the answer is %q, as that of the others", d.Fact, d.Instead)
		}
		// which no specification is of
		if d.Why == "" || !strings.Contains(d.Why, "(") && !slices.Equal(d.Kinds, []string{"shm"}) {
			t.Errorf("%q: no reason with a section", d.Fact)
		}
	}
}

func tables() string {
	var b strings.Builder
	b.WriteString("\n## What all answer alike\n\n| what is wrong, or asked | answer |\n| --- | --- |\n")
	for _, f := range allFacts() {
		fmt.Fprintf(&b, "| %s | %s |\n", f.name, f.want)
	}
	b.WriteString("\n## What differs\n\n| kinds | what | answer |\n| --- | --- | --- |\n")
	reasons := map[string]int{}
	for _, d := range Differences {
		if reasons[d.Why] == 0 {
			reasons[d.Why] = len(reasons) + 1
		}
		answer := d.Instead
		if answer != "" {
			answer += " "
		} else {
			answer = "see the test "
		}
		fmt.Fprintf(&b, "| %s | %s | %s[%d] |\n", strings.Join(d.Kinds, ", "), d.Fact, answer, reasons[d.Why])
	}
	b.WriteString("\n")
	for _, why := range slices.SortedFunc(maps.Keys(reasons),
		func(a, b string) int { return reasons[a] - reasons[b] }) {
		fmt.Fprintf(&b, "%d. %s.\n", reasons[why], wrapped(why))
	}
	return b.String()
}

// wrapped breaks an item of a list into lines.
func wrapped(text string) string {
	const width = 96
	var b strings.Builder
	n := 0
	for _, word := range strings.Fields(text) {
		if n > 0 && n+1+len(word) > width {
			b.WriteString("\n  ")
			n = 2
		}
		if n > 0 {
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += len(word)
	}
	return b.String()
}
