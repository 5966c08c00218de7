// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"strings"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Numbers of the InfiniBand transport, which every kind of device uses.
type (
	QPN  = ib.QPN  // queue pair number, 24 bits
	PSN  = ib.PSN  // packet sequence number, 24 bits, compared modulo 2^24
	Key  = ib.Key  // local or remote key of a region or window (iWARP: steering tag)
	QKey = ib.QKey // queue key of datagrams; the top bit set means: use the QP's own
	PKey = ib.PKey // partition key
	GID  = ib.GID  // global identifier: an IPv6 address, or an IPv4 address mapped into one
)

// QPType is the transport service of a queue pair (IBTA 9.2).
type QPType uint8

const (
	RC     QPType = iota + 1 // reliable connected
	UC                       // unreliable connected
	UD                       // unreliable datagram
	XRCIni                   // extended reliable connected, initiator side (IBTA annex A14)
	XRCTgt                   // extended reliable connected, target side
)

// String returns the name in the specification, such as RC.
func (t QPType) String() string {
	return name([]string{"", "RC", "UC", "UD", "XRC_INI", "XRC_TGT"}, t)
}

// MTU is a path MTU in the encoding of the specification (IBTA 9.7.1.1).
type MTU uint8

const (
	MTU256  MTU = iota + 1 // 256 bytes
	MTU512                 // 512 bytes
	MTU1024                // 1024 bytes
	MTU2048                // 2048 bytes
	MTU4096                // 4096 bytes
)

// Bytes returns the payload bytes of a full packet.
func (m MTU) Bytes() int { return 128 << m }

// Valid reports whether m is one of the five path MTUs.
func (m MTU) Valid() bool { return m >= MTU256 && m <= MTU4096 }

// String returns the bytes, such as 4096.
func (m MTU) String() string { return name([]string{"", "256", "512", "1024", "2048", "4096"}, m) }

// MTUOf returns the path MTU of exactly n bytes.
func MTUOf(n int) (MTU, bool) {
	for m := MTU256; m <= MTU4096; m++ {
		if m.Bytes() == n {
			return m, true
		}
	}
	return 0, false
}

// Access is the set of accesses that a region, window or queue pair permits (IBTA 10.6.3).
type Access uint32

const (
	LocalWrite   Access = 1 << iota // the device may write: receive buffers, READ and atomic results
	RemoteWrite                     // needs LocalWrite
	RemoteRead                      //
	RemoteAtomic                    // needs LocalWrite
	MWBind                          // memory windows may be bound to the region
	ZeroBased                       // addresses of the region count from 0
	OnDemand                        // nothing is pinned; pages are resolved when they are used
	HugePages                       // the memory is, or is to be, in huge pages
	// lets a NIC write the bytes of different WRITEs in any order; devices in software ignore it
	RelaxedOrdering
	FlushGlobal     // FLUSH to global visibility is allowed (IBTA annex A19)
	FlushPersistent // FLUSH to persistence is allowed; the memory must be mapped from a file, see [CapFlushPersistent]
)

// String lists the flags' names.
func (a Access) String() string {
	return flagNames(uint32(a), "LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC", "MW_BIND",
		"ZERO_BASED", "ON_DEMAND", "HUGETLB", "RELAXED_ORDERING", "FLUSH_GLOBAL", "FLUSH_PERSISTENT")
}

// name returns names[v], or "unknown" for a value that has none.
func name[T ~uint8 | ~int](names []string, v T) string {
	if i := int(v); i >= 0 && i < len(names) && names[i] != "" {
		return names[i]
	}
	return "unknown"
}

// flagNames joins the names of the bits that are set.
func flagNames(v uint32, names ...string) string {
	var set []string
	for i, n := range names {
		if v&(1<<i) != 0 {
			set = append(set, n)
		}
	}
	if set == nil {
		return "none"
	}
	return strings.Join(set, "|")
}
