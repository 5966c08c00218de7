// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/check"
)

// Files that are no ELF files, and addresses that are nowhere, have no functions and no lines.
func TestUnknownCode(t *testing.T) {
	for _, path := range []string{"/nonexistent", "/proc/self/status", "/dev/null"} {
		got := moduleOf(path).frames(0x1234, path)
		if len(got) != 1 || got[0].Function != "??" || got[0].File != path+"+0x1234" || got[0].Line != 0 {
			t.Errorf("%+v", got)
		}
	}
	if got := describe([]uintptr{8}); len(got) != 1 || got[0].Function != "0x8" {
		t.Errorf("%+v", got)
	}
}

// A report shows the program's functions down to main.
func TestProgramsFrames(t *testing.T) {
	got := programs([]check.Frame{{Function: "ibv_post_send", File: "/usr/include/infiniband/verbs.h", Line: 3342},
		{Function: "post", File: "a.c", Line: 1}, {Function: "main", File: "a.c", Line: 2},
		{Function: "__libc_start_main"}})
	if len(got) != 2 || got[0].Function != "post" || got[1].Function != "main" {
		t.Errorf("%+v", got)
	}
	got = programs([]check.Frame{{Function: "work", File: "a.c", Line: 1},
		{Function: "??", File: "/lib/libc.so.6+0x1234"}})
	if len(got) != 1 || got[0].Function != "work" {
		t.Errorf("%+v", got)
	}
}
