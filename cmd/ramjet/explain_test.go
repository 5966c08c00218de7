// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/app/explain"
)

func TestExplain(t *testing.T) {
	r := ramjetCmd(t, "explain", "retry_exc_err")
	if r.status != 0 || !strings.HasPrefix(r.stdout, "IBV_WC_RETRY_EXC_ERR (12): transport retry counter exceeded\n") || !strings.Contains(r.stdout, "Usually:") {
		t.Errorf("%+v", r)
	}
	if r := ramjetCmd(t, "explain", "12"); !strings.Contains(r.stdout, "IBV_WC_RETRY_EXC_ERR") || !strings.Contains(r.stdout, "IB_CM_REJ_INVALID_GID") {
		t.Errorf("a number of several kinds: %+v", r)
	}
	if r := ramjetCmd(t, "explain", "retry", "error"); r.status != exitUsage || !strings.Contains(r.stderr, "IBV_WC_RETRY_EXC_ERR") {
		t.Errorf("%+v", r)
	}
	if r := ramjetCmd(t, "explain", "zzz"); r.status != exitUsage || !strings.Contains(r.stderr, "`ramjet explain` lists") {
		t.Errorf("%+v", r)
	}
	all := ramjetCmd(t, "explain", "--json")
	var in struct{ Entries []explain.Entry }
	err := json.Unmarshal([]byte(all.stdout), &in)
	list := in.Entries
	if err != nil || len(list) != len(explain.All()) {
		t.Errorf("%d entries, %v", len(list), err)
	}
	for _, e := range list {
		var b strings.Builder
		if err := writeExplained(&b, []explain.Entry{e}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if len(line) > 81 && strings.Contains(strings.TrimSpace(line), " ") && line != strings.SplitAfter(b.String(), "\n")[0] {
				t.Errorf("%s: a line of %d columns: %s", e.Name, len(line)-1, line)
			}
		}
	}
}
