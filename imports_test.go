// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"bytes"
	"encoding/json"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/ramjet-rdma/ramjet"

// floors are the rooms of the module from the bottom to the top, by paths within it; a trailing slash stands for
// everything below. A package imports from its own room, and from floors below. The picture is in ARCHITECTURE.md.
var floors = [][]string{
	{"wire/", "trace"},
	{"verbs", "verbs/"},
	{"internal/base/", "internal/system/"},
	{"internal/engine/"},
	{"internal/core/", "internal/system/statsocket"}, // which publishes core's observations
	{"roce", "roce1", "iwarp", "infiniband", "shm", "kernel", "cm", "regcache"},
	{"internal/device/"},
	{"", "rnet"},
	{"internal/testkit/"},
	{"rdmatest"},
	{"internal/app/"},
	{"cmd/ramjet/internal/"},
	{"cabi", "cabi/programs", "checksuite", "checksuite/go", "cmd/ramjet", "collect"},
}

// beside are imports from another room of the same floor.
var beside = map[string][]string{
	"internal/base/memory":       {"internal/system/mappings"}, // the budget of mappings, which regions have, too
	"internal/system/statsocket": {"internal/core/observe"},
	"verbs":                      {"verbs/internal/hook", "verbs/metric"},
	"verbs/umad":                 {"verbs", "verbs/internal/hook"},
	"verbs/driver":               {"verbs", "verbs/metric", "verbs/umad"},
	"checksuite":                 {"checksuite/go"},
}

// reserved are rooms that only some import from, on any floor: product code nothing from testkit, only commands the
// applications, and examples and programs nothing internal.
var reserved = map[string][]string{
	"internal/testkit/": {"internal/testkit/", "rdmatest"},
	// collect serves containers' processes as the command serves a host's
	"internal/app/": {"internal/app/", "cmd/", "collect"},
	"internal/core/softdev": {"collect", "roce", "roce1", "iwarp", "infiniband", "shm", "internal/core/packetdev",
		"internal/core/streamdev", "internal/core/memorydev", "internal/testkit/", "cmd/"},
	"internal/core/packetdev":   {"roce", "roce1", "infiniband", "internal/testkit/simnet"},
	"internal/core/streamdev":   {"iwarp", "shm", "internal/core/memorydev", "internal/testkit/simnet"},
	"internal/core/memorydev":   {"shm"},
	"internal/core/check":       {"cabi", "internal/device/kinds", "rdmatest"},
	"verbs/internal/hook":       {"verbs", "verbs/driver", "verbs/umad"},
	"internal/system/ibverbs":   {"kernel"},
	"internal/device/madclient": {"cabi"},
}

// forbidden are the packages that some packages, or all below a folder, may not import: wire depends on
// nothing, and engines have no clock, lock or socket.
var forbidden = map[string][]string{
	"wire/": {"github.com/", "golang.org/"},
	"internal/engine/": {"net", "os", "sync", "math/rand", "math/rand/v2", "crypto/rand", "context",
		"golang.org/"},
	"internal/engine/rdmap":   {"time"},
	"internal/engine/rsocket": {"time"},
	"internal/base/memory":    {"net", "os/exec", "math/rand", "math/rand/v2", "sync"},
	"verbs":                   {"net", "os", "math/rand", "math/rand/v2", "golang.org/"},

	// Packages that draw numbers that peers must not guess have one source of them, crypto/rand.
	"internal/core/softdev":   {"math/rand", "math/rand/v2"},
	"internal/core/packetdev": {"math/rand", "math/rand/v2"},
	"internal/core/streamdev": {"math/rand", "math/rand/v2"},
	"internal/core/memorydev": {"math/rand", "math/rand/v2"},
	"roce":                    {"math/rand", "math/rand/v2"},
	"roce1":                   {"math/rand", "math/rand/v2"},
}

