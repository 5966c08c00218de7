// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/nvme"
)

// A list's namespaces come and go with its lines, and a list that is wrong changes nothing.
func TestList(t *testing.T) {
	sub, err := nvme.NewTarget(nvme.TargetOptions{}).AddSubsystem(nvme.SubsystemOptions{NQN: defaultNQN, AnyHost: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	d := &disks{sub: sub, block: 512, out: &out, open: map[uint32]*openFile{}, fixed: 1}
	defer d.close()
	if err := d.add(1, "memory:1MiB"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ list, says, err string }{
		{"# none yet\n\n", "", ""},
		{"7 memory:2MiB\n 3  memory:1MiB \n",
			"namespace 3: memory:1MiB, 1.0 MiB\nnamespace 7: memory:2MiB, 2.0 MiB\n", ""},
		{"7 memory:2MiB\n3 memory:1MiB", "", ""},
		{"7 memory:2MiB\nseven memory:1MiB\n", "",
			"list:2: \"seven memory:1MiB\": write a namespace's number and its file"},
		{"7\n", "", "write a namespace's number and its file"},
		{"0 a\n", "", "there are numbers from 1 to"},
		{"1 a\n", "", "namespace 1 is a file of the command line: take a number from 2 on"},
		{"7 a\n7 b\n", "", "list:2: namespace 7 is there twice"},
		{"3 memory:4MiB\n5 absent\n", "namespace 3: memory:1MiB, removed\nnamespace 7: memory:2MiB, removed\n" +
			"namespace 3: memory:4MiB, 4.0 MiB\n", "open absent: no such file"},
		{"", "namespace 3: memory:4MiB, removed\n", ""},
	} {
		if err := os.WriteFile("list", []byte(c.list), 0o600); err != nil {
			t.Fatal(err)
		}
		out.Reset()
		err := d.follow("list")
		if out.String() != c.says || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %q, %v", c.list, out.String(), err)
		}
	}
	if err := d.follow("absent"); err == nil {
		t.Error("a list that is not there")
	}
}

// A list that is read has files with numbers that a subsystem takes.
func FuzzList(f *testing.F) {
	for _, list := range []string{"", "# none\n", "7 a\n3  b c\n", "7\n", "0 a\n", "1 a", "7 a\n7 b\n",
		"4294967303 a"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		want, err := readList(strings.NewReader(list), "list", 1)
		if err != nil {
			return
		}
		for id, name := range want {
			if id < 2 || id > nvme.MaxNamespaces || name == "" || name != strings.TrimSpace(name) {
				t.Errorf("%d: %q", id, name)
			}
		}
	})
}
