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
	named := regexp.MustCompile("`((?:[\\w/-]+\\.)?(?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(page), -1)
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

// TestLinks follows the links between pages: to files, and to headings of pages.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	links := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		page, err := os.ReadFile(path)
		for _, m := range link.FindAllStringSubmatch(string(page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			name, heading, _ := strings.Cut(m[1], "#")
			to := path
			if name != "" {
				to = filepath.Join(filepath.Dir(path), filepath.FromSlash(name))
			}
			there, err := os.ReadFile(to)
			if info, statErr := os.Stat(to); statErr != nil || err != nil && !info.IsDir() {
				t.Errorf("%s: the link %s leads nowhere", path, m[1])
			} else if heading != "" && !headings(string(there))[heading] {
				t.Errorf("%s: %s has no heading #%s", path, to, heading)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 100 {
		t.Errorf("only %d links", links)
	}
}

// headings returns the anchors of a page's headings: lower case, without punctuation, blanks as hyphens.
func headings(page string) map[string]bool {
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors[strings.ReplaceAll(text, " ", "-")] = true
	}
	return anchors
}

// TestFileLists compares the lists of files in doc comments with the files that there are.
func TestFileLists(t *testing.T) {
	row := regexp.MustCompile(`(?m)^//\t(\w+\.go(?:, \w+\.go)*)(?: |$)`)
	system := regexp.MustCompile(`_(linux|darwin|windows|unix|other|amd64|arm64)\.go$`)
	lists := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "doc.go" {
			return err
		}
		src, err := os.ReadFile(path)
		listed := map[string]bool{"doc.go": true}
		for _, m := range row.FindAllStringSubmatch(string(src), -1) {
			for name := range strings.SplitSeq(m[1], ", ") {
				listed[name] = true
			}
		}
		if len(listed) == 1 || err != nil {
			return err
		}
		lists++
		exist := map[string]bool{"doc.go": true}
		files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.go"))
		for _, f := range files {
			name := filepath.Base(f)
			general := system.ReplaceAllString(name, ".go")
			if !listed[name] && !listed[general] && !strings.HasSuffix(name, "_test.go") {
				t.Errorf("%s does not list %s", path, name)
			}
			exist[name], exist[general] = true, true
		}
		for name := range listed {
			if !exist[name] {
				t.Errorf("%s lists %s, which does not exist", path, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if lists < 6 {
		t.Errorf("only %d lists", lists)
	}
}
