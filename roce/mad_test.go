// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/captured"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// TestForgedMADs sends datagrams to QP1 that are no management datagrams: they are dropped and counted.
func TestForgedMADs(t *testing.T) {
	f := newForger(t)
	g, err := umad.Open(f.dev, 1, ib.QP1, umad.Spec{Class: mad.ClassCM, Methods: []mad.Method{mad.MethodSend}})
	f.ok(err)
	good := func() *ib.Packet {
		h := mad.CMHeader(mad.AttrDREP, 1)
		p := &ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: ib.QP1},
			DETH: ib.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QP1}, Payload: make([]byte, umad.Len)}
		h.Append(p.Payload[:0])
		return p
	}
	for counter, spoil := range map[string]func(*ib.Packet){
		"dropped_qkey_mismatch":   func(p *ib.Packet) { p.DETH.QKey = 0x11111111 },
		"dropped_pkey_mismatch":   func(p *ib.Packet) { p.PKey = 0x8001 },
		"dropped_bad_length":      func(p *ib.Packet) { p.Payload = p.Payload[:252] },
		"dropped_wrong_transport": func(p *ib.Packet) { p.Opcode = ib.TransportUC.Join(ib.OpSendOnly) },
		"dropped_no_such_qp":      func(p *ib.Packet) { p.DestQP = ib.QP0 },
		"dropped_malformed":       func(p *ib.Packet) { p.Payload[0]++ },
		"dropped_no_agent":        func(p *ib.Packet) { p.Payload[1]++ },
	} {
		p := good()
		spoil(p)
		before := f.counter(counter)
		f.send(frame(p, f.pseudo))
		f.counts(counter, before, 1)
	}
	long := good()
	long.Payload = make([]byte, umad.Len+4)
	before := f.counter("dropped_bad_length")
	f.send(frame(long, f.pseudo))
	f.counts("dropped_bad_length", before, 1)

	f.send(frame(good(), f.pseudo))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if n, _, err := g.Recv(ctx, make([]byte, umad.Len)); n != umad.Len || err != nil {
		t.Errorf("a good one: %d bytes, %v", n, err)
	}
	f.ok(g.Close())
	before = f.counter("dropped_no_such_qp")
	f.send(frame(good(), f.pseudo))
	f.counts("dropped_no_such_qp", before, 1)
}

// TestRefusedAfterClose asks a QP1 that was closed who receives: like all else it is closed.
func TestRefusedAfterClose(t *testing.T) {
	f := newForger(t)
	g, err := umad.Open(f.dev, 1, ib.QP1, umad.Spec{Class: mad.ClassCM, Methods: []mad.Method{mad.MethodSend}})
	f.ok(err)
	f.ok(g.Close())
	gids, err := f.dev.GIDs(1)
	f.ok(err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := g.Refused(ctx, verbs.AHAttr{DGID: gids[0].GID}); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}

// TestCapturedMADs sends a device the management datagrams that Linux rxe sent to another.
func TestCapturedMADs(t *testing.T) {
	f := newForger(t)
	g, err := umad.Open(f.dev, 1, ib.QP1, umad.Spec{Class: mad.ClassCM, Methods: []mad.Method{mad.MethodSend}})
	f.ok(err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	total := 0
	for _, name := range []string{"roce-mtu1024.pcap", "roce-mtu4096.pcap"} {
		for _, c := range captured.RoCE(t, filepath.Join("..", "wire", "ib", "testdata", name)) {
			var p ib.Packet
			if p.Decode(c.Transport[:len(c.Transport)-ib.ICRCLen]) != nil || p.DestQP != ib.QP1 {
				continue
			}
			total++
			f.send(frame(&p, f.pseudo))
			got := make([]byte, umad.Len)
			if _, _, err := g.Recv(ctx, got); err != nil || !bytes.Equal(got, p.Payload) {
				t.Fatalf("%s: got % x, want % x; %v", name, got, p.Payload, err)
			}
		}
	}
	if total != 34 {
		t.Errorf("%d management datagrams in the captures, want 34", total)
	}
}
