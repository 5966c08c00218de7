// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// ErrAgain says that a port cannot take more now: the same batch is to be sent again.
var ErrAgain = errors.New("port is full for now")

// Port is the way of a device to its peers. Resolve, Connect, Disconnect, Send, Receive and
// the group calls come with the device's lock held; the others do not.
type Port interface {
	// Attr returns what verbs tells of the port, with its GID table.
	Attr() (verbs.PortAttr, []verbs.GIDEntry)
	// Follow has raise called for each event of the port, by another goroutine, until Close. The
	// device's lock is not held.
	Follow(raise func(verbs.EventType))
	Limits() Limits
	// Resolve checks an address vector and returns the port's route for it.
	Resolve(attr *verbs.AHAttr) (route any, err error)
	// Connect says that queue pairs are connected by a route, and Disconnect that none is
	// connected any more to the host that it leads to.
	Connect(route any)
	Disconnect(route any)
	// Backlog says how many bytes of a route's socket buffer are in use; false: nobody can
	// tell. What Limits.Window allows takes a quarter of that buffer at most.
	Backlog(route any) (bytes int, ok bool)

	// Send transmits a batch, or returns ErrAgain. Other errors mean that it is lost.
	Send(b *ibta.Batch) error
	// Receive calls deliver for each good packet that has arrived, without waiting. It
	// returns how many buffers it found, good or not.
	Receive(c *ibta.Counters, deliver func(*ib.Packet, *Arrival)) (int, error)
	// WantHeaders asks for arrivals that carry what a GRH needs.
	WantHeaders()
	JoinGroup(gid verbs.GID) error
	LeaveGroup(gid verbs.GID) error

	// Wait blocks until something arrives, the deadline passes or Wake is called; with
	// writable also until a Send may succeed again.
	Wait(writable bool) error
	SetDeadline(t time.Time)
	Wake()
	Close() error
}

// Refuser is a Port whose network says where nobody receives.
type Refuser interface {
	// Refused waits for that, or until ctx ends; see [verbs.GSI.Refused]. The device's lock is
	// not held.
	Refused(ctx context.Context, route any) error
}

// Limits are what a port can take.
type Limits struct {
	MaxPackets int // packets of a batch
	MaxBytes   int // bytes of a batch
	Window     int // bytes under way to one peer that sockets can be expected to hold
}

// Arrival is where a packet came from.
type Arrival struct {
	Src, Dst verbs.GID
	TOS, TTL uint8
	Length   int  // bytes of the transport packet
	IPv4     bool // carried by IPv4
}

// AppendGRH appends the 40 bytes that stand before a received datagram: a GRH, which for
// RoCEv2 is the IPv6 header; over IPv4 the IP header in the last 20 bytes
// (IBTA annex A17.4.5).
func (a *Arrival) AppendGRH(b []byte) []byte {
	const udpLen, protoUDP, nextHeaderBTH = 8, 17, 0x1b
	if !a.IPv4 {
		g := ib.GRH{IPVer: 6, TClass: a.TOS, PayLen: uint16(a.Length), NxtHdr: nextHeaderBTH, HopLmt: a.TTL, SGID: a.Src, DGID: a.Dst}
		return g.Append(b)
	}
	b = append(b, make([]byte, 20)...)
	start := len(b)
	b = append(b, 0x45, a.TOS)
	b = binary.BigEndian.AppendUint16(b, uint16(20+udpLen+a.Length))
	b = append(b, 0, 0, 0x40, 0, a.TTL, protoUDP, 0, 0)
	b = append(b, a.Src[12:]...)
	b = append(b, a.Dst[12:]...)
	h := b[start:]
	var sum uint32 // the C library tells IPv4 from IPv6 by the header's checksum
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum))
	return b
}
