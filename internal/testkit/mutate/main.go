// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// engines are the packages whose mutants are drawn.
const engines = "internal/engine/ibta,internal/engine/rdmap,internal/engine/local,internal/engine/ibcm,internal/engine/link,internal/engine/rsocket"

// options of a run.
type options struct {
	n        int
	seed     uint64
	packages []string
	state    string
	factor   float64
	again    bool
	only     string
	verbose  bool
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 200, "how many mutants, not counting those that do not compile")
	flag.Uint64Var(&o.seed, "seed", 1, "which ones are drawn")
	packages := flag.String("packages", engines, "of which packages, with commas in between")
	flag.StringVar(&o.state, "state", filepath.Join(os.TempDir(), "ramjet-mutants.jsonl"),
		"the file of results, which a later run goes on from")
	flag.Float64Var(&o.factor, "factor", 4, "how many times as long as the original a mutant may take")
	flag.BoolVar(&o.again, "again", false, "test those that survived once more")
	flag.StringVar(&o.only, "only", "", "draw only mutants whose names contain this")
	flag.BoolVar(&o.verbose, "v", false, "print what the tests print that kill a mutant")
	seeds := flag.Int("seeds", 100, "how many seeds the simulation plays for each mutant")
	known := flag.Bool("report", false, "test nothing, print what is known")
	flag.Parse()
	o.packages = strings.Split(*packages, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, o, *known, func(pkg string) []stage { return stagesOf(pkg, *seeds) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, known bool, stages func(string) []stage) error {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("run it within the module: %w", err)
	}
	root := strings.TrimSpace(string(out))
	equivalent, err := parseEquivalents(equivalentsText)
	if err != nil {
		return err
	}
	all, err := mutantsOf(root, o.packages, o.seed)
	if err != nil {
		return err
	}
	results, err := load(o.state)
	if err != nil {
		return err
	}
	if !known {
		tmp, err := os.MkdirTemp("", "ramjet-mutate-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		l := &lab{root: root, tmp: tmp, factor: o.factor, stages: stages, bounds: make(map[string]bound)}
		if err := test(ctx, os.Stdout, l, all, o, results, equivalent); err != nil {
			return err
		}
	}
	report(os.Stdout, sampleOf(all, o, results), results, equivalent)
	outdated(os.Stdout, all, equivalent)
	return nil
}

// outdated names the entries of equivalents.txt whose source has changed: they have to be looked at
// again.
func outdated(w io.Writer, all []*mutant, equivalent map[string]string) {
	there := make(map[string]bool)
	for _, m := range all {
		there[m.id()] = true
	}
	for id := range equivalent {
		if !there[id] {
			fmt.Fprintf(w,
				"\nequivalents.txt has a mutant whose source is no longer there, or of another package:\n\t%s\n", id)
		}
	}
}

// sampleOf returns the first mutants that compile, as far as is known, and have the name that is asked for.
func sampleOf(all []*mutant, o options, results map[string]result) []*mutant {
	var sample []*mutant
	for _, m := range all {
		if len(sample) == o.n {
			break
		}
		if results[m.id()].Verdict != notCompiled && strings.Contains(m.id(), o.only) {
			sample = append(sample, m)
		}
	}
	return sample
}

// test tests the mutants of the sample that are not known yet.
func test(ctx context.Context, w io.Writer, l *lab, all []*mutant, o options, results map[string]result,
	equivalent map[string]string) error {
	note := func(m *mutant, r result) error {
		results[m.id()] = r
		return save(o.state, r)
	}
	var sample []*mutant
	for sample == nil {
		sample = sampleOf(all, o, results)
		bad, err := l.prepare(ctx, sample)
		if err != nil {
			return err
		}
		for _, m := range sample {
			if why, is := bad[m.id()]; is {
				if err := note(m, result{ID: m.id(), Verdict: notCompiled, Output: why}); err != nil {
					return err
				}
			}
		}
		if len(bad) > 0 {
			sample = nil // others take their places
		}
	}
	for i, m := range sample {
		r, ok := results[m.id()]
		if ok && !(o.again && r.Verdict == survived && equivalent[m.id()] == "") {
			continue
		}
		began := time.Now()
		verdict, by, output, err := l.try(ctx, m)
		if err != nil {
			return err
		}
		if err := note(m, result{m.id(), verdict, by, output}); err != nil {
			return err
		}
		fmt.Fprintf(w, "%4d %-15s %-11s %4.0f s  %s:%d %s => %s\n", i+1, verdict, by, time.Since(began).Seconds(),
			m.file, m.line, m.before, m.after)
		if o.verbose {
			fmt.Fprintln(w, output)
		}
	}
	return nil
}
