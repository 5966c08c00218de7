// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/device/cdevices"
)

// Programs find a device of any kind and options by its address.
func TestAddrOf(t *testing.T) {
	for address, want := range map[string]string{
		"roce:192.0.2.7":   "192.0.2.7",
		"iwarps:192.0.2.7": "192.0.2.7",
		"iwarp:192.0.2.7?congestion=cubic&fpdu=1460": "192.0.2.7",
		"roce:fe80::1%lo":             "fe80::1",
		"iwarp+sctp:::ffff:192.0.2.7": "192.0.2.7",
		"nonsense:192.0.2.7":          "",
		"roce:":                       "",
	} {
		got, ok := addrOf(cdevices.Device{Address: address})
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%s: %v, %v; want %q", address, got, ok, want)
		}
	}
}
