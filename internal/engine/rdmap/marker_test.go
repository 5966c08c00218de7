// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"encoding/binary"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// marked is the stream of a WRITE in several FPDUs with markers and without CRCs, and its end b.
func marked(t *testing.T) (stream []byte, b *host) {
	t.Helper()
	a, b := pair(t, 1<<16, Params{MarkersIn: true, MarkersOut: true, ULPDU: 500})
	fill(a.mem, 1)
	a.post(verbs.SendWR{ID: 1, Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 1<<14)}, Remote: b.at(0)})
	a.transmit()
	return a.wire, b
}

// TestMarkerPadding sets the two lowest bits of all markers, which a receiver takes for zeros
// (RFC 5044 section 4.3).
func TestMarkerPadding(t *testing.T) {
	stream, b := marked(t)
	for at := 0; at < len(stream); at += iwarp.MarkerInterval {
		stream[at+3] |= 3
	}
	for len(stream) > 0 {
		n := b.arrive(stream)
		if n == 0 {
			t.Fatalf("%d bytes are not taken", len(stream))
		}
		stream = stream[n:]
	}
	if b.qp.terminateMsg != nil {
		t.Errorf("terminated: %v", b.qp.terminateMsg.Cause)
	}
}

// TestMarkerLies changes one marker after the other, at each place in an FPDU.
func TestMarkerLies(t *testing.T) {
	whole, _ := marked(t)
	for at := 0; at < len(whole); at += iwarp.MarkerInterval {
		stream, b := marked(t)
		m := binary.BigEndian.Uint16(stream[at+2:])
		binary.BigEndian.PutUint16(stream[at+2:], m+4)
		for len(stream) > 0 {
			n := b.arrive(stream)
			if n == 0 {
				break
			}
			stream = stream[n:]
		}
		if b.qp.terminateMsg == nil || b.qp.terminateMsg.Cause != iwarp.MPAMarker {
			t.Errorf("the marker at %d, which is %d: %v", at, m, b.qp.terminateMsg)
		}
	}
}
