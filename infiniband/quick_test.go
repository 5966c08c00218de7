// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
	"github.com/ramjet-rdma/ramjet/internal/testkit/conformance"
	"github.com/ramjet-rdma/ramjet/verbs"
)

var quickGroups byte

func TestQuick(t *testing.T) {
	top, err := topology.Star(250)
	if err != nil {
		t.Fatal(err)
	}
	run, err := fabric.New(top, &fabric.Options{NoManager: true})
	if err != nil {
		t.Fatal(err)
	}
	run.Manual()
	f := &Fabric{run}
	conformance.Run(t, conformance.Fixture{Open: func(t testing.TB) *verbs.Device {
		d, err := f.Open("", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}, Group: func() verbs.GID { quickGroups++; return verbs.GID{0: 0xff, 1: 0x12, 15: quickGroups} }, Join: func(testing.TB, *verbs.Device, verbs.GID) uint16 { return 0xc001 }})
}
