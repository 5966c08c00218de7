// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityRows looks for each test that docs/security.md names.
func TestSecurityRows(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	have := map[string]bool{} // package and test
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		for _, m := range function.FindAllStringSubmatch(string(src), -1) {
			dir := filepath.ToSlash(filepath.Dir(path))
			have[dir[strings.LastIndex(dir, "/")+1:]+"."+m[1]] = true
			have[dir+"."+m[1]] = true
			if dir == "." {
				have[m[1]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := filepath.Glob(filepath.Join("internal", "testkit", "conformance", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range rows {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\{name: "([^"]+)"`).FindAllStringSubmatch(string(src), -1) {
			have["conformance "+m[1]] = true
		}
	}
	named := regexp.MustCompile("`((?:[\\w/]+\\.)?(?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(page), -1)
	for _, m := range regexp.MustCompile("conformance `([^`…]+)`").FindAllStringSubmatch(string(page), -1) {
		named = append(named, []string{m[0], "conformance " + m[1]})
	}
	if len(named) < 40 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, m := range named {
		if !have[m[1]] {
			t.Errorf("there is no %s", m[1])
		}
	}
}
