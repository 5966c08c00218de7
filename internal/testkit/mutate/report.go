// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// result is the fate of a mutant; a line of the file that a run goes on from.
type result struct {
	ID      string `json:"id"`
	Verdict string `json:"verdict"`
	By      string `json:"by,omitempty"` // the stage that failed
	Output  string `json:"output,omitempty"`
}

// load reads the results of earlier runs; the last one of a mutant holds.
func load(name string) (map[string]result, error) {
	known := make(map[string]result)
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	for line := range strings.Lines(string(b)) {
		var r result
		if json.Unmarshal([]byte(line), &r) == nil { // the last line of a run that was killed may be cut short
			known[r.ID] = r
		}
	}
	return known, err
}

// save adds a result to the file.
func save(name string, r result) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(r), f.Close())
}

// equivalentsText has the mutants that behave as the original: an id, and below it, indented, why.
//
//go:embed equivalents.txt
var equivalentsText string

// parseEquivalents returns why mutants are equivalent, by id.
func parseEquivalents(text string) (map[string]string, error) {
	why := make(map[string]string)
	id := ""
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, "\t"):
			id = line
			if _, twice := why[id]; twice {
				return nil, fmt.Errorf("equivalents.txt:%d: this mutant is there already", n)
			}
			why[id] = ""
		case id == "":
			return nil, fmt.Errorf("equivalents.txt:%d: a reason without a mutant above it", n)
		default:
			why[id] = strings.TrimSpace(why[id] + " " + strings.TrimSpace(line))
		}
	}
	for id, reason := range why {
		if reason == "" {
			return nil, fmt.Errorf("equivalents.txt: no reason below %q", id)
		}
	}
	return why, lines.Err()
}

// tally counts the mutants of a package.
type tally struct {
	mutants, equivalent, late, survived int
	by                                  map[string]int
}

// score is the part of the mutants, equivalent ones left out, that tests have found. A mutant that never
// ends is found, too.
func (t tally) score() float64 {
	n := t.mutants - t.equivalent
	return float64(n-t.survived) / float64(max(n, 1))
}

// report writes the score by package, as a table of Markdown, and the survivors.
func report(w io.Writer, sample []*mutant, known map[string]result, equivalent map[string]string) tally {
	packages := make(map[string]*tally)
	total := tally{by: make(map[string]int)}
	var alive []*mutant
	for _, m := range sample {
		r, ok := known[m.id()]
		if !ok || r.Verdict == notCompiled {
			continue
		}
		t := packages[m.pkg()]
		if t == nil {
			t = &tally{by: make(map[string]int)}
			packages[m.pkg()] = t
		}
		for _, t := range []*tally{t, &total} {
			t.mutants++
			switch {
			case r.Verdict == killed:
				t.by[r.By]++
			case r.Verdict == timedOut:
				t.late++
			case equivalent[m.id()] != "":
				t.equivalent++
			default:
				t.survived++
			}
		}
		if r.Verdict == survived && equivalent[m.id()] == "" {
			alive = append(alive, m)
		}
	}
	fmt.Fprintln(w,
		"| package | mutants | scripts | simulation | conformance | never ended | equivalent | survived | score |")
	fmt.Fprintln(w, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	row := func(name string, t *tally) {
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d | %d | %d | %d | %.0f %% |\n", name, t.mutants, t.by[scripts],
			t.by[simulation], t.by[conformance], t.late, t.equivalent, t.survived, 100*t.score())
	}
	var names []string
	for name := range packages {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		row("`"+strings.TrimPrefix(name, "internal/")+"`", packages[name])
	}
	row("all", &total)
	slices.SortFunc(alive, func(a, b *mutant) int { return strings.Compare(a.id(), b.id()) })
	for _, m := range alive {
		fmt.Fprintf(w, "\n%s:%d: %s in %s survived\n\t- %s\n\t+ %s\n", m.file, m.line, m.operator, m.function, m.before,
			m.after)
		if m.number > 1 {
			fmt.Fprintf(w, "\tnumber %d of those that read so\n", m.number)
		}
	}
	return total
}
