// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Difference is an answer of devices of some kinds that differs from the others', and the reason for it.
type Difference struct {
	Kinds   []string // of devices
	Fact    string
	Instead string // the answer; empty: see the test of this name
	Why     string // with the specification's section
}

var (
	packets = []string{"roce", "roce1", "infiniband"}
	streams = []string{"iwarp", "iwarps"}
	framed  = append(streams, "shm")
	own     = append(packets, framed...)
)

const (
	completesEarly = "a work request completes when TCP has its bytes; what comes back later is a Terminate (RFC 5040 section 4.8)"
	oneCause       = "a Terminate has one cause for what a key and what a queue pair does not allow: access violation (RFC 5040 section 4.8)"
	classJ         = "the data has arrived and the key is the receiver's own: no NAK says so, and the initiator's retries run out (IBTA 9.9.6.3, class J)"
	exactLength    = "the frame of the set-up says how long the private data is (RFC 5044 section 7.1); a CM message has a field of fixed length (IBTA 12.6)"
	oneUnordered   = "an acknowledgement covers several messages (IBTA 9.7.5.1.2), and lets the program's answer go first: one in front of each answer would be one more packet for each message"
	ownHeader      = "RoCEv2 over IPv4 has an IPv4 header where the others have a GRH (IBTA annex A17.4.5.1)"
	oneService     = "a stream is one reliable connection (RFC 5040 section 1): no RNR NAK, UC, UD, XRC; FLUSH and ATOMIC WRITE have no message (RFC 7306)"
	noRetry        = "no Terminate asks for patience (RFC 5040 section 4.8): the message waits in the stream until a receive is posted"
)

const (
	capsOfStreams   = "SRQ MEM_WINDOW_TYPE_1 MEM_WINDOW_TYPE_2B SEND_WITH_INV SRQ_RESIZE RESIZE_CQ TIMESTAMP ON_DEMAND"
	capsOfMemory    = "SRQ MEM_WINDOW_TYPE_1 MEM_WINDOW_TYPE_2B SEND_WITH_INV RC_RNR_NAK_GEN SRQ_RESIZE RESIZE_CQ FLUSH ATOMIC_WRITE TIMESTAMP ON_DEMAND UD_MULTICAST UC UD"
	doneEarly       = "success, peer in ERR"
	invalidatedSide = "transport retry counter exceeded, receive: remote invalid request error, peer in ERR"
)

// Differences has all of them: any other difference fails.
var Differences = []Difference{
	{packets, answerOrder, "", oneUnordered},
	{[]string{"roce"}, "UD/GRH", "", ownHeader},
	{streams, "Op/Self", "", "a stream has two ends, and a queue pair cannot be both (RFC 5044 section 7)"},
	{streams, "Flush/AfterFailure", "", completesEarly},
	{streams, "Retry/PeerCloses", "", completesEarly},
	{streams, "RNR/Exceeded", "", noRetry},
	{streams, "Retry/PeerErrs", "", "a queue pair in ERR is not silent: its stream has ended (RFC 5040 section 6)"},
	{streams, "Refused/QPAccess", "", oneCause},
	{[]string{"shm"}, "Retry/PeerErrs", "",
		"that the peer has gone is noticed at once, not after a timeout: no specification asks for silence"},
	{framed, "PrivateData/Request", "10 bytes", exactLength},
	{framed, "PrivateData/LongRequest", "57 bytes", exactLength},
	{framed, "PrivateData/Reject", "10 bytes", exactLength},
	{framed, "PrivateData/LongReject", "149 bytes", exactLength},
	{packets, "SendInv/NoKey", invalidatedSide, classJ},
	{packets, "SendInv/KeyOfRegion", invalidatedSide, classJ},
	{streams, "Key/Write", doneEarly, completesEarly},
	{streams, "Key/WriteImm", doneEarly, completesEarly},
	{streams, "Bounds/Write", doneEarly, completesEarly},
	{streams, "Owner/Write", doneEarly, completesEarly},
	{streams, "Closed/Write", doneEarly, completesEarly},
	{streams, "Right/Write", doneEarly, completesEarly},
	{streams, "QPRight/Write", doneEarly, completesEarly},
	{streams, "QPRight/Read", accessError, oneCause},
	{streams, "QPRight/FetchAdd", accessError, oneCause},
	{streams, "Receive/TooShort", "success, receive: local length error, peer in ERR", completesEarly},
	{streams, "Receive/BadKey", "success, receive: local protection error, peer in ERR", completesEarly},
	{streams, "Receive/None", "success", noRetry},
	{streams, "MW/Right/Write", doneEarly, completesEarly},
	{streams, "Limit/Caps", capsOfStreams, oneService},
	{[]string{"shm"}, "Limit/Caps", capsOfMemory,
		"no XRC: each message would need the memory of another protection domain"},
	{[]string{"infiniband"}, "Limit/MaxPKeys", "32",
		"a subnet manager fills the port's table (IBTA 14.2.5.7); the others have the default partition alone"},
	{streams, "SendInv/NoKey", "success, receive: remote invalid request error, peer in ERR", completesEarly},
	{streams, "SendInv/KeyOfRegion", "success, receive: remote invalid request error, peer in ERR", completesEarly},
}

// kind returns the kind of the devices under test. A device of the system answers as the one of ours does that speaks
// its transport.
func (t *T) kind() string {
	if known := t.f.kind.Load(); known != nil {
		return *known
	}
	a, _ := t.devices()
	q := a.Query()
	kind := packets[0]
	switch {
	case slices.Contains(own, q.Kind):
		kind = q.Kind
	case q.Transport == verbs.TransportIWARP:
		kind = streams[0]
	}
	t.f.kind.Store(&kind)
	return kind
}

// testsOf returns the tests that devices of a kind cannot pass as they are written, with the reasons.
func testsOf(kind string) map[string]string {
	tests := map[string]string{}
	for _, d := range Differences {
		if d.Instead == "" && slices.Contains(d.Kinds, kind) {
			tests[d.Fact] = d.Why
		}
	}
	return tests
}

func differenceOf(kind, fact string) *Difference {
	i := slices.IndexFunc(Differences,
		func(d Difference) bool { return d.Fact == fact && slices.Contains(d.Kinds, kind) })
	if i < 0 {
		return nil
	}
	return &Differences[i]
}
