// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// scratch is removed after all tests.
var scratch string

func TestMain(m *testing.M) {
	beProgram()
	var err error
	if scratch, err = os.MkdirTemp("", "checksuite"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(scratch)
	os.Exit(status)
}

// Each rule is broken by at least two programs, in each language that can.
func TestEachRule(t *testing.T) {
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	byRule := make(map[string]int)
	byLanguage := make(map[string]int)
	names := make(map[string]bool)
	for _, p := range all {
		if names[p.name()] {
			t.Errorf("two programs are named %s", p.name())
		}
		names[p.name()] = true
		byRule[p.rule]++
		byLanguage[p.lang+"/"+p.rule]++
	}
	for _, r := range rules {
		if byRule[r] < 2 {
			t.Errorf("%s: %d programs, not 2 or more", r, byRule[r])
		}
		why := oneLanguage[r]
		for _, lang := range []string{langC, langGo} {
			possible := why == "" || strings.HasPrefix(strings.ToLower(why), lang+":")
			if has := byLanguage[lang+"/"+r] > 0; has != possible {
				t.Errorf("%s: a program in %s: %t, possible: %t", r, lang, has, possible)
			}
		}
	}
	for name := range knownMisses {
		if !names[name] {
			t.Errorf("known miss %s is no program", name)
		}
	}
	if len(all) < 90 {
		t.Errorf("%d programs, not 90 or more", len(all))
	}
}

// Without the checker all right programs succeed.
func TestRightGo(t *testing.T) {
	rightPrograms(t, langGo, options{device: "roce", jobs: 2, plain: true})
}

func TestRightC(t *testing.T) {
	rightPrograms(t, langC, options{device: "roce", jobs: 2, plain: true, libs: libraries(t)})
}

func rightPrograms(t *testing.T, lang string, o options) {
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	chosen := slices.DeleteFunc(all, func(p program) bool { return p.lang != lang })
	dir := t.TempDir()
	if err := build(t.Context(), chosen, dir, &o); err != nil {
		t.Fatal(err)
	}
	each(len(chosen), o.jobs, func(i int) {
		if r := chosen[i].run(t.Context(), dir, right, o); r.err != nil {
			t.Errorf("%s: %v\n%s", chosen[i].name(), r.err, r.said)
		}
	})
}

// With the checker each mistake is found that is not known to be missed, and correct programs have no findings.
func TestSuite(t *testing.T) {
	o := options{device: "roce", jobs: runtime.NumCPU(), libs: libraries(t)}
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := build(t.Context(), all, dir, &o); err != nil {
		t.Fatal(err)
	}
	verdicts := runAll(t.Context(), all, dir, o)
	var table, said bytes.Buffer
	good := printTable(&table, verdicts, false)
	for i := range verdicts {
		v := &verdicts[i]
		if _, known := knownMisses[v.name()]; !known || v.broken() || len(v.right.findings) > 0 {
			v.explain(&said, false)
		}
		if v.broken() {
			good = false
		}
	}
	if !good {
		t.Errorf("not as it should be:\n%s%s", table.Bytes(), said.Bytes())
	}
}

// libraries builds the libraries for C programs, once, and returns their folder.
func libraries(t *testing.T) string {
	t.Helper()
	testrun.SkipUnlessLong(t, "builds C libraries and programs")
	probe := exec.Command("cc", "-fsyntax-only", "-xc", "-")
	probe.Stdin = strings.NewReader("#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n")
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("cc and the headers of libibverbs-dev and librdmacm-dev are needed: %v\n%s", err, out)
	}
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var built = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "libs")
	return dir, buildLibraries(context.Background(), dir)
})

// The table counts mistakes found and missed, and false reports, and fails for unknown ones.
func TestTable(t *testing.T) {
	p := program{langC, "race", "x"}
	found, other := outcome{findings: []string{"race"}}, outcome{findings: []string{"leak"}}
	failed := outcome{err: os.ErrInvalid}
	for _, c := range []struct {
		name    string
		verdict verdict
		good    bool
		want    string
	}{
		{"found", verdict{p, found, outcome{}}, true, "| race | 1 | 1 | 0 | 0 |  |"},
		{"missed", verdict{p, outcome{}, outcome{}}, false, "| race | 1 | 0 | 1 | 0 | missed: c/race-x |"},
		{"another rule", verdict{p, other, outcome{}}, false, "| race | 1 | 0 | 1 | 0 | missed: c/race-x |"},
		{"false", verdict{p, found, found}, false, "| race | 1 | 1 | 0 | 1 | false: c/race-x |"},
		{"false by another rule", verdict{p, found, other}, false, "| race | 1 | 1 | 0 | 1 | false: c/race-x |"},
		{"failed", verdict{p, found, failed}, false, "| race | 1 | 1 | 0 | 0 | the right program failed: c/race-x |"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if good := printTable(&out, []verdict{c.verdict}, true); good != c.good {
				t.Errorf("good: %t", good)
			}
			if !strings.Contains(out.String(), c.want+"\n") {
				t.Errorf("the table has no line %q:\n%s", c.want, out.String())
			}
		})
	}
}

// A known miss is shown as such, and is no failure until the checker finds it.
func TestKnownMiss(t *testing.T) {
	p := program{langC, "leak", "x"}
	knownMisses[p.name()] = "it is out of sight"
	defer delete(knownMisses, p.name())
	var out bytes.Buffer
	if !printTable(&out, []verdict{{p, outcome{}, outcome{}}}, true) ||
		!strings.Contains(out.String(), "| leak | 1 | 0 | 1 | 0 | known miss: c/leak-x (it is out of sight) |\n") {
		t.Errorf("not a known miss:\n%s", out.String())
	}
	found := []verdict{{p, outcome{findings: []string{p.rule}}, outcome{}}}
	if printTable(&out, found, true) {
		t.Error("a known miss that was found is good")
	}
	meet[p.rule] = true
	defer delete(meet, p.rule)
	if !printTable(&out, found, true) {
		t.Error("a known miss that was found by chance is not good")
	}
}
