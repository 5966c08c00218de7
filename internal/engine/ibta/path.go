// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// PathKey identifies the peer at the other end of a path. Packets from there have the same key in their [Arrival], and
// packets from anywhere else another. The port fills in the fields by which its fabric tells peers apart; the engine
// and the device only compare keys.
type PathKey struct {
	GID  verbs.GID // of a peer that is addressed globally, as all are in RoCE
	LID  uint16    // on fabrics with LIDs
	Port uint8     // the local port
}

// Path is a port's path to a peer: the facts about it that only the port can know.
type Path interface {
	Key() PathKey
	// Full reports whether the peer's receive buffer is so full that another window ([Limits])
	// might overrun it. It returns false where the port cannot tell.
	Full() bool
	// Holds reports whether packets sent by the path are still on this host: the system has not sent them,
	// or a peer here has not read them. It returns false where the port cannot tell.
	Holds() bool
}

// Arrival holds the facts that the port has about a received packet beyond its transport headers.
type Arrival struct {
	From     PathKey   // the sender
	To       verbs.GID // the destination, of a global packet
	Global   bool      // the packet has a GRH, or an IP header in its place
	SL       uint8     // service level
	PathBits uint8     // low bits of the LID that it was sent to
	Header   Header    // of a global packet
	Marked   bool      // it met congestion: a router or switch on the way marked it
	Comment  string    // the receiver's, for a recording of the packet
}

// Header is the network header of a received packet.
type Header interface {
	// AppendGRH appends the 40 bytes that a datagram leaves in front of its payload.
	AppendGRH(b []byte) []byte
}

// Limits are the limits of a port.
type Limits struct {
	MaxPackets int // packets of one send
	MaxBytes   int // bytes of one send
	Window     int // bytes in flight to one peer that buffers on the path can be expected to hold
	Overhead   int // bytes of such a buffer that a packet takes beyond its payload
	// LinkOverhead is how many bytes of a link a packet takes beyond its payload; 0: Overhead.
	LinkOverhead int

	// SteeringBits is how many top bits of the destination's number steer a send to its receiver,
	// 8 at most. All packets of a send have them in common.
	SteeringBits uint8
}

// Vector is an address vector that the device has resolved.
type Vector struct {
	Attr verbs.AHAttr
	Flow *Flow // of the peer's host
	Path Path
	Key  PathKey // of the path

	fullSince clock.Time // when its peer's buffer was found full; 0: it was not
}

// same reports whether packets to v and to w can leave in one send.
func (v *Vector) same(w *Vector) bool { return v.Flow == w.Flow && v.Attr == w.Attr }
