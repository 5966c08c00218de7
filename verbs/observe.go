// SPDX-License-Identifier: Apache-2.0

package verbs

import "net/netip"

// Observable is a [Driver] that lists its objects for observers, a page at a time.
//
// Each method fills page and returns how many objects it wrote there, and the position of the next
// page. The position of the first page is [FirstPage]; 0 is behind the last page. An object that is
// there during the whole listing is on one of its pages, in rare cases on two. The order means nothing.
//
// The methods may be called at any time, as [Driver].Metrics may, and hold no lock for longer than it
// takes to copy a page. So pages are best short.
type Observable interface {
	ObserveQPs(page []QPInfo, at int) (n, next int)
	ObserveCQs(page []CQInfo, at int) (n, next int)
	ObserveMRs(page []MRInfo, at int) (n, next int)
}

// FirstPage is the position of the first page of a listing.
const FirstPage = int(^uint(0) >> 1)

// QPInfo is a queue pair, with the numbers of the objects that it was created with. The numbers tell
// objects of one device apart; 0 means that there is none.
type QPInfo struct {
	QPStats
	PD     uint32
	SendCQ uint32
	RecvCQ uint32
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
	Key    Key // local and remote
	PD     uint32
	Addr   uint64 // of the first byte, in SGEs and at peers
	Len    uint64 // bytes
	Access Access
}

// ConnInfo is an id of a connection manager: a connection, an attempt at one, or a listener.
type ConnInfo struct {
	State     string // such as "listening"
	PortSpace string // such as "TCP"
	Listening bool
	QPN       QPN // 0: none that the manager knows
	QPType    QPType
	Local     netip.AddrPort // invalid: none
	Peer      netip.AddrPort // invalid: none
}
