// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reads finds code that takes bytes from outside of the process: sockets, files, shared memory, and text of other
// programs.
var reads = regexp.MustCompile(
	`\b(ReadFrom(UDPAddrPort|UDP|Unix|AddrPort)|ReadMsg(Unix|UDP)|Recvmsg|Recvfrom|SYS_RECV\w+|SYS_READ|SYS_MMAP)\b` +
		`|\bio\.Read(Full|All)\(|\bjson\.(Unmarshal|NewDecoder)\(|\bbufio\.New(Scanner|Reader|ReaderSize)\(|\bos\.ReadFile\(|\bunix\.(Read|Mmap)\(` +
		`|\b(conn|c|link|Link|tcp|udp|from|inbox|file|f|raw)\.Read(At)?\(|\bServeHTTP\(`)

// entryFiles returns the files in which bytes come in.
func entryFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		slash := filepath.ToSlash(path)
		if d.IsDir() && slices.Contains([]string{".git", "checksuite", "examples", "internal/testkit", "interop"},
			slash) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(slash, ".go") || strings.HasSuffix(slash, "_test.go") ||
			strings.HasSuffix(slash, "/gen.go") {
			return nil
		}
		src, err := os.ReadFile(path)
		for line := range strings.Lines(string(src)) {
			code, _, _ := strings.Cut(strings.TrimSpace(line), "//")
			if reads.MatchString(code) && !slices.Contains(files, slash) {
				files = append(files, slash)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestEntries compares the files in which bytes come in with the tables of docs/security.md: each file is in one of
// them, and in the first one with a fuzzer that enters there. TestSecurityRows looks for the fuzzers.
func TestEntries(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "## Where bytes come in\n")
	if !ok {
		t.Fatal("the section is gone")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	file := regexp.MustCompile("`([\\w./-]+\\.go)`")
	fuzzer := regexp.MustCompile("`[\\w/-]+\\.Fuzz\\w+`")
	listed := map[string]bool{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") ||
			strings.Contains(line, "| read by |") || strings.HasPrefix(line, "| read by |") {
			continue
		}
		switch last := cells[len(cells)-1]; len(cells) {
		case 4:
			if !fuzzer.MatchString(last) {
				t.Errorf("no fuzzer enters here: %s", line)
			}
		case 2:
			if strings.TrimSpace(last) == "" {
				t.Errorf("no reason: %s", line)
			}
		default:
			t.Errorf("a row of %d cells: %s", len(cells), line)
		}
		for _, m := range file.FindAllStringSubmatch(line, -1) {
			if listed[m[1]] {
				t.Errorf("%s is there twice", m[1])
			}
			listed[m[1]] = true
		}
	}
	files := entryFiles(t)
	if len(files) < 60 {
		t.Errorf("only %d files read bytes", len(files))
	}
	for _, f := range files {
		if !listed[f] {
			t.Errorf("%s takes bytes from outside, and is in no table of docs/security.md, \"Where bytes come in\": name the fuzzer that enters there", f)
		}
		delete(listed, f)
	}
	for f := range listed {
		t.Errorf("%s takes no bytes from outside: docs/security.md says so", f)
	}
}
