// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
)

func TestStatArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args    []string
		problem string
	}{
		{[]string{"stat", "qpp"}, "did you mean qp?"},
		{[]string{"stat", "everything"}, "there are summary, link, resource"},
		{[]string{"stat", "qp", "mr"}, "one view at a time"},
		{[]string{"stat", "0"}, `"0" is not a process id`},
		{[]string{"stat", "99999999999"}, "is not a process id"},
		{[]string{"stat", "qp", "--json"}, "leave out qp"},
		{[]string{"stat", "--watch=now"}, "is not a time"},
		{[]string{"stat", "--watch", "2s"}, "write --watch=2s"},
	} {
		if r := ramjetCmd(t, c.args...); r.status != cli.ExitUsage || !strings.Contains(r.stderr, c.problem) {
			t.Errorf("%v: %+v", c.args, r)
		}
	}
}
