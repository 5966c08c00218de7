// SPDX-License-Identifier: Apache-2.0

package iwarp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/verbs"
	wire "github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// listen opens a device and listens for connections, which it accepts and keeps.
func listen(t *testing.T) (dev *verbs.Device, address string) {
	t.Helper()
	dev = open(t, nil)
	l, err := cm.Listen(t.Context(), dev, ":0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); cancel(); <-done })
	return dev, l.Addr().String()
}

// dialRaw connects without speaking iWARP.
func dialRaw(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	return c
}

// ask sends an MPA request and waits for the reply.
func ask(t *testing.T, conn net.Conn, request []byte) {
	t.Helper()
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	var s rdmap.Setup
	for done := false; !done; {
		n, err := conn.Read(s.Into())
		if err != nil {
			t.Fatalf("no reply: %v", err)
		}
		var ok bool
		if done, ok = s.Received(n, wire.Reply); !ok {
			t.Fatal("no MPA reply")
		}
	}
	if s.Rejected() {
		t.Fatal("rejected")
	}
}

// TestQuietInitiator is an initiator that does not use the peer-to-peer model, and sends nothing: the
// program's messages come, after a pause.
func TestQuietInitiator(t *testing.T) {
	t.Parallel()
	dev := open(t, nil)
	l, err := cm.Listen(t.Context(), dev, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sent := make(chan error, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			sent <- err
			return
		}
		sent <- c.Send(ctx, []byte("hello"))
		<-ctx.Done()
		c.Close()
	}()
	conn := dialRaw(t, l.Addr().String())
	ask(t, conn, append((&wire.Frame{Kind: wire.Request, Revision: 2, Flags: wire.FlagEnhanced,
		PrivateLen: wire.EnhancedLen}).Append(nil),
		(&wire.Enhanced{IRD: 1, ORD: 1}).Append(nil)...))
	var h wire.Header
	got := make([]byte, wire.LengthLen+wire.UntaggedLen+5)
	if _, err := io.ReadFull(conn, got); err != nil || !h.Decode(got[wire.LengthLen:]) ||
		string(got[wire.LengthLen+wire.UntaggedLen:]) != "hello" {
		t.Errorf("got % x, %v", got, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	cancel()
}

// TestQuietResponder takes the connection and then hears nothing, until it is prompted.
func TestQuietResponder(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	heard := make(chan []byte, 1)
	go func() {
		defer close(heard)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		var s rdmap.Setup
		for done, ok := false, true; !done && ok; {
			n, err := c.Read(s.Into())
			if err != nil {
				return
			}
			done, ok = s.Received(n, wire.Request)
		}
		reply, _, _ := s.Accept(nil, &rdmap.Proposal{IRD: 1, ORD: 1, ULPDU: rdmap.MaxULPDU}, nil)
		c.Write(reply)
		b := make([]byte, 3*(wire.FPDULen(wire.TaggedLen)))
		n, _ := io.ReadFull(c, b)
		heard <- b[:n]
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := cm.Dial(ctx, open(t, nil), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := <-heard
	for n := wire.FPDULen(wire.TaggedLen); len(b) > 0; b = b[n:] {
		var h wire.Header
		if len(b) < n || !h.Decode(b[wire.LengthLen:]) || h.Opcode != wire.OpWrite || b[1] != wire.TaggedLen {
			t.Fatalf("got % x, want WRITEs of no bytes", b)
		}
	}
}

// TestNoFrame sends bytes that are no request: the link is closed.
func TestNoFrame(t *testing.T) {
	_, address := listen(t)
	for _, b := range []string{"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "MPA ID Rep Frame\x10\x02\x00\x00",
		"MPA ID Req Frame\x10\x02\xff\xff", "MPA ID Req Frame\x10\x02\x00\x02ab", "MPA ID Req Frame\x10\x07\x00\x00"} {
		c := dialRaw(t, address)
		if _, err := c.Write([]byte(b)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%q is answered", b)
		}
	}
}

// TestTerminate is a peer that breaks the rules in a stream, and hears which.
func TestTerminate(t *testing.T) {
	_, address := listen(t)
	seg := func(h wire.Header, payload ...byte) []byte {
		h.DDP, h.RDMAP = 1, 1
		return append(h.Append(nil), payload...)
	}
	wrongVersion := seg(wire.Header{Tagged: true, Last: true})
	wrongVersion[0] ^= 3
	for name, c := range map[string]struct {
		ulpdu []byte
		crc   uint32 // the defect of its CRC
		want  wire.Cause
	}{
		"CRC": {seg(wire.Header{Last: true, Opcode: wire.OpSend, MSN: 1}, 1), 1, wire.MPACRC},
		"write key": {seg(wire.Header{Tagged: true, Last: true, STag: 0x1234, TO: 5}, 1, 2, 3), 0,
			wire.TaggedSTag},
		"write wraps": {seg(wire.Header{Tagged: true, Last: true, STag: 0x1234, TO: ^uint64(0)}, 1, 2, 3), 0,
			wire.TaggedWrap},
		"DDP version": {wrongVersion, 0, wire.TaggedVersion},
		"opcode":      {seg(wire.Header{Last: true, Opcode: 15}), 0, wire.OperationOpcode},
		"tagged send": {seg(wire.Header{Tagged: true, Last: true, Opcode: wire.OpSend}), 0, wire.OperationOpcode},
		"queue":       {seg(wire.Header{Last: true, Opcode: wire.OpSend, Queue: 7, MSN: 1}), 0, wire.UntaggedQueue},
		"MSN":         {seg(wire.Header{Last: true, Opcode: wire.OpSend, MSN: 2}), 0, wire.UntaggedMSN},
		"MO":          {seg(wire.Header{Last: true, Opcode: wire.OpSend, MSN: 1, MO: 4}), 0, wire.UntaggedMO},
		"too long": {seg(wire.Header{Opcode: wire.OpSend, MSN: 1}, make([]byte, cm.DefaultRecvSize+1)...), 0,
			wire.UntaggedTooLong},
		"response": {seg(wire.Header{Tagged: true, Last: true, Opcode: wire.OpReadResponse, STag: 5}), 0,
			wire.TaggedSTag},
		"short request": {seg(wire.Header{Last: true, Opcode: wire.OpReadRequest, Queue: 1, MSN: 1}, 1, 2), 0,
			wire.OperationCatastrophic},
		"too short": {[]byte{0x41, 0x43, 1, 2}, 0, wire.MPAMarker},
		"read key": {seg(wire.Header{Last: true, Opcode: wire.OpReadRequest, Queue: 1, MSN: 1},
			(&wire.ReadRequest{Size: 9, SrcSTag: 77}).Append(nil)...), 0, wire.ProtectionSTag},
		"invalidate": {seg(wire.Header{Last: true, Opcode: wire.OpSendInv, STag: 99, MSN: 1}, 1), 0,
			wire.ProtectionInvalidate},
		"atomic too far": {seg(wire.Header{Last: true, Opcode: wire.OpAtomicRequest, Queue: 1, MSN: 1},
			(&wire.AtomicRequest{STag: 1}).Append(nil)...), 0, wire.ProtectionSTag},
	} {
		conn := dialRaw(t, address)
		ask(t, conn, rdmap.AppendRequest(nil, &rdmap.Proposal{CRC: true, IRD: 4, ORD: 4}, nil))
		f := []byte{byte(len(c.ulpdu) >> 8), byte(len(c.ulpdu))}
		f = append(f, c.ulpdu...)
		f = append(f, make([]byte, wire.PadLen(len(c.ulpdu)))...)
		sum := make([]byte, wire.CRCLen)
		wire.PutCRC(sum, wire.UpdateCRC(0, f)^c.crc)
		if _, err := conn.Write(append(f, sum...)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var h wire.Header
		var term wire.Terminate
		if len(answer) < 28 || !h.Decode(answer[2:]) || h.Opcode != wire.OpTerminate {
			t.Errorf("%s: answered with % x", name, answer)
			continue
		}
		n := int(answer[0])<<8 | int(answer[1])
		if !term.Decode(answer[2:][:n][h.Len():]) || term.Cause != c.want {
			t.Errorf("%s: terminated with %q, want %q", name, term.Cause, c.want)
		}
	}
}

// TestHalfOpen makes more links than a listener holds, none of which says anything, and
// then a connection.
func TestHalfOpen(t *testing.T) {
	dev, address := listen(t)
	for range 200 {
		dialRaw(t, address)
	}
	other := open(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := cm.Dial(ctx, other, address)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	dev.Close()
}

// TestAddresses opens addresses that no device can have.
func TestAddresses(t *testing.T) {
	for _, a := range []string{"", "nowhere", "0.0.0.0", "224.0.0.1", "255.255.255.255", "203.0.113.77"} {
		if dev, err := iwarp.Open(a, nil); err == nil {
			dev.Close()
			t.Errorf("%q could be opened", a)
		}
	}
	dev := open(t, nil)
	again, err := iwarp.Open(dev.Name()[len("iwarp:"):], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []verbs.QPType{verbs.UC, verbs.UD} {
		if _, err := pd.CreateQP(verbs.QPInit{Type: typ, SendCQ: cq, RecvCQ: cq}); !errors.Is(err,
			verbs.ErrNotSupported) {
			t.Errorf("a queue pair of type %v: %v", typ, err)
		}
	}
}
