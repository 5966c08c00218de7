// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// ID is one end of a connection to be, a listener, or a datagram service (rdma_cm_id). Its
// calls start something and return; what becomes of it arrives as events. All of them may
// be made from several goroutines.
type ID struct {
	dev *verbs.Device
	ps  PortSpace
}

// NewID makes an id of a device whose events go to ch (rdma_create_id). ErrNotSupported if
// the device has no connection manager, ErrBusy if another part of this process uses it.
func NewID(ch *EventChannel, dev *verbs.Device, ps PortSpace) (*ID, error) {
	return nil, opErr("create_id", verbs.ErrNotSupported, "")
}

// Device returns the device of the id.
func (id *ID) Device() *verbs.Device { return id.dev }

// PortSpace returns what the id was made for.
func (id *ID) PortSpace() PortSpace { return id.ps }

// Bind gives the id a local address (rdma_bind_addr). An address that is not set or
// unspecified (0.0.0.0, ::) stands for the device's; port 0 for any port that is free.
// ErrNoAddr if the address is not the device's, ErrAddrInUse if the port is taken.
func (id *ID) Bind(addr netip.AddrPort) error { return nil }

// ResolveAddr finds the way to an address (rdma_resolve_addr), and binds the id if that has
// not happened: to src, or to any port if src is not set. AddrResolved or AddrError follows.
func (id *ID) ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) error { return nil }

// ResolveRoute finds the path to the resolved address (rdma_resolve_route). RouteResolved
// or RouteError follows.
func (id *ID) ResolveRoute(timeout time.Duration) error { return nil }

// Listen makes the id take connections to its address (rdma_listen), of which at most
// backlog wait to be accepted; more are rejected for lack of resources. 0 or less stands
// for 1024. Each arrives as a ConnectRequest, on the listener's channel.
func (id *ID) Listen(backlog int) error { return nil }

// Connect asks the resolved address for a connection, or, in the datagram port spaces, for
// the number of the queue pair behind it (rdma_connect). nil stands for DefaultConnParam.
//
// Established, Rejected, Unreachable or ConnectError follows; if the program owns the
// queue pair, ConnectResponse instead of the first.
func (id *ID) Connect(p *ConnParam) error { return nil }

// Accept takes the connection of a ConnectRequest (rdma_accept). nil stands for the
// peer's own wishes, as far as the device can. Depths are brought down to what the peer
// can do. Established follows.
func (id *ID) Accept(p *ConnParam) error { return nil }

// Reject turns the connection of a ConnectRequest down and tells the peer why
// (rdma_reject).
func (id *ID) Reject(privateData []byte) error { return nil }

// Establish completes a connection after ConnectResponse, once the program has brought its
// queue pair to RTS (rdma_establish).
func (id *ID) Establish() error { return nil }

// Notify tells the manager of an event of the queue pair that the program owns
// (rdma_notify): EventCommEstablished means that the peer is sending already, whatever
// became of its last message. Queue pairs that the id made need no such call.
func (id *ID) Notify(ev verbs.EventType) error { return nil }

// Disconnect ends the connection: the queue pair goes to the error state, work requests
// are flushed, and the peer is told (rdma_disconnect). Disconnected follows on both sides;
// here once the peer has answered or does not.
func (id *ID) Disconnect() error { return nil }

// CreateQP makes a queue pair that the manager takes through its states: INIT now, so that
// receives can be posted, RTR and RTS as the connection is made, ERR when it ends
// (rdma_create_qp). init.Type 0 stands for what the port space needs. Closing the id closes
// it.
func (id *ID) CreateQP(pd *verbs.PD, init verbs.QPInit) (*verbs.QP, error) { return nil, nil }

// QP returns the queue pair that CreateQP made, nil: none.
func (id *ID) QP() *verbs.QP { return nil }

// InitQPAttr returns what a queue pair that the program owns needs for its next state:
// Init, RTR or RTS (rdma_init_qp_attr).
func (id *ID) InitQPAttr(next verbs.QPState) (verbs.QPAttr, verbs.QPMask, error) {
	return verbs.QPAttr{}, 0, nil
}

// LocalAddr returns the id's own address and port, not valid: it has none yet.
func (id *ID) LocalAddr() netip.AddrPort { return netip.AddrPort{} }

// PeerAddr returns the other side's address and port, not valid: there is none.
func (id *ID) PeerAddr() netip.AddrPort { return netip.AddrPort{} }

// SetTOS sets the type of service of the connection's packets (RDMA_OPTION_ID_TOS). To be
// called before Connect or Accept.
func (id *ID) SetTOS(tos uint8) error { return nil }

// SetReuseAddr lets a port be bound that is bound already, unless somebody listens there
// (RDMA_OPTION_ID_REUSEADDR).
func (id *ID) SetReuseAddr(on bool) error { return nil }

// SetAckTimeout sets the local acknowledgement timeout, 4.096 µs × 2^t, of both sides'
// queue pairs (RDMA_OPTION_ID_ACK_TIMEOUT). To be called before Connect.
func (id *ID) SetAckTimeout(t uint8) error { return nil }

// JoinMulticast joins a group on behalf of the id's queue pair, if it has one
// (rdma_join_multicast); MulticastJoin or MulticastError follows. group is an IPv4 or IPv6
// multicast address.
func (id *ID) JoinMulticast(group netip.Addr) error { return nil }

// LeaveMulticast leaves a group (rdma_leave_multicast).
func (id *ID) LeaveMulticast(group netip.Addr) error { return nil }

// Migrate moves the id and its events that nobody has fetched to another channel
// (rdma_migrate_id). It waits for nobody.
func (id *ID) Migrate(ch *EventChannel) error { return nil }

// Close ends whatever the id does: a listener stops, with what waits to be accepted; a
// connection is disconnected without waiting for the peer; a request is rejected. Its queue
// pair is closed (rdma_destroy_id, rdma_destroy_qp). Closing twice is harmless.
func (id *ID) Close() error { return nil }
