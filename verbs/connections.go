// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"net/netip"
)

// ConnectionDriver is a [Driver] whose queue pairs can be connected by address and port. It chooses
// the protocol and supplies what the protocol runs on. Package cm runs the protocol; programs use
// package cm.
type ConnectionDriver interface {
	// Connections calls the method of p that stands for the device's protocol, and returns its
	// result.
	Connections(p ConnectionProtocols) error
}

// ConnectionProtocols are the protocols of a connection manager.
type ConnectionProtocols interface {
	// Datagrams is communication management by datagrams between queue pairs 1 (IBTA chapter 12).
	Datagrams(MADDriver) error
	// Streams is the set-up of MPA on streams (RFC 5044, RFC 6581).
	Streams(StreamDriver) error
}

// RouteChecker is a [Driver] that knows at once whether its network has a route from one of its
// addresses to a peer's, which may have a zone. It sends nothing: the peer need not exist. The
// error says what is missing. With other drivers every address is accepted.
type RouteChecker interface {
	CheckRoute(from, to netip.Addr) error
}

// PeerLocator is a [Driver] that may have to ask its network where a peer is before it can send there.
type PeerLocator interface {
	// LocatePeer returns what finds that out for a GID, in seconds at most, or says why it cannot; nil:
	// there is nothing to find out.
	LocatePeer(gid GID) func(context.Context) error
}
