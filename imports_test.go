// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"bytes"
	"encoding/json"
	"maps"
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
	"":                             {"internal/device/kinds", "trace", "verbs"},
	"internal/device/kinds":        {"infiniband", "internal/core/calllog", "internal/core/check", "internal/core/fabric", "internal/core/faults", "internal/core/spell", "internal/system/rdmasys", "iwarp", "roce", "roce1", "shm", "trace", "verbs", "verbs/driver", "wire/"},
	"verbs":                        {"verbs/internal/hook", "wire/"},
	"verbs/driver":                 {"verbs", "verbs/internal/hook"},
	"verbs/internal/hook":          {},
	"wire/crc":                     {},
	"wire/ib":                      {"wire/crc"},
	"wire/mad":                     {"wire/ib"},
	"wire/mad/smp":                 {"wire/"},
	"wire/mad/sa":                  {"wire/"},
	"wire/mad/pm":                  {"wire/"},
	"wire/iwarp":                   {"wire/crc"},
	"trace":                        {},
	"cm":                           {"internal/core/calllog", "internal/core/clock", "internal/core/faults", "internal/core/observe", "internal/engine/ibcm", "verbs", "verbs/driver", "wire/"},
	"iwarp":                        {"internal/core/softdev", "internal/engine/rdmap", "internal/system/forkmark", "internal/system/linkwatch", "internal/system/pollwait", "internal/system/statsocket", "trace", "verbs", "verbs/driver", "wire/"},
	"shm":                          {"internal/core/softdev", "internal/engine/local", "internal/engine/rdmap", "internal/system/mappings", "internal/system/pollwait", "internal/system/shmem", "internal/system/statsocket", "verbs", "verbs/driver", "wire/"},
	"roce":                         {"internal/core/memory", "internal/core/softdev", "internal/core/steer", "internal/engine/congestion", "internal/engine/ibta", "internal/system/linkwatch", "internal/system/netio", "internal/system/portshare", "internal/system/statsocket", "trace", "verbs", "verbs/driver", "wire/"},
	"roce1":                        {"internal/core/memory", "internal/core/softdev", "internal/engine/ibta", "internal/system/etherring", "internal/system/forkmark", "internal/system/linkwatch", "internal/system/peercred", "internal/system/statsocket", "trace", "verbs", "verbs/driver", "wire/"},
	"internal/core/memory":         {"internal/system/mappings", "verbs", "verbs/driver", "wire/crc"},
	"internal/core/queue":          {"internal/core/clock", "internal/core/memory", "verbs", "verbs/driver"},
	"internal/core/pin":            {"verbs"},
	"internal/engine/congestion":   {"internal/core/clock"},
	"internal/engine/ibta":         {"internal/core/clock", "internal/core/memory", "internal/core/queue", "internal/engine/congestion", "verbs", "verbs/driver", "wire/"},
	"internal/engine/rdmap":        {"internal/core/memory", "internal/core/queue", "verbs", "wire/"},
	"internal/engine/local":        {"internal/core/memory", "internal/core/queue", "verbs", "verbs/driver", "wire/ib"},
	"internal/engine/ibcm":         {"internal/core/clock", "verbs", "wire/"},
	"internal/engine/madagent":     {"internal/core/clock", "verbs", "wire/"},
	"internal/engine/node":         {"wire/"},
	"internal/engine/routing":      {"internal/engine/node"},
	"internal/engine/link":         {"internal/core/clock", "internal/engine/node", "wire/"},
	"internal/engine/topology":     {"internal/engine/node"},
	"internal/engine/sm":           {"internal/core/clock", "internal/engine/node", "internal/engine/routing", "wire/"},
	"internal/engine/sma":          {"internal/core/clock", "internal/engine/link", "internal/engine/node", "wire/"},
	"internal/core/environ":        {},
	"internal/core/faults":         {"internal/core/cnames", "internal/core/environ", "internal/core/spell", "verbs"},
	"internal/core/calllog":        {"internal/core/cnames", "internal/core/environ", "internal/core/spell", "verbs"},
	"internal/core/check":          {"internal/core/calllog", "internal/core/environ", "internal/core/memory", "internal/core/observe", "internal/core/spell", "internal/system/checkboard", "verbs", "verbs/driver", "wire/"},
	"internal/core/cnames":         {},
	"internal/core/spell":          {},
	"internal/core/softdev":        {"internal/core/clock", "internal/core/faults", "internal/core/memory", "internal/core/observe", "internal/core/pin", "internal/core/queue", "internal/engine/congestion", "internal/engine/ibta", "internal/engine/local", "internal/engine/rdmap", "internal/system/runnable", "verbs", "verbs/driver", "wire/"},
	"internal/core/clock":          {},
	"internal/core/steer":          {"wire/"},
	"internal/core/fabric":         {"internal/core/clock", "internal/core/queue", "internal/core/steer", "internal/engine/link", "internal/engine/node", "internal/engine/routing", "internal/engine/sm", "internal/engine/sma", "internal/engine/topology", "verbs", "wire/"},
	"internal/system/ibsim":        {"internal/system/peercred", "wire/"},
	"infiniband":                   {"internal/core/fabric", "internal/core/memory", "internal/core/queue", "internal/core/softdev", "internal/core/steer", "internal/engine/ibta", "internal/engine/link", "internal/engine/node", "internal/engine/topology", "internal/system/ibsim", "internal/system/peercred", "internal/system/statsocket", "trace", "verbs", "verbs/driver", "wire/"},
	"internal/core/observe":        {"internal/core/faults", "verbs", "verbs/driver"},
	"kernel":                       {"internal/core/observe", "internal/system/ibverbs", "internal/system/rdmasys", "internal/system/statsocket", "verbs", "verbs/driver"},
	"internal/system/ibverbs":      {},
	"internal/system/checkboard":   {"internal/system/forkmark"},
	"internal/system/etherring":    {"internal/system/forkmark", "internal/system/pollwait"},
	"internal/system/forkmark":     {},
	"internal/system/linkwatch":    {"internal/system/forkmark", "verbs"},
	"internal/system/netio":        {"internal/system/forkmark", "internal/system/pollwait"},
	"internal/system/peercred":     {},
	"internal/system/portshare":    {"internal/system/forkmark", "internal/system/peercred"},
	"internal/system/mapwatch":     {},
	"internal/system/pollwait":     {},
	"internal/system/rdmasys":      {"verbs"},
	"internal/system/runnable":     {},
	"internal/system/mappings":     {},
	"internal/system/shmem":        {"internal/system/forkmark", "internal/system/mappings"},
	"internal/system/statsocket":   {"internal/core/environ", "internal/core/observe", "internal/system/forkmark", "internal/system/peercred", "verbs"},
	"internal/testkit/conformance": {"cm", "internal/core/faults", "verbs", "verbs/driver", "wire/", "internal/testkit/loopback", "internal/testkit/testrun"},
	"internal/testkit/loopback":    {"verbs"},
	"internal/testkit/captured":    {},
	"internal/testkit/machines":    {"internal/system/rdmasys"},
	"internal/testkit/mutate":      {},
	"internal/testkit/testrun":     {},
	"internal/testkit/tshark":      {},
	"internal/testkit/echo":        {"cm", "verbs"},
	"internal/testkit/exercise":    {"cm", "rnet", "verbs"},
	"internal/testkit/codec":       {},
	"internal/testkit/pair":        {"verbs"},
	"internal/testkit/softfabric":  {"infiniband"},
	"internal/app/localca":         {},
	"internal/testkit/simnet":      {"infiniband", "internal/engine/ibta", "internal/core/clock", "internal/core/fabric", "internal/core/memory", "internal/engine/link", "internal/engine/node", "internal/engine/rdmap", "internal/engine/sm", "internal/engine/topology", "internal/core/softdev", "trace", "verbs", "verbs/driver", "wire/"},
	"rdmatest":                     {"", "cm", "infiniband", "internal/core/check", "internal/testkit/loopback", "internal/testkit/simnet", "verbs", "verbs/driver"},
	"internal/app/connect":         {"cm", "verbs"},
	"internal/app/perf":            {"cm", "internal/app/connect", "internal/app/perf/baseline", "internal/app/units", "verbs"},
	"regcache":                     {"internal/system/mappings", "internal/system/mapwatch", "verbs"},
	"rnet":                         {"cm", "internal/engine/rsocket", "verbs"},
	"internal/engine/rsocket":      {},
	"internal/app/admission":       {},
	"internal/app/filecopy":        {"cm", "internal/app/admission", "verbs"},
	"internal/app/ping":            {"cm", "internal/app/admission", "internal/app/units", "verbs"},
	"internal/app/pingpong":        {"internal/app/units", "internal/app/usage", "verbs"},
	"internal/app/dash":            {"internal/app/capture", "internal/app/explain", "internal/app/ladder", "internal/app/live", "internal/app/units", "internal/core/observe", "internal/system/statsocket", "verbs", "verbs/driver", "wire/ib"},
	"internal/app/demo":            {"cm", "internal/app/capture", "internal/app/connect", "internal/app/ladder", "internal/app/perf/baseline", "internal/app/units", "internal/app/usage", "internal/core/observe", "internal/device/kinds", "internal/system/statsocket", "verbs"},
	"internal/app/doctor":          {"internal/app/explain", "internal/app/units", "internal/device/cdevices", "internal/device/kinds", "internal/system/rdmasys"},
	"internal/app/fabricconsole":   {"internal/app/fabricview", "internal/core/spell"},
	"internal/app/fabriccontrol":   {"infiniband", "internal/app/fabricview", "internal/core/fabric", "internal/engine/node", "internal/engine/sm", "internal/engine/topology"},
	"internal/app/fabricview":      {"internal/app/units", "internal/engine/node", "internal/engine/topology"},
	"internal/app/capture":         {"internal/core/observe", "wire/"},
	"internal/app/ladder":          {"internal/app/capture", "internal/app/units", "internal/core/calllog", "internal/core/faults", "wire/"},
	"internal/app/live":            {"internal/core/observe", "internal/system/statsocket", "verbs", "verbs/driver"},
	"internal/app/manual":          {},
	"internal/app/notification":    {"internal/app/units", "verbs"},
	"internal/app/plots":           {},
	"internal/app/regbench":        {"regcache", "verbs"},
	"internal/app/explain":         {"verbs", "wire/"},
	"internal/app/export":          {"internal/core/observe", "internal/system/rdmasys", "internal/system/statsocket", "verbs", "verbs/driver"},
	"internal/app/sim":             {"internal/core/memory", "internal/core/clock", "internal/core/queue", "internal/engine/congestion", "internal/engine/ibta", "verbs", "verbs/driver", "wire/"},
	"internal/app/sim/scenario":    {"internal/app/sim", "internal/engine/congestion", "verbs"},
	"internal/app/units":           {},
	"internal/app/usage":           {},
	"internal/device/madclient":    {"internal/core/clock", "internal/engine/madagent", "verbs", "wire/"},
	"internal/device/cdevices":     {"internal/device/kinds", "verbs"},
	"cmd/ramjet":                   {"", "cm", "infiniband", "internal/app/", "internal/core/observe", "internal/core/softdev", "internal/device/", "internal/system/rdmasys", "internal/system/statsocket", "kernel", "rnet", "trace", "verbs", "verbs/driver"},

	"internal/app/perf/baseline": {},

	// Built with the tag cabi only, into a library: see cabi/build.sh.
	"cabi":          {"", "cm", "internal/core/calllog", "internal/core/check", "internal/device/cdevices", "internal/device/kinds", "internal/device/madclient", "rnet", "trace", "verbs", "wire/"},
	"cabi/programs": {},

	"checksuite":    {"checksuite/go"},
	"checksuite/go": {"", "cm", "rnet", "verbs"},
}

