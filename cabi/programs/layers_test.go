// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each C file calls only files that build.sh names before it, so that no calls go round in circles.
// Symbols of the C library are the C library's, even if another library stands before it at run time.
func TestLayers(t *testing.T) {
	for _, tool := range []string{"gcc", "nm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	script, err := os.ReadFile("../build.sh")
	if err != nil {
		t.Fatal(err)
	}
	files := regexp.MustCompile(`\bc/(\w+)\.c\b`).FindAllStringSubmatch(withoutComments(string(script)), -1)
	all, err := filepath.Glob("../c/*.c")
	if err != nil || len(all) != len(files) {
		t.Fatalf("build.sh names %d of %d files: %v", len(files), len(all), err)
	}
	libc, err := exec.Command("gcc", "-print-file-name=libc.so.6").Output()
	if err != nil {
		t.Fatal(err)
	}
	system, _ := objectSymbols(t, "-D", strings.TrimSpace(string(libc)))

	place := make(map[string]int) // of the file that defines a symbol
	wants := make([][]string, len(files))
	for i, f := range files {
		object := filepath.Join(t.TempDir(), f[1]+".o")
		compile := exec.Command("gcc", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-c", "../c/"+f[1]+".c", "-o",
			object)
		if out, err := compile.CombinedOutput(); err != nil {
			if strings.Contains(string(out), "infiniband/") || strings.Contains(string(out), "rdma/") {
				t.Skip("the headers of libibverbs-dev and librdmacm-dev are needed")
			}
			t.Fatalf("%v\n%s", err, out)
		}
		defined, undefined := objectSymbols(t, "-g", object)
		for _, s := range defined {
			place[s] = i
		}
		wants[i] = undefined
	}
	calls := 0
	for i, symbols := range wants {
		for _, s := range symbols {
			to, ours := place[s]
			if !ours || slices.Contains(system, s) {
				continue
			}
			if calls++; to > i {
				t.Errorf("%s.c calls %s of %s.c, which stands behind it in build.sh", files[i][1], s, files[to][1])
			}
		}
	}
	if calls < len(files) {
		t.Errorf("%d calls between %d files: that cannot be all", calls, len(files))
	}
}

// withoutComments returns a shell script without the lines that are comments.
func withoutComments(script string) string {
	return regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(script, "")
}

// objectSymbols returns the symbols that a file defines, and the symbols that it needs.
func objectSymbols(t *testing.T, which, file string) (defined, undefined []string) {
	t.Helper()
	out, err := exec.Command("nm", which, file).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		name, _, _ := strings.Cut(f[len(f)-1], "@")
		if kind := f[len(f)-2]; kind == "U" || kind == "w" {
			undefined = append(undefined, name)
		} else {
			defined = append(defined, name)
		}
	}
	return defined, undefined
}
