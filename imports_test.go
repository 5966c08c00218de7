// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/ramjet-rdma/ramjet"

// layers says which packages of the module a package may import directly, by their paths
// within the module; a trailing slash stands for everything below. The picture is in
// ARCHITECTURE.md.
var layers = map[string][]string{
	"":                     {"iwarp", "roce", "trace", "verbs"},
	"verbs":                {"wire/"},
	"wire/crc":             {},
	"wire/ib":              {"wire/crc"},
	"wire/mad":             {"wire/ib"},
	"wire/iwarp":           {"wire/crc"},
	"trace":                {},
	"cm":                   {"internal/ibcm", "verbs", "wire/"},
	"iwarp":                {"internal/forkmark", "internal/linkwatch", "internal/rdmap", "internal/softdev", "verbs", "wire/"},
	"roce":                 {"internal/ibta", "internal/linkwatch", "internal/memory", "internal/netio", "internal/portshare", "internal/softdev", "trace", "verbs", "wire/"},
	"internal/memory":      {"verbs", "wire/crc"},
	"internal/queue":       {"internal/memory", "verbs"},
	"internal/ibta":        {"internal/memory", "internal/queue", "verbs", "wire/"},
	"internal/rdmap":       {"internal/memory", "internal/queue", "verbs", "wire/"},
	"internal/ibcm":        {"verbs", "wire/"},
	"internal/softdev":     {"internal/ibta", "internal/rdmap", "internal/memory", "internal/queue", "verbs", "wire/"},
	"internal/forkmark":    {},
	"internal/linkwatch":   {"internal/forkmark", "verbs"},
	"internal/netio":       {"internal/forkmark"},
	"internal/portshare":   {"internal/forkmark"},
	"internal/conformance": {"verbs", "wire/", "internal/ibta", "internal/netio", "internal/softdev"},
	"internal/loopback":    {"verbs"},
	"internal/captured":    {},
	"internal/localca":     {},
	"internal/sim":         {"internal/ibta", "internal/memory", "internal/queue", "trace", "verbs", "wire/"},
	"internal/perf":        {"", "internal/netio/baseline", "trace", "verbs"},
	"rnet":                 {"cm", "internal/rsocket", "verbs"},
	"internal/rsocket":     {},
	"internal/filecopy":    {"cm", "verbs"},
	"internal/cdevices":    {"verbs"},
	"cmd/ramjet":           {"", "cm", "internal/", "rnet", "roce", "trace", "verbs", "wire/"},

	"internal/netio/baseline": {"internal/netio"},

	// Built with the tag cabi only, into a library: see cabi/build.sh.
	"cabi":          {"", "cm", "internal/cdevices", "iwarp", "rnet", "roce", "verbs", "wire/"},
	"cabi/programs": {},
}

// forbidden is what some packages may not import of the standard library, nor of others:
// wire depends on nothing, and the engine has no clock, lock or socket.
var forbidden = map[string][]string{
	"wire/crc":        {"github.com/", "golang.org/"},
	"wire/ib":         {"golang.org/"},
	"wire/mad":        {"golang.org/"},
	"wire/iwarp":      {"golang.org/"},
	"internal/ibta":   {"net", "os", "sync", "math/rand", "math/rand/v2", "crypto/rand", "context", "golang.org/"},
	"internal/rdmap":  {"net", "os", "sync", "time", "math/rand", "math/rand/v2", "crypto/rand", "context", "golang.org/"},
	"internal/ibcm":   {"net", "os", "sync", "math/rand", "math/rand/v2", "crypto/rand", "context", "golang.org/"},
	"internal/memory": {"net", "os/exec", "math/rand", "math/rand/v2", "sync"},
	"verbs":           {"net", "os", "math/rand", "math/rand/v2", "golang.org/"},

	// What draws the numbers that peers must not guess has one source of them, crypto/rand.
	"internal/softdev": {"math/rand", "math/rand/v2"},
	"roce":             {"math/rand", "math/rand/v2"},

	"internal/rsocket": {"net", "os", "sync", "time", "math/rand", "math/rand/v2", "crypto/rand", "context", "golang.org/"},
}

type pkg struct {
	ImportPath string
	Imports    []string
	CgoFiles   []string
}

func TestImports(t *testing.T) {
	// cgo is allowed in cabi, which is for Linux; listing packages needs no C compiler.
	for _, args := range [][]string{{}, {"-tags", "cabi"}} {
		list := exec.Command("go", append(append([]string{"list", "-json=ImportPath,Imports,CgoFiles"}, args...), "./...")...)
		if len(args) > 0 {
			list.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS=linux")
		}
		out, err := list.Output()
		if err != nil {
			t.Fatalf("go list %v: %v", args, err)
		}
		for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
			var p pkg
			if err := dec.Decode(&p); err != nil {
				t.Fatal(err)
			}
			checkImports(t, p)
		}
	}
}

func checkImports(t *testing.T, p pkg) {
	name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
	allowed, known := layers[name]
	if !known {
		if name != "interop" { // tests only
			t.Errorf("package %q stands in no layer: give it a row here and a place in ARCHITECTURE.md", name)
		}
		return
	}
	if len(p.CgoFiles) > 0 && name != "cabi" {
		t.Errorf("%s uses cgo", name)
	}
	for _, i := range p.Imports {
		if rest, ours := strings.CutPrefix(i, module); ours {
			rest = strings.TrimPrefix(rest, "/")
			if !slices.ContainsFunc(allowed, func(a string) bool { return a == rest || strings.HasSuffix(a, "/") && strings.HasPrefix(rest, a) }) {
				t.Errorf("%q may not import %q", name, rest)
			}
		}
		for _, f := range forbidden[name] {
			if i == f || strings.HasSuffix(f, "/") && strings.HasPrefix(i, f) && !strings.HasPrefix(i, module) {
				t.Errorf("%q may not import %s", name, i)
			}
		}
	}
}

// The engine's packages may use package time for durations, but not its clock.
func TestEngineHasNoClock(t *testing.T) {
	clock := regexp.MustCompile(`\btime\.(Now|Since|Until|After|AfterFunc|Sleep|NewTimer|NewTicker|Tick)\(`)
	for _, dir := range []string{"internal/ibta", "internal/memory", "internal/queue", "internal/rdmap", "internal/ibcm", "wire/ib", "wire/mad", "wire/iwarp"} {
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files: %v", dir, err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if use := clock.Find(src); use != nil {
				t.Errorf("%s uses %s", f, use)
			}
		}
	}
}