// rooms says who may import from a room of internal, whatever layers permits: product code nothing
// from testkit, engines nothing of the device around them, nobody but commands the applications.
var rooms = map[string][]string{
	"internal/app/":         {"cmd/ramjet", "internal/app/"},
	"internal/device/":      {"", "cabi", "cmd/ramjet", "internal/app/", "internal/device/"},
	"internal/core/":        {"cabi", "cm", "cmd/ramjet", "infiniband", "internal/app/capture", "internal/app/dash", "internal/app/demo", "internal/app/export", "internal/app/fabricconsole", "internal/app/fabriccontrol", "internal/app/ladder", "internal/app/live", "internal/app/sim", "internal/core/", "internal/device/", "internal/engine/", "internal/system/statsocket", "internal/testkit/", "iwarp", "kernel", "rdmatest", "roce", "roce1", "shm"},
	"internal/core/calllog": {"cabi", "cm", "internal/app/ladder", "internal/core/check", "internal/device/kinds"}, // C's calls are known in cabi
	"internal/core/check":   {"cabi", "internal/device/kinds", "rdmatest"},
	"internal/core/softdev": {"cmd/ramjet", "infiniband", "internal/testkit/", "iwarp", "roce", "roce1", "shm"},
	"internal/engine/":      {"cm", "infiniband", "internal/app/fabriccontrol", "internal/app/fabricview", "internal/app/sim", "internal/app/sim/scenario", "internal/core/fabric", "internal/core/softdev", "internal/device/madclient", "internal/engine/", "internal/engine/topology", "internal/testkit/", "iwarp", "rnet", "roce", "roce1", "shm"},
	"internal/system/":      {"cmd/ramjet", "infiniband", "internal/app/dash", "internal/app/demo", "internal/app/doctor", "internal/app/export", "internal/app/live", "internal/core/check", "internal/core/memory", "internal/core/softdev", "internal/device/kinds", "internal/system/", "internal/testkit/machines", "iwarp", "kernel", "regcache", "roce", "roce1", "shm"},
	"internal/testkit/":     {"internal/testkit/", "rdmatest"}, // which only tests import
}

