// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// TestController follows controller.md, with files that lie over the files of the tree.
func TestController(t *testing.T) {
	testrun.SkipUnlessLong(t, "it builds the command with a controller more")
	page, err := os.ReadFile("controller.md")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	over := func(name, text string) {
		t.Helper()
		path, err := filepath.Abs(filepath.Join("..", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(folder, filepath.Base(name))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[path] = to
	}
	tables := map[string]*regexp.Regexp{ // up to the end of the table that the page adds to
		"kinds.go":           regexp.MustCompile(`(?s)^.*?\nvar Kinds = .*?\n(}\n)`),
		"bottleneck_test.go": regexp.MustCompile(`(?s)^.*?\nfunc TestBottleneck\(.*?\n(\t} \{\n)`),
	}
	blocks := regexp.MustCompile("(?s)```go (\\S+)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 3 {
		t.Fatalf("the page has %d files, want 3", len(blocks))
	}
	for _, b := range blocks {
		name, text := b[1], b[2]
		if table := tables[filepath.Base(name)]; table != nil {
			old, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
			if err != nil {
				t.Fatal(err)
			}
			at := table.FindSubmatchIndex(old)
			if at == nil {
				t.Fatalf("%s has no table such as %v", name, table)
			}
			text = string(old[:at[2]]) + text + string(old[at[2]:])
		}
		over(name, text)
	}
	files, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(list, files, 0o600); err != nil {
		t.Fatal(err)
	}
	scenario := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(string(page))
	if err := os.WriteFile(filepath.Join(folder, "aimd.yaml"), []byte(scenario[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ command, want string }{
		{"go test ./internal/engine/congestion", "ok"},
		{"go test ./internal/engine/congestion -run 'TestBottleneck$' -v", "2 senders with aimd: link "},
		{"go run ./cmd/ramjet sim aimd.yaml -o aimd.svg", "8 of 8 flows ended"},
		{"RAMJET_CC=aimd go run ./cmd/ramjet perf write bw --loopback -n 200", "65536"},
	} {
		if !strings.Contains(string(page), "\n    "+c.command+"\n") {
			t.Errorf("the page does not say %s", c.command)
		}
		text := strings.ReplaceAll(c.command, "aimd.", filepath.Join(folder, "aimd."))
		run := exec.Command("sh", "-c", text)
		run.Dir, run.Env = "..", append(os.Environ(), "RAMJET_LONG=", "GOFLAGS=-overlay="+list)
		if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, want %q:\n%s", c.command, err, c.want, out)
		}
	}
}
