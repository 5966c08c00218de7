// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"
	"time"
)

// Finding is a mistake that was found.
type Finding struct {
	Rule   Rule
	Detail string // what exactly, with the objects by name
	Places []Place
}

// Place is where the program was when it did something that matters for a finding.
type Place struct {
	What  string // such as "it was posted"
	When  time.Time
	Stack Stack
}

// at returns the place where the program is now.
func at(what string) Place { return Place{what, time.Now(), here()} }

const bar = "==================\n"

// String returns the report.
func (f *Finding) String() string { return f.text("") }

// text returns the report, with a ladder of packets.
func (f *Finding) text(ladder string) string {
	r := find(f.Rule)
	var b strings.Builder
	fmt.Fprintf(&b, "%sramjet check: %s: %s\n", bar, f.Rule, r.what)
	if f.Detail != "" {
		fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(f.Detail, "\n", "\n  "))
	}
	for i := range f.Places {
		p := &f.Places[i]
		fmt.Fprintf(&b, "  %s, %s:\n%s", p.What, p.When.Format("15:04:05.000000"), p.Stack.String())
	}
	b.WriteString(ladder)
	fmt.Fprintf(&b, "  What to do: %s. See docs/check.md#%s\n%s", r.advice, f.Rule, bar)
	return b.String()
}

// key tells findings apart that are worth a report each: by the rule, and where the program was.
func (f *Finding) key() string {
	var b strings.Builder
	b.WriteString(string(f.Rule))
	for i := range f.Places {
		fmt.Fprint(&b, " ", f.Places[i].Stack.addresses())
	}
	if len(f.Places) == 0 {
		b.WriteString(f.Detail)
	}
	return b.String()
}