// forbidden is what some packages, or all below a folder, may not import of the standard library, nor
// of others: wire depends on nothing, and engines have no clock, lock or socket.
var forbidden = map[string][]string{
	"wire/":                   {"github.com/", "golang.org/"},
	"internal/engine/":        {"net", "os", "sync", "math/rand", "math/rand/v2", "crypto/rand", "context", "golang.org/"},
	"internal/engine/rdmap":   {"time"},
	"internal/engine/rsocket": {"time"},
	"internal/core/memory":    {"net", "os/exec", "math/rand", "math/rand/v2", "sync"},
	"verbs":                   {"net", "os", "math/rand", "math/rand/v2", "golang.org/"},

	// What draws the numbers that peers must not guess has one source of them, crypto/rand.
	"internal/core/softdev": {"math/rand", "math/rand/v2"},
	"roce":                  {"math/rand", "math/rand/v2"},
	"roce1":                 {"math/rand", "math/rand/v2"},
}

// reach is what packages may depend on beyond this module, themselves or through others: modules,
// by their paths, and packages of the standard library that only some may reach. What stands in no
// row reaches none of these.
var reach = map[string][]string{
	"":     {"net", "crypto/tls", "github.com/pion/", "golang.org/x/sys"},
	"cm":   {"net"},
	"rnet": {"net"},

	"iwarp":                   {"crypto/tls", "github.com/pion/", "golang.org/x/sys", "net"},
	"roce":                    {"golang.org/x/sys", "net"},
	"roce1":                   {"golang.org/x/sys", "net"},
	"shm":                     {"golang.org/x/sys", "net"},
	"infiniband":              {"golang.org/x/sys", "net"},
	"internal/device/kinds":   {"crypto/tls", "github.com/pion/", "golang.org/x/sys", "net"},
	"kernel":                  {"net", "golang.org/x/sys", "github.com/ebitengine/purego"},
	"internal/system/ibverbs": {"github.com/ebitengine/purego"},

	"internal/core/memory":       {"golang.org/x/sys"},
	"internal/core/check":        {"golang.org/x/sys"},
	"internal/engine/ibta":       {"golang.org/x/sys"},
	"internal/engine/rdmap":      {"golang.org/x/sys"},
	"internal/engine/local":      {"golang.org/x/sys"},
	"internal/core/queue":        {"golang.org/x/sys"},
	"internal/core/fabric":       {"golang.org/x/sys"},
	"internal/system/ibsim":      {"golang.org/x/sys", "net"},
	"internal/core/pin":          {"golang.org/x/sys"},
	"internal/core/softdev":      {"golang.org/x/sys"},
	"internal/system/checkboard": {"golang.org/x/sys"},
	"internal/system/etherring":  {"golang.org/x/sys", "net"},
	"internal/system/forkmark":   {"golang.org/x/sys"},
	"internal/system/linkwatch":  {"golang.org/x/sys", "net"},
	"internal/system/netio":      {"golang.org/x/sys", "net"},
	"internal/system/portshare":  {"golang.org/x/sys", "net"},
	"internal/system/peercred":   {"golang.org/x/sys", "net"},
	"internal/system/mapwatch":   {"golang.org/x/sys"},
	"internal/system/pollwait":   {"golang.org/x/sys"},
	"internal/system/rdmasys":    {"net", "golang.org/x/sys"},
	"internal/system/runnable":   {"golang.org/x/sys"},
	"regcache":                   {"golang.org/x/sys"},
	"internal/system/shmem":      {"golang.org/x/sys"},
	"internal/system/statsocket": {"net", "golang.org/x/sys"},

	"internal/device/cdevices":     {"net", "crypto/tls", "github.com/pion/", "golang.org/x/sys"},
	"internal/app/connect":         {"net"},
	"internal/app/dash":            {"net", "crypto/tls", "golang.org/x/sys", "github.com/dustin/go-humanize"}, // tls: by net/http
	"internal/app/demo":            {"net", "crypto/tls", "os/exec", "github.com/pion/", "golang.org/x/sys", "github.com/dustin/go-humanize"},
	"internal/app/doctor":          {"net", "crypto/tls", "github.com/pion/", "golang.org/x/sys", "github.com/dustin/go-humanize"},
	"internal/app/export":          {"net", "crypto/tls", "golang.org/x/sys"}, // tls: by net/http
	"internal/app/fabriccontrol":   {"net", "golang.org/x/sys", "github.com/dustin/go-humanize"},
	"internal/app/fabricconsole":   {"net", "golang.org/x/sys", "golang.org/x/term", "github.com/dustin/go-humanize"}, // net: by x/sys on Windows
	"internal/app/filecopy":        {"net", "golang.org/x/sys"},
	"internal/app/ping":            {"net", "github.com/HdrHistogram/hdrhistogram-go", "github.com/dustin/go-humanize"},
	"internal/app/pingpong":        {"net", "github.com/dustin/go-humanize"},
	"internal/app/live":            {"net", "golang.org/x/sys"},
	"internal/app/localca":         {"net", "crypto/tls"},
	"internal/app/notification":    {"github.com/HdrHistogram/hdrhistogram-go", "github.com/dustin/go-humanize"},
	"internal/app/manual":          {"net", "github.com/spf13/", "github.com/inconshreveable/mousetrap"},
	"internal/app/regbench":        {"golang.org/x/sys"},
	"internal/app/sim":             {"golang.org/x/sys"},
	"internal/app/sim/scenario":    {"go.yaml.in/yaml/v3", "golang.org/x/sys"},
	"internal/app/perf":            {"net", "os/exec", "golang.org/x/sys", "github.com/HdrHistogram/hdrhistogram-go", "github.com/dustin/go-humanize"},
	"internal/app/perf/baseline":   {"net", "golang.org/x/sys"},
	"rdmatest":                     {"testing", "net", "os/exec", "crypto/tls", "github.com/pion/", "golang.org/x/sys"},
	"internal/testkit/conformance": {"testing", "net", "os/exec", "golang.org/x/sys"}, // by internal/testkit/loopback
	"internal/testkit/loopback":    {"testing", "net", "os/exec", "golang.org/x/sys"},
	"internal/testkit/captured":    {"testing"},
	"internal/testkit/machines":    {"testing", "net", "golang.org/x/sys"},
	"internal/testkit/testrun":     {"testing"},
	"internal/testkit/mutate":      {"os/exec"},
	"internal/testkit/tshark":      {"testing", "os/exec"},
	"internal/testkit/echo":        {"testing", "net"},
	"internal/testkit/exercise":    {"net", "crypto/tls"},
	"internal/testkit/codec":       {"testing"},
	"internal/testkit/pair":        {"testing"},
	"internal/testkit/softfabric":  {"testing", "net", "golang.org/x/sys"},
	"internal/testkit/simnet":      {"testing", "net", "golang.org/x/sys"},
	"cmd/ramjet": {"net", "crypto/tls", "os/exec", "github.com/pion/", "golang.org/x/", "github.com/ebitengine/purego", "github.com/HdrHistogram/hdrhistogram-go", "github.com/dustin/go-humanize",
		"charm.land/", "github.com/charmbracelet/", "github.com/clipperhouse/", "github.com/lucasb-eyer/go-colorful", "github.com/muesli/cancelreader", "github.com/xo/terminfo", // by bubbletea and lipgloss
		"github.com/jedib0t/go-pretty/v6", "github.com/mattn/go-runewidth", "github.com/rivo/uniseg", "github.com/spf13/", "github.com/inconshreveable/mousetrap",
		"go.yaml.in/yaml/v3", // by internal/app/sim/scenario
		"gonum.org/v1/plot", "codeberg.org/go-fonts/liberation", "codeberg.org/go-latex/latex", "codeberg.org/go-pdf/fpdf",
		"git.sr.ht/~sbinet/gg", "github.com/ajstarks/svgo", "github.com/golang/freetype"}, // by internal/app/plots
	"cabi": {"net", "crypto/tls", "github.com/pion/", "golang.org/x/sys"},

	"checksuite":    {"net", "crypto/tls", "os/exec", "github.com/pion/", "golang.org/x/sys"},
	"checksuite/go": {"net", "crypto/tls", "github.com/pion/", "golang.org/x/sys"},

	"internal/app/fabricview": {"github.com/dustin/go-humanize"},
	"internal/app/ladder":     {"github.com/dustin/go-humanize"},
	"internal/app/units":      {"github.com/dustin/go-humanize"},
	"internal/app/plots": {"gonum.org/v1/plot", "codeberg.org/go-fonts/liberation", "codeberg.org/go-latex/latex", "codeberg.org/go-pdf/fpdf",
		"git.sr.ht/~sbinet/gg", "github.com/ajstarks/svgo", "github.com/golang/freetype", "golang.org/x/"},
}

