// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"path/filepath"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/captured"
)

// readFrames returns the RoCEv2 frames of a capture file.
func readFrames(tb testing.TB, name string) []captured.Frame {
	tb.Helper()
	return captured.RoCE(tb, filepath.Join("testdata", name))
}

// captures lists the capture files and the RoCEv2 frames in them.
var captures = []struct {
	name string
	mtu  int
}{
	{"roce-mtu1024.pcap", 1024},
	{"roce-mtu4096.pcap", 4096},
}