// reach has the packages that may depend on a module, or on a package of the standard library, directly or
// through others. Other modules are for commands and their applications alone.
var reach = map[string][]string{
	"net": {"", "cm", "rnet", "roce", "roce1", "iwarp", "infiniband", "shm", "kernel",
		"internal/system/", "internal/device/", "internal/testkit/", "rdmatest", "internal/app/", "cabi", "checksuite",
		"checksuite/go", "cmd/", "collect"},
	"crypto/tls": {"", "iwarp", "internal/device/", "internal/testkit/exercise", "rdmatest",
		"internal/app/", "cabi", "checksuite", "checksuite/go", "cmd/", "collect"},
	"os/exec": {"internal/testkit/", "rdmatest", "internal/app/", "checksuite", "cmd/"},
	"testing": {"internal/testkit/", "rdmatest"},
	"github.com/pion/": {"", "iwarp", "internal/device/", "rdmatest", "internal/app/", "cabi", "checksuite",
		"checksuite/go", "cmd/", "collect"},
	"github.com/ebitengine/purego": {"kernel", "internal/system/ibverbs", "cmd/"},
	"golang.org/x/sys": {"", "cm", "rnet", "internal/", "roce", "roce1", "iwarp", "infiniband", "shm",
		"kernel", "regcache", "rdmatest", "cabi", "checksuite", "checksuite/go", "cmd/", "collect"},
}

// rich may depend on any module.
var rich = []string{"internal/app/", "cmd/"}

// pkg is a package as `go list` describes it, on all systems together; tests are not part of it.
type pkg struct {
	ImportPath string
	Standard   bool
	Module     *struct{ Path string }
	Imports    []string
	Deps       []string // at any depth
	CgoFiles   []string
}

// packages returns all packages of the module and all that they depend on, by path.
func packages(t *testing.T) map[string]*pkg {
	t.Helper()
	const fields = "-json=ImportPath,Standard,Module,Imports,Deps,CgoFiles"
	all := make(map[string]*pkg)
	for _, c := range []struct{ os, cgo, tags string }{{"linux", "0", ""}, {"linux", "1", "cabi"}, {"darwin", "0", ""},
		{"windows", "0", ""}} {
		environment := []string{"GOOS=" + c.os, "CGO_ENABLED=" + c.cgo} // listing needs no C compiler
		for _, p := range goList[pkg](t, environment, fields, "-tags", c.tags) {
			had := all[p.ImportPath]
			if had == nil {
				all[p.ImportPath] = p
				continue
			}
			had.Imports, had.Deps = append(had.Imports, p.Imports...), append(had.Deps, p.Deps...)
			had.CgoFiles = append(had.CgoFiles, p.CgoFiles...)
		}
	}
	return all
}