// scarce are the packages of the standard library that need a place in reach.
var scarce = []string{"net", "crypto/tls", "os/exec", "testing"}

// pkg is what `go list` says of a package, on all systems together; tests are not part of it.
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
	all := make(map[string]*pkg)
	for _, c := range []struct{ os, cgo, tags string }{{"linux", "0", ""}, {"linux", "1", "cabi"}, {"darwin", "0", ""}, {"windows", "0", ""}} {
		list := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Module,Imports,Deps,CgoFiles", "-tags", c.tags, "./...")
		list.Env = append(os.Environ(), "GOOS="+c.os, "CGO_ENABLED="+c.cgo) // listing needs no C compiler
		out, err := list.Output()
		if err != nil {
			t.Fatalf("%v: %v", list, err)
		}
		for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
			var p pkg
			if err := dec.Decode(&p); err != nil {
				t.Fatal(err)
			}
			had := all[p.ImportPath]
			if had == nil {
				all[p.ImportPath] = &p
				continue
			}
			had.Imports, had.Deps = append(had.Imports, p.Imports...), append(had.Deps, p.Deps...)
			had.CgoFiles = append(had.CgoFiles, p.CgoFiles...)
		}
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

// checkTable compares what packages need with what a table permits them; what it permits and nobody
// needs is as wrong.
func checkTable(t *testing.T, table map[string][]string, verb string, needs map[string]map[string]bool) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		for _, need := range slices.Sorted(maps.Keys(needs[name])) {
			if !slices.ContainsFunc(table[name], func(p string) bool { return allows(p, need) }) {
				t.Errorf("%q may not %s %q", name, verb, need)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		for _, p := range table[name] {
			used := false
			for need := range needs[name] {
				used = used || allows(p, need)
			}
			if !used {
				t.Errorf("%q does not %s %q: take the permission away", name, verb, p)
			}
		}
	}
}

