// SPDX-License-Identifier: Apache-2.0

package iwarp_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	wire "github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// TestUnusableReply is a responder whose reply asks for more than there is, and hears so in a
// Terminate (RFC 6581 section 9).
func TestUnusableReply(t *testing.T) {
	for name, c := range map[string]struct {
		reply wire.Enhanced
		flags wire.FrameFlags
		want  wire.Cause
	}{
		"IRD":     {wire.Enhanced{PeerToPeer: true, RTRWrite: true, IRD: 1, ORD: 16000}, 0, wire.MPAInsufficientIRD},
		"RTR":     {wire.Enhanced{PeerToPeer: true, RTRSend: true, IRD: 1, ORD: 1}, 0, wire.MPANoRTR},
		"markers": {wire.Enhanced{PeerToPeer: true, RTRSend: true, IRD: 1, ORD: 1}, wire.FlagMarkers, wire.MPANoRTR},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		dialed := make(chan error, 1)
		dev := open(t, nil)
		go func() {
			conn, err := cm.Dial(ctx, dev, l.Addr().String())
			if err == nil {
				conn.Close()
			}
			dialed <- err
		}()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(3 * time.Minute))
		var s rdmap.Setup
		for done := false; !done; {
			n, err := conn.Read(s.Into())
			if err != nil {
				t.Fatal(err)
			}
			done, _ = s.Received(n, wire.Request)
		}
		f := (&wire.Frame{Kind: wire.Reply, Revision: 2, Flags: wire.FlagEnhanced | wire.FlagCRC | c.flags,
			PrivateLen: wire.EnhancedLen}).Append(nil)
		conn.Write(c.reply.Append(f))
		got, err := io.ReadAll(conn)
		if c.flags&wire.FlagMarkers != 0 && len(got) > wire.MarkerLen {
			got = got[wire.MarkerLen:]
		}
		var h wire.Header
		var term wire.Terminate
		if len(got) < wire.LengthLen+wire.UntaggedLen || !h.Decode(got[2:]) || h.Opcode != wire.OpTerminate ||
			!term.Decode(got[2:][:int(got[1])][h.Len():]) || term.Cause != c.want {
			t.Errorf("%s: got % x, %v, %v; want %v", name, got, err, term.Cause, c.want)
		}
		if err := <-dialed; err == nil {
			t.Errorf("%s: the connection is made", name)
		}
	}
}
