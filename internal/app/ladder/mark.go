// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// Mark is a set of remarkable properties of a packet.
type Mark uint32

// The marks.
const (
	Retransmission    Mark = 1 << iota // a request that was sent before
	NAK                                // the responder refused, or misses a packet
	RNR                                // the responder has no receive posted
	Lost                               // sent, and not received
	Gap                                // PSNs before it are not in the capture
	Repeated                           // a response that was sent before, or an acknowledgement of nothing new
	CongestionMark                     // a switch has set ECN's congestion experienced
	CongestionNotice                   // a CNP
	BadCRC                             // the ICRC or MPA's CRC is wrong
	Malformed                          // cannot be decoded
	Rejected                           // a connection was refused
	Terminated                         // an RDMAP Terminate
	Reset                              // a TCP reset, which some stacks end every connection with
	TCPRetransmission                  // TCP bytes that were seen before, or late
	NotCaptured                        // bytes of a TCP stream that the capture does not have
	Injected                           // by a fault that somebody asked for
	FailedCall                         // a call of the program has returned an error, or has not returned
	FailedCompletion                   // a work request has completed with an error, other than of being flushed
	marks             = iota
)

// markNames are the marks in words: one of them, several, and in JSON.
var markNames = [marks]struct{ one, many, json string }{
	{"retransmission", "retransmissions", "retransmission"},
	{"NAK", "NAKs", "nak"},
	{"RNR NAK", "RNR NAKs", "rnr_nak"},
	{"packet lost", "packets lost", "lost"},
	{"gap in the PSNs", "gaps in the PSNs", "psn_gap"},
	{"repeated response", "repeated responses", "repeated_response"},
	{"congestion mark", "congestion marks", "congestion_experienced"},
	{"CNP", "CNPs", "cnp"},
	{"wrong CRC", "wrong CRCs", "bad_crc"},
	{"malformed packet", "malformed packets", "malformed"},
	{"rejection", "rejections", "rejected"},
	{"termination", "terminations", "terminated"},
	{"TCP reset", "TCP resets", "tcp_reset"},
	{"TCP retransmission", "TCP retransmissions", "tcp_retransmission"},
	{"gap in a TCP stream", "gaps in TCP streams", "tcp_gap"},
	{"injected fault", "injected faults", "injected"},
	{"failed call", "failed calls", "failed_call"},
	{"failed completion", "failed completions", "failed_completion"},
}

// severe are the marks of failures. Others mean that something was slowed down.
const severe = NAK | Lost | BadCRC | Malformed | Rejected | Terminated | Retransmission | TCPRetransmission |
	FailedCall | FailedCompletion

// failed are the marks of faults that a connection does not always survive.
const failed = NAK | Malformed | Rejected | Terminated

// each calls do for every mark of the set.
func (m Mark) each(do func(i int)) {
	for i := range marks {
		if m&(1<<i) != 0 {
			do(i)
		}
	}
}

// Names returns the marks' names as in JSON.
func (m Mark) Names() []string {
	var names []string
	m.each(func(i int) { names = append(names, markNames[i].json) })
	return names
}

// Tally counts marks.
type Tally [marks]int

func (t *Tally) add(m Mark) { m.each(func(i int) { t[i]++ }) }

// Total returns how many marks there are.
func (t *Tally) Total() int {
	n := 0
	for _, c := range t {
		n += c
	}
	return n
}

// String returns the counts in words, such as "3 retransmissions, 1 NAK"; nothing if there are none.
func (t *Tally) String() string {
	var parts []string
	for i, n := range t {
		switch {
		case n == 1:
			parts = append(parts, "1 "+markNames[i].one)
		case n > 1:
			parts = append(parts, units.Count(n)+" "+markNames[i].many)
		}
	}
	return strings.Join(parts, ", ")
}
