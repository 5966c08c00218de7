// SPDX-License-Identifier: Apache-2.0

package dashcmd

import (
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"testing"
)

func TestDashAddress(t *testing.T) {
	for listen, want := range map[string][2]string{
		"127.0.0.1:0": {"127.0.0.1:0", ""}, "192.0.2.7": {"192.0.2.7:0", ""}, "::1": {"[::1]:0", ""},
		"[::1]": {"[::1]:0", ""}, "[::1]:80": {"[::1]:80", ""},
		":8080": {":8080", ""}, "host.example:80": {"host.example:80", "host.example"},
		"host.example": {"host.example:0", "host.example"},
	} {
		if address, name, err := dashAddress(listen); err != nil || address != want[0] || name != want[1] {
			t.Errorf("%q: %q, %q, %v", listen, address, name, err)
		}
	}
	for _, listen := range []string{"", "a:b:c"} {
		if address, _, err := dashAddress(listen); err == nil || !cli.IsUsage(err) {
			t.Errorf("%q: %q, %v", listen, address, err)
		}
	}
}
