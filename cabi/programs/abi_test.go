// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// notExported are symbols of rdma-core's libraries that Ramjet's have not: what turns the
// kernel's structures into those of programs, and a private call for drivers. Nothing but
// rdma-core's own libraries has use for them.
var notExported = []string{
	"ibv_copy_ah_attr_from_kern@@IBVERBS_1.1", "ibv_copy_path_rec_from_kern@@IBVERBS_1.0", "ibv_copy_path_rec_to_kern@@IBVERBS_1.0",
	"ibv_copy_qp_attr_from_kern@@IBVERBS_1.0", "ibv_read_ibdev_sysfs_file@@IBVERBS_PRIVATE_34",
}

// Every symbol that the system's libraries have is there with its version. Left out are
// versions that have been replaced (with one @), which programs of before 2007 ask for.
func TestSymbols(t *testing.T) {
	dir := need(t, "nm")
	for _, lib := range []string{"libibverbs.so.1", "librdmacm.so.1"} {
		systems, err := filepath.Glob("/usr/lib/*/" + lib)
		if err != nil || len(systems) == 0 {
			t.Skip("the system has no " + lib)
		}
		ours := symbols(t, filepath.Join(dir, lib))
		for _, s := range symbols(t, systems[0]) {
			if strings.Contains(s, "@@") && !slices.Contains(ours, s) && !slices.Contains(notExported, s) {
				t.Errorf("%s: %s is missing", lib, s)
			}
		}
	}
}

// symbols returns what a library exports.
func symbols(t *testing.T, lib string) []string {
	t.Helper()
	out, err := exec.Command("nm", "-D", "--defined-only", "--with-symbol-versions", lib).Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 3 {
			names = append(names, strings.Replace(f[2], "ibv_register_driver@IBVERBS_1.1", "ibv_register_driver@@IBVERBS_1.1", 1))
		}
	}
	return names
}
