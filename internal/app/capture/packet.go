// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Fabric is the fabric that carried a packet.
type Fabric uint8

// The fabrics.
const (
	RoCEv2 Fabric = iota + 1
	RoCEv1
	InfiniBand
	IWARP
)

func (f Fabric) String() string {
	switch f {
	case RoCEv2:
		return "RoCEv2"
	case RoCEv1:
		return "RoCE v1"
	case InfiniBand:
		return "InfiniBand"
	case IWARP:
		return "iWARP"
	}
	return fmt.Sprintf("fabric %d", uint8(f))
}

// Host is the source or the destination of packets: an IP address or a GID, or on InfiniBand a LID.
type Host struct {
	Addr netip.Addr
	LID  uint16
}

// String returns the address, or "LID 3".
func (h Host) String() string {
	if h.Addr.IsValid() {
		return h.Addr.String()
	}
	return fmt.Sprintf("LID %d", h.LID)
}

// Multicast reports whether h is a multicast group. Multicast LIDs begin at 0xc000 (IBTA volume 1, section 4.1.3);
// 0xffff is the permissive LID.
func (h Host) Multicast() bool {
	if h.Addr.IsValid() {
		return h.Addr.IsMulticast()
	}
	return h.LID >= 0xc000 && h.LID < 0xffff
}

// Packet is a packet of a capture. It is valid during the call that hands it over.
type Packet struct {
	Frame            int // the number of its frame; of an iWARP segment, of the frame with its last byte
	At               time.Time
	Fabric           Fabric
	From, To         Host
	FromPort, ToPort uint16 // of UDP or TCP
	Direction        Direction
	Comment          string // of an iWARP segment also that of an earlier frame with a part of it
	Wire             int    // bytes of the frame on the wire; 0 of a packet behind another one in its frame
	Missing          int    // bytes of the packet that the capture left out

	CE     bool   // the IP header says: congestion experienced (RFC 3168)
	BadCRC bool   // the ICRC, or MPA's CRC, is wrong
	Train  bool   // more packets follow in the same datagram, which the capture cut: the length is that of all
	Broken string // why nothing below could be decoded
	Sum    uint64 // the same for two sightings of one packet

	IB     ib.Packet // of all but iWARP; where bytes are missing, Payload is zeros from there on
	Stream *Item     // of iWARP
}

// Counts counts the packets that a decoder has seen.
type Counts struct {
	Frames    int
	Packets   int // of RDMA
	Other     int // frames of other protocols
	Truncated int // frames that the capture cut
	Fragments int // fragments of IP packets, which are not read
	Unread    int // frames of link types that are not known
	Links     map[LinkType]int
}
