// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/cnames"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Kind is the effect of a fault.
type Kind uint8

const (
	Loss       Kind = iota // a packet is lost
	Duplicate              // a packet comes twice
	Reorder                // a packet is overtaken by the packets that follow within a time
	Corrupt                // a packet has a wrong CRC
	Delay                  // packets take longer
	Rate                   // packets take as long as on a slow link
	Partition              // nothing passes to and from a peer
	Down                   // the port is down
	RNR                    // a message finds no receive
	Fail                   // a call returns an errno
	Complete               // a work request completes with a status
	Late                   // a completion comes later
	Raise                  // an asynchronous event
	Reject                 // a request for a connection is rejected
	Disconnect             // a connection ends
	kinds
)

// kindNames are the words that lines begin with.
var kindNames = [kinds]string{"loss", "duplicate", "reorder", "corrupt", "delay", "rate", "partition", "down", "rnr",
	"fail", "complete", "late", "event", "reject", "disconnect"}

func (k Kind) String() string { return kindNames[k] }

// Names returns the words that faults begin with.
func Names() []string { return slices.Clone(kindNames[:]) }

// OfPackets reports whether a kind concerns single packets of the network.
func (k Kind) OfPackets() bool { return k <= Down }

// Way is a direction.
type Way uint8

const (
	Both Way = iota
	Sent
	Received
)

// Span is a range of numbers, from First to Last; a Last of 0 is open.
type Span struct{ First, Last uint64 }

// Fault is one line of a text of faults. Selectors that are zero select everything.
type Fault struct {
	Kind Kind

	Delay, Jitter time.Duration   // of Reorder, Delay and Late
	Bits          int64           // of Rate: bits a second
	Call          string          // of Fail: the function of libibverbs, without its prefix
	Errno         string          // of Fail: its name
	Op            string          // of Complete: the operation
	Status        verbs.Status    // of Complete
	Reason        uint16          // of Reject: why (IBTA 12.6.7.2)
	Event         verbs.EventType // of Raise and Disconnect

	Way     Way
	Peer    netip.Prefix // invalid: any
	LID     uint16       // of the peer
	QPN     uint32
	Ordinal uint64 // of the queue pair, in the order of creation, from 1
	Device  string // its name, or its kind
	Message string // of packets

	Chance float64 // 0: it does not depend on chance
	Nth    []Span  // which of the selected ones; none: any
	Every  uint64
	Times  uint64 // it strikes so often at most; 0: any number
	After  time.Duration
	Until  time.Duration // 0: for ever
}

// always reports whether a fault strikes all that it selects.
func (f *Fault) always() bool { return f.Chance == 0 && f.Nth == nil && f.Every == 0 }

// errnos are the errors that calls can return.
var errnos = []struct {
	name  string
	errno syscall.Errno
	is    error // with which Go programs compare; nil: the errno alone
}{
	{"ENOMEM", syscall.ENOMEM, verbs.ErrNoMemory},
	{"EINVAL", syscall.EINVAL, verbs.ErrInvalid},
	{"EAGAIN", syscall.EAGAIN, nil},
	{"EBUSY", syscall.EBUSY, verbs.ErrBusy},
	{"EPERM", syscall.EPERM, verbs.ErrPermission},
	{"EACCES", syscall.EACCES, nil},
	{"EFAULT", syscall.EFAULT, verbs.ErrFault},
	{"EIO", syscall.EIO, nil},
	{"ENODEV", syscall.ENODEV, nil},
	{"ENOENT", syscall.ENOENT, verbs.ErrNotFound},
	{"ENOSPC", syscall.ENOSPC, nil},
	{"EOPNOTSUPP", syscall.EOPNOTSUPP, verbs.ErrNotSupported},
	{"ETIMEDOUT", syscall.ETIMEDOUT, nil},
	{"ENETUNREACH", syscall.ENETUNREACH, nil},
	{"EHOSTUNREACH", syscall.EHOSTUNREACH, nil},
	{"EINTR", syscall.EINTR, nil},
}

// Calls are the functions that can fail, without the prefix of libibverbs or librdmacm.
var Calls = []string{"resolve_addr", "resolve_route", "alloc_pd", "reg_mr", "rereg_mr", "alloc_mw", "create_ah",
	"create_cq", "resize_cq", "req_notify_cq", "create_srq", "modify_srq", "create_qp",
	"modify_qp", "post_send", "post_recv", "post_srq_recv"}

// Ops are the operations whose completions can be changed.
var Ops = []string{"any", "send", "write", "read", "compare_swap", "fetch_add", "atomic_write", "flush",
	"bind_mw", "local_inv", "recv"}

