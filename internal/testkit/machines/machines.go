// SPDX-License-Identifier: Apache-2.0

// Package machines has machines as their files show them, for tests of packages that read these.
//
// A machine is a text in testdata: its title, and its files, each after a line "-- path --". Sections in
// capitals have facts that no file has: ADDRS, addresses of interfaces; PFC, drivers' settings; OPEN, which
// device files cannot be opened; MEMLOCK, the limit; FILTERS, chains.
package machines

import (
	"embed"
	"errors"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
)

//go:embed testdata
var files embed.FS

// Names are the machines.
var Names = []string{"none", "guest", "mlx5-roce", "mlx5-ib", "container"}

// Source returns a machine.
func Source(t testing.TB, name string) *rdmasys.Source {
	t.Helper()
	text, err := files.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	root, said := fstest.MapFS{}, make(map[string][]string)
	section := ""
	for line := range strings.Lines(string(text)) {
		if p, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- "); ok {
			section = strings.TrimSuffix(p, " --")
			if section == strings.ToUpper(section) && !strings.HasPrefix(section, ".") {
				said[section] = []string{}
			} else {
				root[section] = &fstest.MapFile{Mode: 0o644}
			}
			continue
		}
		if f := root[section]; f != nil {
			f.Data = append(f.Data, line...)
		} else if section != "" {
			said[section] = append(said[section], strings.TrimSuffix(line, "\n"))
		}
	}
	return &rdmasys.Source{
		Root: root,
		Open: func(path string) error { return open(said["OPEN"], path) },
		Addrs: func() (map[string][]netip.Prefix, error) {
			found := make(map[string][]netip.Prefix)
			for _, line := range said["ADDRS"] {
				dev, p, _ := strings.Cut(line, " ")
				found[dev] = append(found[dev], netip.MustParsePrefix(p))
			}
			return found, nil
		},
		PFC: func(dev string) (*rdmasys.PFC, error) {
			for _, line := range said["PFC"] {
				if f := strings.Fields(line); f[0] == dev {
					return &rdmasys.PFC{Classes: number(t, f[1]), Enabled: uint8(number(t, f[2]))}, nil
				}
			}
			return nil, syscall.EOPNOTSUPP
		},
		Memlock: func() (rdmasys.Memlock, error) {
			m := rdmasys.Memlock{Known: true}
			if text := said["MEMLOCK"][0]; text == "unlimited" {
				m.Unlimited = true
			} else {
				m.Bytes = uint64(number(t, text))
			}
			return m, nil
		},
		Filters: func() (found []rdmasys.Filter, err error) {
			if said["FILTERS"] == nil {
				return nil, errors.New("they cannot be read as an ordinary user")
			}
			for _, line := range said["FILTERS"] {
				f := strings.Fields(line)
				found = append(found, rdmasys.Filter{Family: f[0], Table: f[1], Chain: f[2], Drops: f[3] == "drop"})
			}
			return found, nil
		},
	}
}

func number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func open(problems []string, path string) error {
	for _, line := range problems {
		if name, why, _ := strings.Cut(line, " "); strings.HasSuffix(path, "/"+name) {
			errno := map[string]error{"EACCES": syscall.EACCES, "EPERM": syscall.EPERM, "ENXIO": syscall.ENXIO}[why]
			return &fs.PathError{Op: "open", Path: path, Err: errno}
		}
	}
	return nil
}
