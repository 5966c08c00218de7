// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
)

// Connector is a [Device] whose queue pairs can be connected by address and port. Package cm connects them;
// programs use package cm. A driver embeds [UnsupportedConnector] where its network has less to say.
type Connector interface {
	// Connections calls the method of p that stands for the device's protocol, and returns its result. So the driver
	// chooses the protocol, and supplies the agent or the streams that it runs on.
	Connections(p Protocols) error
	// CheckRoute says at once whether the network has a route from one of the device's addresses to a peer's, which may
	// have a zone. It sends nothing: the peer need not exist. The error names the missing part.
	CheckRoute(from, to netip.Addr) error
	// LocatePeer returns the function that asks the network where a peer is before anything can be sent there, in
	// seconds at most, or says why it cannot; nil: there is nothing to find out.
	LocatePeer(gid verbs.GID) func(context.Context) error

	// Addrs returns the IP addresses that a port has besides its GIDs, on fabrics whose ports have LIDs and GIDs.
	Addrs(port int) []netip.Addr
	// Neighbor returns the GID of the port that has an IP address, as the neighbor table of an IP interface over
	// InfiniBand does (RFC 4391). It returns false if none is known. Paths to ports are the subnet
	// administrator's business.
	Neighbor(addr netip.Addr) (verbs.GID, bool)
}

// UnsupportedConnector answers for a network that accepts every address, knows where it is, and has no
// addresses but GIDs.
type UnsupportedConnector struct{}

func (UnsupportedConnector) CheckRoute(_, _ netip.Addr) error                 { return nil }
func (UnsupportedConnector) LocatePeer(verbs.GID) func(context.Context) error { return nil }
func (UnsupportedConnector) Addrs(int) []netip.Addr                           { return nil }
func (UnsupportedConnector) Neighbor(netip.Addr) (verbs.GID, bool)            { return verbs.GID{}, false }

// Protocols are the protocols of a connection manager.
type Protocols interface {
	// Datagrams is communication management by datagrams between queue pairs 1 (IBTA chapter 12).
	Datagrams(MADDevice) error
	// Streams is the set-up of MPA on streams (RFC 5044, RFC 6581).
	Streams(StreamDevice) error
}

// MADDevice is a [Device] with management datagrams.
type MADDevice interface {
	// OpenMAD registers an agent. ErrNotSupported: the port has no such queue pair; ErrBusy:
	// another agent has registered for one of the methods; ErrNoMemory: there are too many.
	OpenMAD(port int, qp verbs.QPN, spec umad.Spec) (MADAgent, error)
}

// MADAgent is a management agent of a driver.
type MADAgent = interface {
	// Send writes the agent's transaction id into requests; see [umad.Agent.Send].
	Send(to umad.Path, mad []byte) error
	Recv(ctx context.Context, mad []byte) (n int, from umad.Path, err error)
	// Transactions returns the upper half of the agent's transaction ids.
	Transactions() uint32
	// Claim, Release and IDs are for an agent of a connection manager that shares its address with connection managers
	// of other processes; see [umad.Agent.Claim].
	Claim(service, mask uint64) error
	Release(service uint64)
	IDs() (base, mask uint32)
	// Refused waits until the network reports that datagrams to an address are refused; see [umad.Agent.Refused].
	Refused(ctx context.Context, to verbs.AHAttr) error
	Close() error
}

// UnsupportedMADAgent answers for a [MADAgent] that has its address to itself, and whose network reports
// nothing.
type UnsupportedMADAgent struct{}

func (UnsupportedMADAgent) Claim(uint64, uint64) error { return nil }
func (UnsupportedMADAgent) Release(uint64)             {}
func (UnsupportedMADAgent) IDs() (base, mask uint32)   { return 0, 0 }
func (UnsupportedMADAgent) Refused(context.Context, verbs.AHAttr) error {
	return verbs.ErrNotSupported
}
