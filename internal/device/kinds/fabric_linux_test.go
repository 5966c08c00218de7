// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
)

// The row of fabrics has the facts that an open device reports itself.
func TestFabricRow(t *testing.T) {
	f := softfabric.Start(t, "star:3")
	fabric := fmt.Sprintf("kinds-%d", os.Getpid())
	softfabric.Serve(t, f, fabric)
	if names := infiniband.Names(); !slices.Contains(names, fabric) {
		t.Errorf("fabrics %q, and not %q", names, fabric)
	}
	k, err := Find("infiniband")
	if err != nil {
		t.Fatal(err)
	}
	name := Name{k, "host-2?fabric=" + fabric}
	dev, err := Open(name.String(), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if dev.Name() != name.String() {
		t.Errorf("it is called %q, opened as %q", dev.Name(), name)
	}
	a := dev.Query()
	if a.Transport != k.Transport {
		t.Errorf("transport %v, the row says %v", a.Transport, k.Transport)
	}
	if guid, err := name.GUID(); err != nil || guid != a.NodeGUID {
		t.Errorf("GUID %x, %v, and %x of the device", guid, err, a.NodeGUID)
	}
	if ip, ok := name.IP(); !ok || ip != netip.MustParseAddr("198.18.0.2") {
		t.Errorf("address %v, %v", ip, ok)
	}
	byIP := Name{k, "198.18.0.2?fabric=" + fabric}
	if guid, err := byIP.GUID(); err != nil || guid != a.NodeGUID {
		t.Errorf("GUID by IP address: %x, %v", guid, err)
	}
	if free, err := SpareAdapters(fabric, 2); err != nil ||
		!slices.Equal(free, []string{"host-1?fabric=" + fabric, "host-3?fabric=" + fabric}) {
		t.Errorf("spare: %q, %v", free, err)
	}
	if _, err := SpareAdapters(fabric, 3); err == nil ||
		!strings.Contains(err.Error(), "3 active adapters are needed") {
		t.Errorf("more than there are: %v", err)
	}
}

// Without a fabric there is no device, and the error has a remedy.
func TestNoFabric(t *testing.T) {
	if _, err := SpareAdapters("nobody-runs-this", 1); !errors.Is(err, infiniband.ErrNoFabric) ||
		!strings.Contains(err.Error(), "ramjet fabric --fat-tree 4,2 --name nobody-runs-this") {
		t.Error(err)
	}
	if _, err := Open("infiniband:host-1?fabric=nobody-runs-this", &Options{}); !errors.Is(err,
		infiniband.ErrNoFabric) {
		t.Error(err)
	}
	if _, err := Open("infiniband:host-1?speed=1", &Options{}); err == nil ||
		!strings.Contains(err.Error(), "one option, fabric=NAME") {
		t.Error(err)
	}
}
