// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
)

func TestTopArguments(t *testing.T) {
	for _, c := range []struct {
		args    []string
		status  int
		problem string
	}{
		{[]string{"top", "--sort", "byte"}, cli.ExitUsage, "did you mean bytes?"},
		{[]string{"top", "--interval", "1ms"}, cli.ExitUsage, "the shortest is 100ms"},
		{[]string{"top", "kv"}, cli.ExitUsage, `"kv" is not a process id`},
		{[]string{"top"}, cli.ExitFailed, "`ramjet stat --watch`"},
	} {
		ramjetCmd(t, c.args...).wantError(t, c.status, c.problem)
	}
}