func TestImports(t *testing.T) {
	all := packages(t)
	imports, reached := make(map[string]map[string]bool), make(map[string]map[string]bool)
	serves := make(map[string]map[string]bool) // by room: who imports from it
	for room := range rooms {
		serves[room] = make(map[string]bool)
	}
	for path, p := range all {
		name, ok := ours(path)
		if !ok {
			continue
		}
		if strings.HasPrefix(name, "examples/") || strings.HasPrefix(name, "docs/learn/") {
			checkExample(t, name, p)
			continue
		}
		if _, known := layers[name]; !known && len(p.Imports) > 0 {
			t.Errorf("package %q stands in no layer: give it a row here and a place in ARCHITECTURE.md", name)
		}
		inRoom := func(room string) bool { return allows(room, name) }
		if strings.HasPrefix(name, "internal/") && !slices.ContainsFunc(slices.Collect(maps.Keys(rooms)), inRoom) {
			t.Errorf("package %q is in no room of internal", name)
		}
		if len(p.CgoFiles) > 0 && name != "cabi" {
			t.Errorf("%s uses cgo", name)
		}
		imports[name], reached[name] = make(map[string]bool), make(map[string]bool)
		for _, i := range p.Imports {
			of, module := ours(i)
			if !module {
				for key, refused := range forbidden {
					if allows(key, name) && slices.ContainsFunc(refused, func(f string) bool { return allows(f, i) }) {
						t.Errorf("%q may not import %s", name, i)
					}
				}
				continue
			}
			imports[name][of] = true
			for room := range rooms {
				if allows(room, of) {
					serves[room][name] = true
				}
			}
		}
		for _, d := range p.Deps {
			of := all[d]
			switch {
			case of == nil: // such as C
			case of.Standard:
				if slices.Contains(scarce, d) {
					reached[name][d] = true
				}
			case of.Module != nil && of.Module.Path != module:
				reached[name][of.Module.Path] = true
			}
		}
	}
	for name := range layers {
		if imports[name] == nil {
			t.Errorf("there is no package %q: take its row away", name)
		}
	}
	checkTable(t, layers, "import", imports)
	checkTable(t, rooms, "serve", serves)
	checkTable(t, reach, "depend on", reached)
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
	for _, dir := range []string{"internal/engine/*", "internal/core/memory", "internal/core/queue", "wire/*"} {
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