// goList returns what go list says of the module's packages and of all that they import, each one after its imports.
func goList[P any](t *testing.T, environment []string, flags ...string) (all []*P) {
	t.Helper()
	list := exec.Command("go", append(append([]string{"list", "-deps"}, flags...), "./...")...)
	list.Env = append(os.Environ(), environment...)
	list.Stderr = new(bytes.Buffer)
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", list, err, list.Stderr)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		p := new(P)
		if err := dec.Decode(p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// ours returns a package's path within the module.
func ours(path string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(path, module)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}

// allows reports whether a permission is for a path.
func allows(permission, path string) bool {
	return permission == path || strings.HasSuffix(permission, "/") && strings.HasPrefix(path, permission)
}

// allowed reports whether one of some permissions is for a path.
func allowed(permissions []string, path string) bool {
	return slices.ContainsFunc(permissions, func(p string) bool { return allows(p, path) })
}

// roomOf returns the floor and the room of a package: of the rooms that it is in, the longest name.
func roomOf(name string) (floor int, room string, ok bool) {
	for i, f := range floors {
		for _, r := range f {
			if allows(r, name) && (!ok || len(r) > len(room)) {
				floor, room, ok = i, r, true
			}
		}
	}
	return floor, room, ok
}

// refusal returns why a package may not import another one of the module; empty: it may.
func refusal(name, of string) string {
	floor, room, _ := roomOf(name)
	switch below, other, ok := roomOf(of); {
	case !ok:
		return "which is in no room"
	case below > floor:
		return "which is on a floor above"
	case below == floor && room != other && !slices.Contains(beside[name], of):
		return "which is in another room of the same floor"
	}
	for r, users := range reserved {
		if allows(r, of) && !allowed(users, name) {
			return "which is for others"
		}
	}
	return ""
}

func TestImports(t *testing.T) {
	all := packages(t)
	for path, p := range all {
		name, ok := ours(path)
		if !ok {
			continue
		}
		if strings.HasPrefix(name, "examples/") || strings.HasPrefix(name, "docs/learn/") {
			checkExample(t, name, p)
			continue
		}
		if _, _, ok := roomOf(name); !ok && len(p.Imports) > 0 {
			t.Errorf("package %q stands on no floor: give it a place here and in ARCHITECTURE.md", name)
		}
		if len(p.CgoFiles) > 0 && name != "cabi" {
			t.Errorf("%s uses cgo", name)
		}
		for _, i := range p.Imports {
			if of, module := ours(i); module {
				if why := refusal(name, of); why != "" {
					t.Errorf("%q imports %q, %s", name, of, why)
				}
				continue
			}
			for key, refused := range forbidden {
				if allows(key, name) && allowed(refused, i) {
					t.Errorf("%q may not import %s", name, i)
				}
			}
		}
		for _, d := range p.Deps {
			checkReach(t, name, d, all[d])
		}
	}
}

// checkReach compares the dependencies of a package, at any depth, with reach.
func checkReach(t *testing.T, name, path string, p *pkg) {
	switch {
	case p == nil: // such as C
	case p.Standard:
		if users, scarce := reach[path]; scarce && !allowed(users, name) {
			t.Errorf("%q may not depend on %s", name, path)
		}
	case p.Module != nil && p.Module.Path != module && !allowed(rich, name):
		for of, users := range reach {
			if allows(of, p.Module.Path) && allowed(users, name) {
				return
			}
		}
		t.Errorf("%q may not depend on %s", name, p.Module.Path)
	}
}

// Imports that are refused, so that the rules of floors and rooms are known to bite.
func TestImportsRefused(t *testing.T) {
	for _, c := range []struct {
		name, of string
		refused  bool
	}{
		{"cm", "verbs", false},
		{"verbs", "cm", true},
		{"roce", "iwarp", true},
		{"roce", "internal/core/softdev", false},
		{"cm", "internal/core/softdev", true},
		{"internal/core/packetdev", "internal/core/softdev", false},
		{"internal/core/softdev", "internal/core/packetdev", true},
		{"iwarp", "internal/core/packetdev", true},
		{"internal/core/streamdev", "internal/core/packetdev", true},
		{"internal/engine/ibta", "internal/base/queue", false},
		{"internal/engine/ibta", "internal/core/softdev", true},
		{"internal/core/fabric", "internal/testkit/pair", true},
		{"internal/app/perf", "internal/app/units", false},
		{"rdmatest", "internal/app/units", true},
		{"internal/base/queue", "internal/system/netio", true},
		{"cm", "unknown", true},
	} {
		if why := refusal(c.name, c.of); (why != "") != c.refused {
			t.Errorf("%q imports %q: %q", c.name, c.of, why)
		}
	}
}

// checkExample holds that an example is a program as anybody could write it.
func checkExample(t *testing.T, name string, p *pkg) {
	for _, i := range p.Imports {
		if of, module := ours(i); module && strings.HasPrefix(of, "internal/") {
			t.Errorf("%q imports %q: examples have what other modules have", name, of)
		}
	}
}

// The engine's packages may use package time for durations, but not its clock.
func TestEngineHasNoClock(t *testing.T) {
	clock := regexp.MustCompile(`\btime\.(Now|Since|Until|After|AfterFunc|Sleep|NewTimer|NewTicker|Tick)\(`)
	for _, dir := range []string{"internal/engine/*", "internal/base/memory", "internal/base/queue", "wire/*"} {
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

// ownModules are the folders of modules that have packages of this one, and grow with them.
var ownModules = []string{".github/actions/*/examples/*", "examples/*", "kubernetes", "metrics", "nvme", "smbdirect",
	"valkey"}

// Modules of their own use the public API alone. Go's rule for internal would let them use more, as their paths are
// below this module's. That goes for their tests, too.
func TestOwnModules(t *testing.T) {
	var roots []string
	for _, pattern := range ownModules {
		found, err := filepath.Glob(filepath.Join(filepath.FromSlash(pattern), "go.mod"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no go.mod: %v", pattern, err)
		}
		roots = append(roots, found...)
	}
	all, err := filepath.Glob(filepath.Join("*", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, mod := range all {
		if !slices.Contains(roots, mod) {
			t.Errorf("module %s is not looked at: add it here", filepath.Dir(mod))
		}
	}
	for _, mod := range roots {
		root := filepath.Dir(mod)
		own := module + "/" + filepath.ToSlash(root) + "/"
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			for _, i := range f.Imports {
				imported := strings.Trim(i.Path.Value, `"`)
				of, ours := ours(imported)
				if ours && !strings.HasPrefix(imported, own) &&
					(strings.HasPrefix(of, "internal/") || strings.Contains(of, "/internal/")) {
					t.Errorf("%s imports %s: what the public API lacks is added to it", path, imported)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
