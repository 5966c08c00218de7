// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// recording makes a capture of two hosts, A and B, with queue pairs 0xa and 0xb.
type recording struct {
	t    *testing.T
	file bytes.Buffer
	w    *trace.Writer
	now  time.Time
	id   uint16

	direction trace.Direction
	tos       uint8
	comment   string
	bad       bool // the ICRC is wrong
	again     bool // with the IPv4 identification of the packet before it
}

var addrs = map[byte]netip.Addr{'A': netip.MustParseAddr("192.0.2.1"), 'B': netip.MustParseAddr("192.0.2.2")}

func newRecording(t *testing.T) *recording {
	r := &recording{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	var err error
	if r.w, err = trace.NewWriter(&r.file, "test"); err != nil {
		t.Fatal(err)
	}
	return r
}

// from records a packet from A or B to the other one's queue pair, a millisecond after the last one.
func (r *recording) from(host byte, p ib.Packet) {
	r.t.Helper()
	r.now = r.now.Add(time.Millisecond)
	to := byte('A' + 'B' - host)
	if p.DestQP == 0 {
		p.DestQP = ib.QPN(to - 'A' + 0xa)
	}
	p.PKey, p.PadCount = ib.DefaultPKey, ib.PadFor(len(p.Payload))
	if !r.again {
		r.id++
	}
	b := p.Append(nil)
	src, dst := netip.AddrPortFrom(addrs[host], 50000), netip.AddrPortFrom(addrs[to], ib.UDPPort)
	flow := ib.NewPseudoHeader(src, dst, true)
	b = ib.AppendICRC(b, 0, flow.Seed(8+len(b)+ib.ICRCLen, r.id))
	if r.bad {
		b[len(b)-1] ^= 1
	}
	u := trace.UDP{At: r.now, Src: src, Dst: dst, ID: r.id, DontFragment: true, TTL: 64, TOS: r.tos,
		Direction: r.direction, Comment: r.comment}
	if err := r.w.WriteUDP(&u, b); err != nil {
		r.t.Fatal(err)
	}
	r.tos, r.comment, r.bad, r.again = 0, "", false, false
}

// send is a SEND of one packet.
func send(psn ib.PSN, n int) ib.Packet {
	return ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, PSN: psn}, Payload: make([]byte, n)}
}

// ack is an acknowledgement.
func ack(psn ib.PSN, s ib.Syndrome) ib.Packet {
	return ib.Packet{BTH: ib.BTH{Opcode: ib.RCAck, PSN: psn}, AETH: ib.AETH{Syndrome: s}}
}

var positive = ib.Acknowledge(ib.CreditsUnlimited)

// source is the source of the capture.
func (r *recording) source() Source {
	r.t.Helper()
	if err := r.w.Close(); err != nil {
		r.t.Fatal(err)
	}
	return func(to func(*capture.Packet)) (capture.Counts, error) {
		return capture.ReadFrom(bytes.NewReader(r.file.Bytes()), to)
	}
}

// survey finds the conversations of the capture.
func (r *recording) survey() *Survey {
	r.t.Helper()
	s, err := Take(r.source())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// rows draws the only conversation, each packet with a row.
func (r *recording) rows() (*Survey, *Ladder) {
	r.t.Helper()
	s := r.survey()
	if len(s.Conversations) != 1 {
		for _, c := range s.Conversations {
			r.t.Logf("%v, %v: %d packets", c.A, c.B, c.Packets)
		}
		r.t.Fatalf("%d conversations, want 1", len(s.Conversations))
	}
	l, err := s.Draw(Options{Conversations: s.Conversations, All: true})
	if err != nil {
		r.t.Fatal(err)
	}
	return s, l
}
