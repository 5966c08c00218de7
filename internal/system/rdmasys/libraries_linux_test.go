// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestNewer(t *testing.T) {
	for _, c := range []struct {
		version, than string
		want          bool
	}{
		{"GLIBC_2.34", "GLIBC_2.4", true}, {"GLIBC_2.4", "GLIBC_2.34", false}, {"GLIBC_2.34", "GLIBC_2.34", false},
		{"GLIBC_2.2.5", "GLIBC_2.2", true},
		{"GLIBC_2.0", "", true}, {"GLIBC_PRIVATE", "", false}, {"IBVERBS_1.1", "", false}, {"GLIBC_2.x", "", false},
	} {
		if got := newer(c.version, c.than); got != c.want {
			t.Errorf("%s is newer than %q: %v", c.version, c.than, got)
		}
	}
}

// environment returns the variables of a container with Ramjet's libraries.
func environment(name string) string {
	return map[string]string{"RAMJET_LIBS": "/opt/ramjet/lib", "LD_LIBRARY_PATH": "/opt/ramjet/lib:/usr/local/lib",
		"RAMJET_SYSFS": "/run/ramjet-sysfs", "LD_PRELOAD": "/opt/ramjet/lib/libx.so /gone.so",
		"KUBERNETES_SERVICE_HOST": "10.96.0.1"}[name]
}

// Libraries are said to load with a libc that is as new as they need, and not without it.
func TestInjected(t *testing.T) {
	host := &reader{os.DirFS("/"), &System{}}
	libc, version := host.libc()
	if version == "" {
		t.Skip("this system has no glibc")
	}
	text, err := fs.ReadFile(host.root, rooted(libc))
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("/proc/self/exe") // a static program needs no libc
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{rooted(libc): {Data: text}, "opt/ramjet/lib/libx.so": {Data: text},
		"opt/ramjet/lib/liby.so.1": {Data: []byte("no library, but a text")},
		"opt/ramjet/lib/README":    {}, "run/ramjet-sysfs/sys/class/infiniband/roce0/node_type": {},
		"opt/ramjet/lib/libz.so": {Data: program}}
	s := (&Source{Root: files, Env: environment}).Read()
	i := s.Injected
	if s.Container != "$KUBERNETES_SERVICE_HOST" || i == nil || i.Libc != libc || i.Version != version || !i.InPath ||
		!slices.Equal(i.Described, []string{"roce0"}) {
		t.Fatalf("%s, %+v", s.Container, i)
	}
	for _, want := range []struct {
		file, problem string
		preloaded     bool
	}{{"/opt/ramjet/lib/libx.so", "", true}, {"/opt/ramjet/lib/liby.so.1", "bad magic number", false},
		{"/opt/ramjet/lib/libz.so", "", false}, {"/gone.so", "file does not exist", true}} {
		at := slices.IndexFunc(i.Libraries, func(l Library) bool { return l.File == want.file })
		if at < 0 {
			t.Errorf("no %s in %+v", want.file, i.Libraries)
		} else if l := i.Libraries[at]; l.Preloaded != want.preloaded || (l.Problem == "") != (want.problem == "") ||
			!strings.Contains(l.Problem, want.problem) {
			t.Errorf("%+v, want %+v", l, want)
		}
	}
	if len(i.Libraries) != 4 {
		t.Errorf("%+v", i.Libraries)
	}
	if (&Source{Root: files, Env: func(string) string { return "" }}).Read().Injected != nil {
		t.Error("something is injected without the variables")
	}

	needy := i.Libraries[0].Needs // libc needs its loader, of the same version at most
	delete(files, rooted(libc))
	files["lib/ld-musl-"+multiarch+".so.1"] = &fstest.MapFile{}
	i = (&Source{Root: files, Env: environment}).Read().Injected
	if i.Version != "" || !strings.Contains(i.Libc, "musl") ||
		needy != "" && i.Libraries[0].Problem != "it needs glibc" {
		t.Errorf("with musl: %+v", i)
	}
}

// The least limit of a group and its ancestors counts, of either version.
func TestGroupLimits(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  Group
	}{
		"version 2": {fstest.MapFS{"proc/self/cgroup": file("0::/a/b\n"),
			"proc/self/mountinfo":          file("30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
			"sys/fs/cgroup/a/b/memory.max": file("max\n"), "sys/fs/cgroup/a/memory.max": file("1048576\n"),
			"sys/fs/cgroup/a/b/pids.max": file("7\n"),
			"sys/fs/cgroup/a/b/cpu.max":  file("150000 100000\n"),
			"sys/fs/cgroup/a/cpu.max":    file("max 100000\n")}, Group{1 << 20, 7, 1.5}},
		"version 1, in a container": {fstest.MapFS{"proc/self/cgroup": file(
			"4:memory:/pod/x\n3:cpu,cpuacct:/pod/x\n8:pids:/pod/x\n"),
			"proc/self/mountinfo": file("30 24 0:26 /pod/x /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n31 24 0:27 /pod/x /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n" +
				"32 24 0:28 /pod/x /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n"),
			"sys/fs/cgroup/pids/pids.max":                file("max\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":         file("50000\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_period_us":        file("100000\n")}, Group{-1, -1, 0.5}},
		"none": {fstest.MapFS{}, Group{-1, -1, -1}},
	} {
		if got := (&Source{Root: c.files}).Read().Group; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Looking at files of an image with any contents ends without a panic.
func FuzzLibrary(f *testing.F) {
	f.Add([]byte("\x7fELF"), []byte("\x7fELF\x02\x01\x01"), "/opt/ramjet/lib")
	f.Fuzz(func(_ *testing.T, library, libc []byte, folder string) {
		files := fstest.MapFS{"opt/ramjet/lib/libx.so": {Data: library}, "lib64/libc.so.6": {Data: libc}}
		(&Source{Root: files, Env: func(name string) string {
			if name == libsVariable || name == preloadVariable {
				return folder
			}
			return environment(name)
		}}).Read()
	})
}
