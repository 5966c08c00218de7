// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// maxDepth is how many READs and atomics a queue pair answers at once, and may have in flight.
const maxDepth = 128

// port is the device's only port, which is always active.
type port struct{ addr netip.Addr }

// Ports: an address is one port.
func (l port) Ports() int { return 1 }

// Info returns the attributes of the port. The path MTU has no meaning for memory.
func (l port) Info(int) softdev.PortInfo {
	return softdev.PortInfo{
		PortAttr: verbs.PortAttr{State: verbs.PortActive, Link: verbs.LinkSharedMemory, MaxMTU: verbs.MTU4096,
			ActiveMTU: verbs.MTU4096},
		GIDTable:  []verbs.GIDEntry{{GID: ib.GIDFromAddr(l.addr), Type: verbs.GIDInfiniBand}},
		PKeyTable: softdev.OnePartition,
	}
}

// Follow has nothing to tell: nothing of the port changes.
func (l port) Follow(func(int, ...verbs.EventType)) {}
func (l port) StopFollowing()                       {}

// CheckRoute: every address is on this host.
func (l port) CheckRoute(_, _ netip.Addr) error { return nil }

// Resolve checks an address vector.
func (l port) Resolve(a *verbs.AHAttr) error {
	to := a.DGID.Addr()
	switch {
	case a.SGIDIndex != 0:
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid,
			Detail: fmt.Sprintf("SGIDIndex is %d, the GID table has row 0 only", a.SGIDIndex)}
	case to.IsMulticast():
		return nil // a group is a name, which any device can send to
	case a.DGID == verbs.GID{} || to.IsUnspecified():
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid,
			Detail: fmt.Sprintf("DGID %v is no address of a device", to)}
	case to.Is4() != l.addr.Is4():
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid,
			Detail: fmt.Sprintf("DGID %v cannot be reached from %v: one is IPv4, the other IPv6", to, l.addr)}
	}
	return nil
}

// Proposal returns the parameters that the device requests in the set-up of connections.
func (l port) Proposal() rdmap.Proposal {
	return rdmap.Proposal{ULPDU: rdmap.MaxULPDU, IRD: maxDepth, ORD: maxDepth}
}

// SetupTime is how long a queue pair waits that the peer is to dial, which no process says. On a busy host the peer's
// turn may be late.
func (l port) SetupTime() time.Duration { return 4 * time.Second }
