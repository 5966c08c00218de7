// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"fmt"
	"time"
)

// CommID is a communication ID: one manager's name for its side of a connection (section 12.6.2).
// The zero ID stands for none.
type CommID uint32

// ServiceID names the service of a listener (section 12.7.3). See [IPService] for ids of the RDMA IP CM
// service.
type ServiceID uint64

// Timeout is a time in five bits: 4.096 µs × 2^code (section 12.7.22 and others).
type Timeout uint8

// Duration returns the time that the code stands for, 4.096 µs to 2.4 hours.
func (t Timeout) Duration() time.Duration { return 4096 * time.Nanosecond << (t & 31) }

// TimeoutFor returns the code of the shortest time that is at least d, or 31, the longest, if there
// is none.
func TimeoutFor(d time.Duration) Timeout {
	t := Timeout(0)
	for t < 31 && t.Duration() < d {
		t++
	}
	return t
}

// Transport is the service type of the queue pairs to connect (section 12.7.6).
type Transport uint8

// The transports of a REQ. With 3 the extended transport type names it.
const (
	TransportRC       Transport = 0
	TransportUC       Transport = 1
	TransportRD       Transport = 2
	TransportExtended Transport = 3
)

// ExtendedXRC is the extended transport type of an XRC queue pair (annex A14).
const ExtendedXRC = 1

// Message is the message that an MRA or a REJ answers: two bits (sections 12.6.6.1 and 12.6.7.1).
type Message uint8

const (
	MessageREQ   Message = 0 // a REQ
	MessageREP   Message = 1 // a REP
	MessageOther Message = 2 // a REJ that answers no message in particular
	MessageLAP   Message = 2 // an MRA to a LAP
)

// Reason is why a request was rejected (section 12.6.7.2).
type Reason uint16

// The reasons, by the numbers of the specification's table.
const (
	RejNoQP                    Reason = 1
	RejNoEEC                   Reason = 2
	RejNoResources             Reason = 3
	RejTimeout                 Reason = 4
	RejUnsupportedRequest      Reason = 5
	RejInvalidCommID           Reason = 6
	RejInvalidCommInstance     Reason = 7
	RejInvalidServiceID        Reason = 8
	RejInvalidTransportType    Reason = 9
	RejStaleConnection         Reason = 10
	RejRDCDoesNotExist         Reason = 11
	RejPrimaryGID              Reason = 12
	RejPrimaryLID              Reason = 13
	RejPrimarySL               Reason = 14
	RejPrimaryTrafficClass     Reason = 15
	RejPrimaryHopLimit         Reason = 16
	RejPrimaryPacketRate       Reason = 17
	RejAlternateGID            Reason = 18
	RejAlternateLID            Reason = 19
	RejAlternateSL             Reason = 20
	RejAlternateTrafficClass   Reason = 21
	RejAlternateHopLimit       Reason = 22
	RejAlternatePacketRate     Reason = 23
	RejPortCMRedirect          Reason = 24
	RejPortRedirect            Reason = 25
	RejInvalidPathMTU          Reason = 26
	RejInsufficientResources   Reason = 27 // responder resources
	RejConsumer                Reason = 28 // the program's own; the ARI and the private data may say more
	RejRNRRetryCount           Reason = 29
	RejDuplicateLocalCommID    Reason = 30
	RejInvalidClassVersion     Reason = 31
	RejPrimaryFlowLabel        Reason = 32
	RejAlternateFlowLabel      Reason = 33
	RejVendorOptionUnsupported Reason = 35 // vendor option not supported
)

var reasons = [...]string{
	RejNoQP:                    "no QP available",
	RejNoEEC:                   "no EEC available",
	RejNoResources:             "no resources available",
	RejTimeout:                 "timeout",
	RejUnsupportedRequest:      "unsupported request",
	RejInvalidCommID:           "invalid communication ID",
	RejInvalidCommInstance:     "invalid communication instance",
	RejInvalidServiceID:        "invalid service ID",
	RejInvalidTransportType:    "invalid transport service type",
	RejStaleConnection:         "stale connection",
	RejRDCDoesNotExist:         "RDC does not exist",
	RejPrimaryGID:              "primary remote port GID rejected",
	RejPrimaryLID:              "primary remote port LID rejected",
	RejPrimarySL:               "invalid primary SL",
	RejPrimaryTrafficClass:     "invalid primary traffic class",
	RejPrimaryHopLimit:         "invalid primary hop limit",
	RejPrimaryPacketRate:       "invalid primary packet rate",
	RejAlternateGID:            "alternate remote port GID rejected",
	RejAlternateLID:            "alternate remote port LID rejected",
	RejAlternateSL:             "invalid alternate SL",
	RejAlternateTrafficClass:   "invalid alternate traffic class",
	RejAlternateHopLimit:       "invalid alternate hop limit",
	RejAlternatePacketRate:     "invalid alternate packet rate",
	RejPortCMRedirect:          "port and CM redirection",
	RejPortRedirect:            "port redirection",
	RejInvalidPathMTU:          "invalid path MTU",
	RejInsufficientResources:   "insufficient responder resources",
	RejConsumer:                "consumer reject",
	RejRNRRetryCount:           "RNR retry count rejected",
	RejDuplicateLocalCommID:    "duplicate local communication ID",
	RejInvalidClassVersion:     "invalid class version",
	RejPrimaryFlowLabel:        "invalid primary flow label",
	RejAlternateFlowLabel:      "invalid alternate flow label",
	RejVendorOptionUnsupported: "vendor option not supported",
}

// String returns the reason in words.
func (r Reason) String() string {
	if int(r) < len(reasons) && reasons[r] != "" {
		return reasons[r]
	}
	return fmt.Sprintf("reserved reason %d", uint16(r))
}

// SIDRStatus is the outcome of a service ID resolution (section 12.11.2.2).
type SIDRStatus uint8

const (
	SIDRValid              SIDRStatus = 0 // QPN and Q_Key are valid
	SIDRUnsupported        SIDRStatus = 1 // service ID not supported
	SIDRReject             SIDRStatus = 2 // rejected by the service provider
	SIDRNoQP               SIDRStatus = 3 // no QP available
	SIDRRedirect           SIDRStatus = 4 // the class port info says where to ask
	SIDRUnsupportedVersion SIDRStatus = 5 // unsupported class version
)

// String returns the status in words.
func (s SIDRStatus) String() string {
	switch s {
	case SIDRValid:
		return "valid QPN and Q_Key"
	case SIDRUnsupported:
		return "service ID not supported"
	case SIDRReject:
		return "rejected by the service provider"
	case SIDRNoQP:
		return "no QP available"
	case SIDRRedirect:
		return "redirected"
	case SIDRUnsupportedVersion:
		return "class version not supported"
	}
	return fmt.Sprintf("reserved SIDR status %d", uint8(s))
}
