// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"fmt"
	"net/netip"
)

// QPN is a queue pair number: 24 bits (section 10.2).
type QPN uint32

// Well-known queue pair numbers (chapters 3 and 10).
const (
	QP0          QPN = 0        // subnet management
	QP1          QPN = 1        // general services, the connection manager among them
	QPNMulticast QPN = 0xffffff // destination of multicast datagrams
)

// Key is a memory key, an L_Key or an R_Key: 32 bits (section 10.6).
type Key uint32

// QKey is the queue key of a datagram QP: 32 bits (section 10.2). A key with
// the top bit set is a controlled one, see [QKey.Controlled].
type QKey uint32

// QKeyGSI is the queue key of QP1.
const QKeyGSI QKey = 0x8001_0000

// Controlled reports whether an unprivileged consumer must not send with this key: a send request
// that names such a key uses the key of its QP instead (section 10.2).
func (k QKey) Controlled() bool { return k&0x8000_0000 != 0 }

// PKey is a partition key: 15 bits of partition, and above them the membership bit, set for full
// members (section 10.9).
type PKey uint16

// DefaultPKey is full membership in the default partition, the only partition
// key that RoCE uses (section 10.9, annex A17).
const DefaultPKey PKey = 0xffff

// fullMember is the membership bit (section 10.9.1.1).
const fullMember PKey = 0x8000

// Match reports whether a packet with key k may be received under key l: they have the same
// partition, and at least one is a full member (section 10.9).
func (k PKey) Match(l PKey) bool {
	return k.Base() == l.Base() && (k|l)&fullMember != 0 && k.Base() != 0
}

// Base returns the 15 bits of the partition, without the membership (section 10.9.1.1).
func (k PKey) Base() PKey { return k &^ fullMember }

// Full returns the key of a full member of the partition (section 10.9.1.1).
func (k PKey) Full() PKey { return k | fullMember }

// GID is a global identifier: an IPv6 address, or in RoCEv2 an IPv4 address
// in its mapped form ::ffff:a.b.c.d (section 4.1.1, annex A17).
type GID [16]byte

// GIDFromAddr returns the GID of an IP address; IPv4 addresses are mapped and
// zones dropped. The zero Addr gives the zero GID.
func GIDFromAddr(a netip.Addr) GID {
	if !a.IsValid() {
		return GID{}
	}
	return a.As16()
}

// Addr returns the IP address of g: an IPv4 address if g is a mapped one.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// String formats g as eight groups of four digits, as InfiniBand tools do.
func (g GID) String() string {
	return fmt.Sprintf("%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x",
		g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15])
}