// Messages are the packets that `of` selects.
var Messages = []string{"send", "write", "read", "response", "atomic", "ack", "cnp", "other",
	"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "mad"}

// The names of enum ibv_wc_status and of enum ibv_event_type, without their prefixes.
var (
	statusPrefix, statusNames = cnames.Names("wc_status")
	eventPrefix, eventNames   = cnames.Names("event_type")
)

// EventOf is the kind of object that an event belongs to.
type EventOf uint8

const (
	OfPort EventOf = iota // or the device
	OfQP
	OfCQ
	OfSRQ
)

// consumerReject is the reason for a rejection by a program (IBTA 12.6.7.2).
const consumerReject = 28

// events reports whether a fault is something that happens by itself, or as work requests are posted.
func (k Kind) events() bool { return k == Raise || k == Disconnect }

// Owner returns the kind of object that an event belongs to.
func Owner(t verbs.EventType) EventOf {
	switch t {
	case verbs.EventCQError:
		return OfCQ
	case verbs.EventSRQError, verbs.EventSRQLimitReached:
		return OfSRQ
	case verbs.EventQPFatal, verbs.EventQPRequestError, verbs.EventQPAccessError, verbs.EventCommEstablished,
		verbs.EventSQDrained, verbs.EventPathMigrated, verbs.EventPathMigrateError, verbs.EventQPLastWQEReached,
		driver.EventQPBroken:
		return OfQP
	}
	return OfPort
}

// lasts reports whether a fault strikes everything from its beginning to its end.
func (k Kind) lasts() bool { return k == Down || k == Partition || k == Rate }

// unit returns the name of the events that a fault counts.
func (f *Fault) unit() string {
	switch f.Kind {
	case Fail:
		return f.Call + " calls"
	case Complete:
		if f.Op == "recv" {
			return "receives"
		}
		return "work requests"
	case Late:
		return "completions"
	case Raise, Disconnect:
		return "work requests"
	case Reject:
		return "requests"
	case RNR:
		return "messages"
	}
	return "packets"
}

// String returns the line of the fault, as Parse takes it.
func (f *Fault) String() string { return f.text(f.Nth) }

// text returns the line with other numbers.
func (f *Fault) text(nth []Span) string {
	var b strings.Builder
	word := func(format string, a ...any) { fmt.Fprintf(&b, " "+format, a...) }
	b.WriteString(f.Kind.String())
	switch f.Kind {
	case Reorder, Delay, Late:
		word("%v", f.Delay)
		if f.Jitter > 0 {
			word("%v", f.Jitter)
		}
	case Rate:
		word("%s", rateText(f.Bits))
	case Fail:
		word("%s %s", f.Call, f.Errno)
	case Complete:
		word("%s %s", f.Op, statusNames[f.Status])
	case Raise:
		word("%s", eventNames[f.Event])
	case Reject:
		word("%d", f.Reason)
	}
	if f.Chance > 0 && nth == nil {
		word("%s%%", strconv.FormatFloat(f.Chance*100, 'g', -1, 64))
	}
	if len(nth) > 0 {
		b.WriteString(" nth ")
		for i, s := range nth {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(s.String())
		}
	}
	if f.Every > 0 && nth == nil {
		word("every %d", f.Every)
	}
	switch f.Way {
	case Sent:
		word("sent")
	case Received:
		word("received")
	}
	switch {
	case f.Peer.IsValid() && f.Peer.IsSingleIP():
		word("peer %v", f.Peer.Addr())
	case f.Peer.IsValid():
		word("peer %v", f.Peer)
	}
	if f.LID != 0 {
		word("lid %d", f.LID)
	}
	if f.QPN != 0 {
		word("qp %#x", f.QPN)
	}
	if f.Ordinal != 0 {
		word("qp %s", ordinal(f.Ordinal))
	}
	if f.Message != "" {
		word("of %s", f.Message)
	}
	if f.Device != "" {
		word("device %s", f.Device)
	}
	if f.Times > 0 {
		word("times %d", f.Times)
	}
	if f.After > 0 {
		word("after %v", f.After)
	}
	if f.Until > 0 {
		word("until %v", f.Until)
	}
	return b.String()
}

// String returns the numbers: 3, 3-5, or 3-.
func (s Span) String() string {
	switch s.Last {
	case s.First:
		return strconv.FormatUint(s.First, 10)
	case 0:
		return fmt.Sprintf("%d-", s.First)
	}
	return fmt.Sprintf("%d-%d", s.First, s.Last)
}

// ordinal returns 1st, 2nd, 3rd, 4th.
func ordinal(n uint64) string {
	ending := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			ending = "st"
		case 2:
			ending = "nd"
		case 3:
			ending = "rd"
		}
	}
	return strconv.FormatUint(n, 10) + ending
}

// rateUnits are the units of rates, in bits a second.
var rateUnits = []struct {
	name string
	bits int64
}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

// rateText returns a rate with the largest unit in which it is a whole number.
func rateText(bits int64) string {
	for _, u := range rateUnits {
		if bits%u.bits == 0 {
			return fmt.Sprintf("%d%s", bits/u.bits, u.name)
		}
	}
	return ""
}
