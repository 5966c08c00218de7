// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// row is the table's row of a rule.
type row struct {
	programs, found, missed, false int
	notes                          []string
}

func (r *row) add(v *verdict) (good bool) {
	good = true
	r.programs++
	why, known := knownMisses[v.name()]
	switch found := v.found(); {
	case found && known && meet[v.rule]: // by chance
		r.found++
	case found && known:
		r.found++
		r.notes = append(r.notes, "no more a known miss: "+v.name())
		good = false
	case found:
		r.found++
	case known:
		r.missed++
		r.notes = append(r.notes, "known miss: "+v.name()+" ("+why+")")
	default:
		r.missed++
		r.notes = append(r.notes, "missed: "+v.name())
		good = false
	}
	if len(v.right.findings) > 0 {
		r.false++
		r.notes = append(r.notes, "false: "+v.name())
		good = false
	}
	if v.right.err != nil {
		r.notes = append(r.notes, "the right program failed: "+v.name())
		good = false
	}
	return good
}

// printTable prints the number of mistakes found and missed, and of false reports, by rule. It reports whether the
// missed mistakes and false reports are the known ones.
func printTable(w io.Writer, verdicts []verdict, markdown bool) bool {
	good := true
	byRule := make(map[string]*row)
	var total row
	for i := range verdicts {
		v := &verdicts[i]
		r := byRule[v.rule]
		if r == nil {
			r = new(row)
			byRule[v.rule] = r
		}
		good = r.add(v) && good
		total.add(v)
	}
	total.notes = nil
	line := plainLine
	if markdown {
		line = markdownLine
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	line(t, "rule", "programs", "found", "missed", "false", "notes")
	if markdown {
		line(t, "---", "---", "---", "---", "---", "---")
	}
	for _, name := range rules {
		if r := byRule[name]; r != nil {
			r.print(t, name, line)
		}
	}
	total.print(t, "all", line)
	t.Flush()
	return good
}

func (r *row) print(w io.Writer, name string, line func(w io.Writer, cells ...string)) {
	n := func(i int) string { return fmt.Sprint(i) }
	line(w, name, n(r.programs), n(r.found), n(r.missed), n(r.false), strings.Join(r.notes, "; "))
}

func plainLine(w io.Writer, cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")) }

// markdownLine has no tabs: its columns are not padded.
func markdownLine(w io.Writer, cells ...string) {
	fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
}

// printPlain says how many programs ran to their end without the checker, and whether all did.
func printPlain(w io.Writer, verdicts []verdict) bool {
	broken := 0
	for i := range verdicts {
		if verdicts[i].broken() {
			broken++
		}
	}
	fmt.Fprintf(w, "%d programs, wrong and right, without the checker: %d did not run to their end\n",
		len(verdicts), broken)
	return broken == 0
}
