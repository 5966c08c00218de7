// SPDX-License-Identifier: Apache-2.0

package cm

import "net/netip"

// EventType is the kind of an [Event]. The order is librdmacm's (enum rdma_cm_event_type).
type EventType uint8

const (
	AddrResolved    EventType = iota // ResolveAddr has found the device and the peer's address
	AddrError                        // ResolveAddr failed
	RouteResolved                    // ResolveRoute has found the path
	RouteError                       // ResolveRoute failed
	ConnectRequest                   // a peer requests a connection: Event.ID is new, Accept or Reject it
	ConnectResponse                  // the peer accepted; the program owns the queue pair and calls Establish
	ConnectError                     // the connection could not be established, for a reason on this side
	Unreachable                      // the peer does not answer
	Rejected                         // the peer rejected the connection: Event.Err is a *RejectError
	Established                      // the connection is established
	Disconnected                     // it has ended, by either side, or because the peer is gone
	DeviceRemoval                    // the device was closed, and all its ids with it
	MulticastJoin                    // the group is joined; Event.UD says how to send to it
	MulticastError                   // it could not be joined, or was lost
	_                                // librdmacm's change of address: a software device keeps its own
	TimewaitExit                     // the connection's numbers can be used again: the queue pair may be
)

// String names the event, such as "connect request".
func (t EventType) String() string {
	names := [...]string{"address resolved", "address error", "route resolved", "route error", "connect request",
		"connect response", "connect error", "unreachable", "rejected", "established", "disconnected", "device removal",
		"multicast join", "multicast error", "unknown", "time wait exit"}
	if int(t) < len(names) {
		return names[t]
	}
	return "unknown"
}

// Event is something that happened to an [ID] (rdma_cm_event).
type Event struct {
	Type     EventType
	ID       *ID        // the id concerned; ConnectRequest: the new one
	Listener *ID        // ConnectRequest: the id that listens
	Err      error      // of AddrError, RouteError, ConnectError, Unreachable, Rejected, MulticastError
	Conn     ConnParam  // ConnectRequest, ConnectResponse, Established, Rejected, of connections: the peer's
	UD       UDParam    // ConnectRequest, Established, MulticastJoin of datagram services: the peer's or the group's
	Group    netip.Addr // MulticastJoin, MulticastError
}
