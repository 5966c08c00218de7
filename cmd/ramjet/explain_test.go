// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/explain"
)

func TestExplain(t *testing.T) {
	r := ramjetCmd(t, "explain", "retry_exc_err")
	if r.status != 0 || !strings.HasPrefix(r.stdout, "IBV_WC_RETRY_EXC_ERR (12): transport retry counter exceeded\n") ||
		!strings.Contains(r.stdout, "Usually, the most frequent first:") {
		t.Errorf("%+v", r)
	}
	if r := ramjetCmd(t, "explain", "12"); !strings.Contains(r.stdout, "IBV_WC_RETRY_EXC_ERR") ||
		!strings.Contains(r.stdout, "IB_CM_REJ_INVALID_GID") {
		t.Errorf("a number of several kinds: %+v", r)
	}
	if r := ramjetCmd(t, "explain", "retry", "error"); r.status != cli.ExitUsage ||
		!strings.Contains(r.stderr, "IBV_WC_RETRY_EXC_ERR") {
		t.Errorf("%+v", r)
	}
	if r := ramjetCmd(t, "explain", "zzz"); r.status != cli.ExitUsage ||
		!strings.Contains(r.stderr, "`ramjet explain` lists") {
		t.Errorf("%+v", r)
	}
	all := ramjetCmd(t, "explain", "--json")
	var in struct{ Entries []explain.Entry }
	err := json.Unmarshal([]byte(all.stdout), &in)
	list := in.Entries
	if err != nil || len(list) != len(explain.All()) {
		t.Errorf("%d entries, %v", len(list), err)
	}
}

// A log comes on standard input, from "-" or as an argument of several lines. Its line is written before the meaning.
func TestExplainLog(t *testing.T) {
	log := "NCCL INFO Channel 00\n\x1b[31mNCCL WARN NET/IB : Got completion from peer 192.0.2.9<4711> with status=12 opcode=0 len=0 vendor err 129 (Recv) hca mlx5_0\x1b[0m\nncclSystemError\n"
	r := ramjetCmd(t, "explain", log)
	r.wantSuccess(t)
	for _, want := range []string{"Line 2 of 3 is the one that matters:", "  status        12: IBV_WC_RETRY_EXC_ERR",
		"vendor error  129 (0x81)", "peer          192.0.2.9", "ramjet doctor 192.0.2.9",
		"IBV_WC_RETRY_EXC_ERR (12): transport retry counter exceeded", "check: ", "mend: ",
		"Other lines that are known:", "line 3: NCCL: an error code"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if strings.Contains(r.stdout, "\x1b") {
		t.Errorf("an escape of a terminal: %q", r.stdout)
	}
	r = ramjetCmd(t, "explain", "--json", log)
	var got struct {
		Log     *explain.Found
		Entries []explain.Entry
	}
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || got.Log == nil || got.Log.Number != 2 ||
		len(got.Entries) == 0 || got.Entries[0].Name != "IBV_WC_RETRY_EXC_ERR" {
		t.Errorf("%v: %s", err, r.stdout)
	}
}
