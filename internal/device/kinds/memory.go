// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"net/netip"

	"github.com/ramjet-rdma/ramjet/shm"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// memoryNaming names devices of shared memory by addresses, which need not be those of an interface.
// Without one there is the default address.
type memoryNaming struct{ ipNaming }

// unrecordedMemory is why shared memory is not recorded.
const unrecordedMemory = "shared memory has no packets to record: processes copy into each other's memory. " +
	"`ramjet stat` shows its queue pairs; to record what a program does, run it on a roce: device"

// Local returns the device of the default address.
func (memoryNaming) Local() ([]Local, error) {
	return []Local{{Address: shm.DefaultAddress, Up: true,
		GID: ib.GIDFromAddr(netip.MustParseAddr(shm.DefaultAddress))}}, nil
}

// IP parses the address.
func (n memoryNaming) IP(address string) (netip.Addr, bool) {
	if address == "" {
		address = shm.DefaultAddress
	}
	return n.ipNaming.IP(address)
}
