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

// newer are symbols of releases after the system's, for programs that were built with these releases. The
// private ones are wanted by the libraries of drivers with which such programs are linked.
var newer = map[string][]string{
	"libibverbs.so.1": {
		"ibv_reg_mr_ex@@IBVERBS_1.15", "ibv_alloc_dmah@@IBVERBS_1.15", "ibv_dealloc_dmah@@IBVERBS_1.15",
		"ibv_dm_export_dmabuf_fd@@IBVERBS_1.16", "ibv_query_port_speed@@IBVERBS_1.16",
		"ibv_alloc_buf@@IBVERBS_1.17", "ibv_free_buf@@IBVERBS_1.17", "ibv_reg_buf_mr@@IBVERBS_1.17",
		"_ibv_query_comp_cntr_caps@@IBVERBS_1.18", "ibv_export_buf_dmabuf_fd@@IBVERBS_1.18",
		"ibv_read_comp_cntr@@IBVERBS_1.18", "verbs_set_ops@IBVERBS_PRIVATE_25",
		"verbs_register_driver_33@IBVERBS_PRIVATE_33", "ibv_cmd_get_context@IBVERBS_PRIVATE_57",
		"ibv_wr_opcode_str@IBVERBS_PRIVATE_59", "verbs_register_driver_64@IBVERBS_PRIVATE_64",
		"verbs_allow_disassociate_destroy@IBVERBS_PRIVATE_65", "ibv_query_gid_type@IBVERBS_PRIVATE_65",
	},
	"librdmacm.so.1": {
		"rdma_query_addrinfo@@RDMACM_1.4", "rdma_resolve_addrinfo@@RDMACM_1.4", "rdma_write_cm_event@@RDMACM_1.4",
		"repoll_wait@@RDMACM_1.5",
	},
}

// Every symbol that the system's libraries have is there with its version. Left out are
// versions that have been replaced (with one @), which programs of before 2007 ask for.
func TestSymbols(t *testing.T) {
	dir := need(t, "nm")
	for _, lib := range []string{"libibverbs.so.1", "librdmacm.so.1", "libibumad.so.3"} {
		systems, err := filepath.Glob("/usr/lib/*/" + lib)
		if err != nil || len(systems) == 0 {
			t.Skip("the system has no " + lib)
		}
		ours := symbols(t, filepath.Join(dir, lib))
		for _, s := range symbols(t, systems[0]) {
			if strings.Contains(s, "@@") && !slices.Contains(ours, s) {
				t.Errorf("%s: %s is missing", lib, s)
			}
		}
		for _, s := range newer[lib] {
			if !slices.Contains(ours, s) {
				t.Errorf("%s: %s is missing", lib, s)
			}
		}
	}
}

// symbols returns the symbols that a library exports.
func symbols(t *testing.T, lib string) []string {
	t.Helper()
	out, err := exec.Command("nm", "-D", "--defined-only", "--with-symbol-versions", lib).Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 3 {
			names = append(names, strings.Replace(f[2], "ibv_register_driver@IBVERBS_1.1",
				"ibv_register_driver@@IBVERBS_1.1", 1))
		}
	}
	return names
}
