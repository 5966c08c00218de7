// SPDX-License-Identifier: Apache-2.0

package cpcmd

import (
	"testing"
)

func TestParseTarget(t *testing.T) {
	for text, want := range map[string][2]string{
		"host:":            {"host:7175", ""},
		"host:dir/file":    {"host:7175", "dir/file"},
		"host:7:":          {"host:7", ""},
		"host:7:a:b":       {"host:7", "a:b"},
		"host:7":           {"host:7175", "7"},
		"host:7x:y":        {"host:7175", "7x:y"},
		"[fd00::1]:x":      {"[fd00::1]:7175", "x"},
		"[fd00::1]:9:x::y": {"[fd00::1]:9", "x::y"},
	} {
		if address, path, err := parseTarget(text); err != nil || [2]string{address, path} != want {
			t.Errorf("%q is %q %q, %v", text, address, path, err)
		}
	}
}
