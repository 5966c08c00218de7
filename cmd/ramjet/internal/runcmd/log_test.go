// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCallLogEnvironment: the log and its filter reach the program, and a typing error does not.
func TestCallLogEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls.%p")
	for _, c := range []struct {
		log, filter string
		env, want   []string
	}{
		{"", "", nil, nil},
		{"-", "", nil, []string{"RAMJET_LOG=-"}},
		{"", "errors", nil, []string{"RAMJET_LOG_FILTER=errors", "RAMJET_LOG=-"}},
		{file, "ibv_*_qp json", nil, []string{"RAMJET_LOG_FILTER=ibv_*_qp json", "RAMJET_LOG=" + file}},
		{"", "", []string{"RAMJET_LOG=" + file}, []string{"RAMJET_LOG=" + file}},
	} {
		if got, err := callLogEnvironment(c.log, c.filter, c.env); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q, %q: %q, %v", c.log, c.filter, got, err)
		}
	}
	for _, c := range []struct {
		log, filter string
		env         []string
		want        string
	}{
		{"-", "errors ibv_creat_qp", nil, `--log-filter: column 8: "ibv_creat_qp": expected a call`},
		{"-", "", []string{"RAMJET_LOG_FILTER=erors"}, `RAMJET_LOG_FILTER: column 1: "erors": expected a call`},
		{filepath.Join(t.TempDir(), "none", "calls"), "", nil, "--log: open "},
	} {
		_, err := callLogEnvironment(c.log, c.filter, c.env)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q, %q: %v", c.log, c.filter, err)
		}
	}
	if _, err := os.Stat(strings.ReplaceAll(file, "%p", "x")); err == nil {
		t.Error("a log was left behind")
	}
}
