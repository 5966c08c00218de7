// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"strings"
	"testing"
)

// A word that names no device is an error with its place; faults of a device that is never opened count among the
// faults that never struck.
func TestDevices(t *testing.T) {
	set, err := Parse("loss device roce\nfail reg_mr EIO device roec:192.0.2.1\nloss")
	if err != nil {
		t.Fatal(err)
	}
	known := func(name string) bool { return strings.HasPrefix(name, "roce") }
	err = set.CheckDevices(known, "a device")
	if err == nil || err.Error() != `line 2, column 24: "roec:192.0.2.1": expected a device` {
		t.Error(err)
	}
	set, _ = Parse("loss device unmet:1; loss device unmet:2; rnr device unmet; loss")
	if err := set.CheckDevices(func(string) bool { return true }, ""); err != nil {
		t.Error(err)
	}
	in := NewInjector(set, "unmet:1", NewLog(&strings.Builder{}))
	in.Begin()
	defer in.Finish()
	if got := set.unmet(); got != "loss device unmet:2: never struck: the process has not opened this device\n" {
		t.Errorf("%q", got)
	}
}
