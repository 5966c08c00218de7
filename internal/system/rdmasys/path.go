// SPDX-License-Identifier: Apache-2.0

package rdmasys

// Answer is the outcome of a datagram to a peer.
type Answer string

// The answers.
const (
	Arrived  Answer = "arrived"   // the peer reports that the port is unreachable: the packet has come
	TooLong  Answer = "too long"  // a router, or this host, says so
	Refused  Answer = "refused"   // a host on the way refuses to pass it on
	NoAnswer Answer = "no answer" // it is lost, or a socket has it, or a filter
	NotSent  Answer = "not sent"  // it could not be sent
)

// PathTest is how large packets may be on the path to a peer, as far as known.
type PathTest struct {
	Sent    int    `json:"sent"`     // the longest packet that was tried, in bytes of IP; 0: none
	Passed  int    `json:"passed"`   // the longest of which the peer said that it has come; 0: none
	Lost    int    `json:"lost"`     // the shortest that did not get there, although a shorter one did; 0: none
	RoCE    Answer `json:"udp_4791"` // of a datagram to RoCEv2's port
	Problem string `json:"problem,omitempty"`
}
