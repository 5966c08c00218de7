// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Config has the parameters of an engine. Zero values stand for the defaults that are named.
type Config struct {
	// CAGUID identifies the adapter to peers (IBTA 12.7.9).
	CAGUID uint64
	// IDBase and IDMask restrict the local communication IDs, and the low halves of the transaction
	// IDs, to IDBase|(x&^IDMask), where IDMask has leading bits: several managers share an address.
	IDBase, IDMask uint32
	// Key is random and secret. Without it no peer can guess communication and transaction IDs. It
	// also makes them differ from the IDs of an earlier engine at the same address.
	Key [16]byte
	// AckDelay is how long the adapter may take to acknowledge (IBTA 12.7.33); 0: 15, which
	// is 134 ms.
	AckDelay mad.Timeout
	// MaxConnections limits connections in all states, including time wait; 0: 65536.
	MaxConnections int
}

// ListenParams describe a listener.
type ListenParams struct {
	Service mad.ServiceID
	// Mask has the bits of Service that a request must match; 0: all. Of several matching
	// listeners, the one with the most bits gets the request.
	Mask mad.ServiceID
	// Backlog limits the requests (REQ and SIDR_REQ) that were announced by an event and not
	// answered yet, and, if it is more than 128, the connections that were accepted and not
	// confirmed yet; 0: 128. A request that finds no room replaces one whose peer has been silent
	// for long, or one from an address that has most of the places. Otherwise it is dropped, and
	// its peer repeats it.
	Backlog int
	// ServiceTimeout is the time that an MRA gives to a peer that repeats its request while the
	// program decides (IBTA 12.7.25); 0: 21, which is 8.6 s.
	ServiceTimeout mad.Timeout
}

// ConnectParams describe a requested connection, with the names of the fields of a REQ. For an XRC
// initiator, which receives nothing, SRQ, ResponderResources and retry counts are not sent (annex
// A14).
type ConnectParams struct {
	To       verbs.AHAttr // the peer's queue pair 1
	LocalGID ib.GID
	LocalLID uint16 // on fabrics with LIDs, where To has the peer's
	Service  mad.ServiceID

	QPN                ib.QPN
	SRQ                bool
	Transport          mad.Transport // the zero value is RC
	ExtendedTransport  uint8         // if Transport is [mad.TransportExtended]: [mad.ExtendedXRC]
	StartingPSN        ib.PSN        // the first PSN that the message's receiver sends
	PathMTU            verbs.MTU
	PKey               ib.PKey // 0: the default partition
	ResponderResources uint8   // READs and atomics that we answer at once
	InitiatorDepth     uint8   // READs and atomics that we want in flight
	RetryCount         uint8   // of the peer's QP, 0 to 7
	RNRRetryCount      uint8   // of the peer's QP, 0 to 7
	FlowControl        bool
	AckTimeout         mad.Timeout // of the peer's QP: its local ACK timeout; 0: 17, which is 0.54 s

	// Response is the time within which either side answers, and after which a message is repeated;
	// 0: 18, which is 1.07 s.
	Response mad.Timeout
	// Retries is how often a message is repeated; 0: 15.
	Retries uint8

	PrivateData []byte // at most mad.REQPrivateLen, which includes the mad.IPAddress
}

// AcceptParams describe our side of an accepted connection, with the names of the fields of a REP.
// For an XRC target, which sends nothing, InitiatorDepth and FlowControl are not sent, and it
// always has an SRQ (annex A14).
type AcceptParams struct {
	QPN                ib.QPN
	SRQ                bool
	StartingPSN        ib.PSN // the first PSN that the message's receiver sends
	ResponderResources uint8  // READs and atomics that we answer at once
	InitiatorDepth     uint8  // READs and atomics that we want in flight
	RNRRetryCount      uint8  // of the peer's QP, 0 to 7
	FlowControl        bool
	PrivateData        []byte // at most mad.REPPrivateLen
}

// RejectParams say why a request or a reply is rejected.
type RejectParams struct {
	Reason      mad.Reason // 0: [mad.RejConsumer]
	Info        []byte     // additional reject information, at most mad.ARILen
	PrivateData []byte     // at most mad.REJPrivateLen
}

// ResolveParams describe a service ID resolution.
type ResolveParams struct {
	To          verbs.AHAttr // the peer's queue pair 1
	Service     mad.ServiceID
	PKey        ib.PKey     // 0: the default partition
	Response    mad.Timeout // after which the request is repeated; 0: 18, which is 1.07 s
	Retries     uint8       // 0: 15
	PrivateData []byte      // at most mad.SIDRREQPrivateLen, which includes the mad.IPAddress
}

// ServiceParams answer a service ID resolution.
type ServiceParams struct {
	Status      mad.SIDRStatus
	QPN         ib.QPN
	QKey        ib.QKey
	Info        []byte // at most mad.SIDRInfoLen
	PrivateData []byte // at most mad.SIDRREPPrivateLen
}
