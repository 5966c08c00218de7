// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"net/netip"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Observer is a [Device] that lists its objects for observers, a page at a time.
//
// Each method fills page and returns how many objects it wrote there, and the position of the next
// page. The position of the first page is [FirstPage]; 0 is behind the last page. An object that is
// there during the whole listing is on one of its pages, in rare cases on two. The order means nothing.
//
// The methods may be called at any time, as [Device].Metrics may, and hold no lock for longer than it
// takes to copy a page. So pages are best short.
type Observer interface {
	ObserveQPs(page []QPInfo, at int) (n, next int)
	ObserveCQs(page []CQInfo, at int) (n, next int)
	ObserveMRs(page []MRInfo, at int) (n, next int)
	ObserveMWs(page []MWInfo, at int) (n, next int)
	ObserveSRQs(page []SRQInfo, at int) (n, next int)
	ObserveAHs(page []AHInfo, at int) (n, next int)
}

// FirstPage is the position of the first page of a listing.
const FirstPage = int(^uint(0) >> 1)

// QPInfo is a queue pair, with the numbers of the objects that it was created with. The numbers tell
// objects of one device apart; 0 means that there is none.
type QPInfo struct {
	verbs.QPStats
	PD     uint32
	SendCQ uint32
	RecvCQ uint32
	SRQ    uint32
	Failed string // the text of its Failure; empty: there was none
}

// CQInfo is a completion queue.
type CQInfo struct {
	Num      uint32
	Capacity int  // completions that fit
	Waiting  int  // completions that have not been polled
	Armed    bool // an event was requested, and has not been raised
	Overflow bool // completions were lost
}

// MRInfo is a memory region.
type MRInfo struct {
	Key    verbs.Key // local and remote
	PD     uint32
	Addr   uint64 // of the first byte, in SGEs and at peers
	Len    uint64 // bytes
	Access verbs.Access
}

// MWInfo is a memory window.
type MWInfo struct {
	Key    verbs.Key // with which peers use it while it is bound
	PD     uint32
	Type   verbs.MWType
	Region verbs.Key // of the region that it is bound to; 0: it is not bound
	Addr   uint64    // of the first byte, at peers
	Len    uint64    // bytes
	Access verbs.Access
}

// SRQInfo is a shared receive queue.
type SRQInfo struct {
	Num      uint32
	PD       uint32
	XRC      uint32 // the number that peers name; 0: it is not for XRC
	Capacity int    // receives that fit
	Limit    int    // an event is raised once fewer are posted; 0: none
}

// AHInfo is an address handle.
type AHInfo struct {
	PD   uint32
	DGID verbs.GID // zero: it has a LID only
	DLID uint16    // 0: the fabric has none
	SL   uint8
	Port int
}

// ConnInfo is an id of a connection manager: a connection, an attempt at one, or a listener.
type ConnInfo struct {
	State     string // such as "listening"
	PortSpace string // such as "TCP"
	Listening bool
	QPN       verbs.QPN // 0: none that the manager knows
	QPType    verbs.QPType
	Local     netip.AddrPort // invalid: none
	Peer      netip.AddrPort // invalid: none
	Failed    string         // why it failed; empty: it did not, or the manager does not say
}
