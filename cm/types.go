// SPDX-License-Identifier: Apache-2.0

package cm

import "github.com/ramjet-rdma/ramjet/verbs"

// PortSpace is the kind of ports that an [ID] has, and with it the kind of queue pair that it connects.
// The values are librdmacm's (enum rdma_port_space), and go over the wire in the service id
// (IBTA annex A11.2).
type PortSpace uint16

const (
	IPoIB PortSpace = 0x0002 // datagrams to IPoIB's multicast groups: UD
	TCP   PortSpace = 0x0106 // connections: RC
	UDP   PortSpace = 0x0111 // datagrams: UD
	IB    PortSpace = 0x013f // connections: RC, UC or XRC
)

// String returns the port space's name.
func (p PortSpace) String() string {
	switch p {
	case IPoIB:
		return "IPOIB"
	case TCP:
		return "TCP"
	case UDP:
		return "UDP"
	case IB:
		return "IB"
	}
	return "unknown"
}

// Limits of private data in bytes (librdmacm's: the space in the messages of IBTA 12.6, less the IP
// header of annex A11).
const (
	MaxConnectData   = 56  // Connect of connections
	MaxAcceptData    = 196 // Accept of connections
	MaxRejectData    = 148 // Reject of connections
	MaxConnectDataUD = 180 // Connect of datagram services
	MaxAcceptDataUD  = 136 // Accept and Reject of datagram services
)

// UDPQKey is the queue key of queue pairs of the UDP and IPoIB port spaces, unless they
// say otherwise (RDMA_UDP_QKEY).
const UDPQKey verbs.QKey = 0x01234567

// Unlimited requests as many READs and atomics as both devices support (RDMA_MAX_RESP_RES,
// RDMA_MAX_INIT_DEPTH).
const Unlimited = 0xff

// ConnParam holds the parameters that the two sides of a connection exchange (rdma_conn_param). In
// [ID.Connect] and [ID.Accept] it holds this side's parameters, in an [Event] the peer's, seen from
// this side: the peer's initiator depth is our ResponderResources.
type ConnParam struct {
	PrivateData []byte
	// READs and atomics of the peer that are answered at once; Unlimited: the device's maximum
	ResponderResources uint8
	InitiatorDepth     uint8     // READs and atomics in flight to the peer; Unlimited: the device's maximum
	FlowControl        bool      // the device has end-to-end flow control (carried, without effect)
	RetryCount         uint8     // 0 to 7: how often both queue pairs retransmit packets that are not acknowledged
	RNRRetryCount      uint8     // 0 to 7, 7: unlimited: how often the peer retries when we have no receive posted
	SRQ                bool      // the queue pair has a shared receive queue; ignored if the ID created the queue pair
	QPNum              verbs.QPN // the queue pair; ignored if the ID created it
}

// DefaultConnParam takes the place of a nil *ConnParam.
var DefaultConnParam = ConnParam{ResponderResources: Unlimited, InitiatorDepth: Unlimited, RetryCount: 7,
	RNRRetryCount: 7}

// UDParam is the answer of a datagram service to a peer that looked it up (rdma_ud_param).
type UDParam struct {
	PrivateData []byte
	AH          verbs.AHAttr // the path to it, or to the multicast group
	QPN         verbs.QPN
	QKey        verbs.QKey
}
