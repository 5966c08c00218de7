// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const sample = `package sample

const limit = 3

func Small(n int) bool {
	return n < limit
}

func Sum(list []int) (total int) {
Lists:
	for _, n := range list {
		if n < 0 {
			continue Lists
		}
		total += n
	}
	return total
}

var calls int

func Count() {
	calls++
	unseen()
}

func unseen() {}

func (s Name) String() string { return "a" + string(s) }

type Name string
`

const sampleTest = `package sample

import "testing"

func Test(t *testing.T) {
	if Sum([]int{1, -2, 3}) != 4 || !Small(2) || Small(limit) {
		t.Error("wrong")
	}
	if Count(); calls != 1 {
		t.Error("not counted")
	}
}
`

// TestOperators names each change of a file.
func TestOperators(t *testing.T) {
	list, err := mutantsIn("sample.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range list {
		got = append(got, strings.TrimPrefix(m.id(), "sample.go "))
	}
	want := []string{
		"-: constant: const limit = 3 => const limit = 4",
		"-: constant: const limit = 3 => const limit = 2",
		"Small: boundary: return n < limit => return n <= limit",
		"Sum: negation: if n < 0 { => if !(n < 0) {",
		"Sum: boundary: if n < 0 { => if n <= 0 {",
		"Sum: constant: if n < 0 { => if n < 1 {",
		"Sum: dropped: continue Lists => (dropped)",
		"Sum: dropped: total += n => (dropped)",
		"Sum: arithmetic: total += n => total -= n",
		"Count: dropped: calls++ => (dropped)",
		"Count: dropped: unseen() => (dropped)",
		"Count: arithmetic: calls++ => calls--",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("mutants\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRun tests the mutants of a small module, twice: mutants with a result are not tested again.
func TestRun(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module sample\n\ngo 1.25\n", "a/sample.go": sample,
		"a/sample_test.go": sampleTest} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	all, err := mutantsOf(root, []string{"a"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{root: root, tmp: t.TempDir(), factor: 4, bounds: make(map[string]bound),
		stages: func(pkg string) []stage { return []stage{{scripts, pkg, nil}} }}
	o := options{n: 100, state: filepath.Join(t.TempDir(), "state")}
	for range 2 {
		results, err := load(o.state)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := test(context.Background(), &out, l, all, o, results, nil); err != nil {
			t.Fatal(err)
		}
		equivalent := map[string]string{"a/sample.go Sum: boundary: if n < 0 { => if n <= 0 {": "nothing is added for 0 either way"}
		var text bytes.Buffer
		total := report(&text, sampleOf(all, o, results), results, equivalent)
		// The changed constant changes Small with it; no test sees that unseen is called; a label that is left over
		// does not compile.
		survivors := 0
		for _, r := range results {
			if r.Verdict == survived {
				survivors++
			}
		}
		if total.equivalent != 1 || total.survived != survivors-1 || !strings.Contains(text.String(), "unseen()") ||
			total.by[scripts] < 6 {
			t.Errorf("%d survived\n%s\n%s", survivors, out.String(), text.String())
		}
		if r := results["a/sample.go Sum: dropped: continue Lists => (dropped)"]; r.Verdict != notCompiled {
			t.Errorf("a label that nobody uses: %+v", r)
		}
	}
	if b, err := os.ReadFile(filepath.Join(root, "a", "sample.go")); err != nil || string(b) != sample {
		t.Errorf("the source has changed: %v", err)
	}
}

// TestEngines holds that there are mutants in all engines, and that schemas of all of them at once are Go.
func TestEngines(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	all, err := mutantsOf(root, strings.Split(engines, ","), 1)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]numbered)
	for i, m := range all {
		if m.body.end > 0 && i%10 == 0 {
			files[m.file] = append(files[m.file], numbered{m, i + 1})
		}
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		schema, _, err := schemaOf(source, files[file])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), file, schema, 0); err != nil {
			t.Error(err)
		}
	}
	if len(all) < 1000 || len(files) < 30 {
		t.Errorf("%d mutants in %d files", len(all), len(files))
	}
}

// TestEquivalents holds the file of equivalent mutants to its form.
func TestEquivalents(t *testing.T) {
	if _, err := parseEquivalents(equivalentsText); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"\ta reason\n", "a mutant\n", "one\n\twhy\none\n\twhy\n"} {
		if _, err := parseEquivalents(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
