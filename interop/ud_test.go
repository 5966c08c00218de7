// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	qkey      = 0x1234567
	grhLength = 40
)

// TestUD sends datagrams with and without immediate data.
func TestUD(t *testing.T) {
	for _, op := range []verbs.SendOp{verbs.OpSend, verbs.OpSendImm} {
		t.Run(op.String(), func(t *testing.T) {
			eachPair(t, func(t *testing.T, p pair) {
				a, b := p.datagramQueues()
				from := p.a.region(4096, verbs.LocalWrite)
				for i, n := range []int{0, 1, 1024, 4096} {
					id, seed := uint64(i), byte(i+60)
					to := p.b.region(grhLength+4096+guard, verbs.LocalWrite)
					b.recv(verbs.RecvWR{ID: id, SGL: []verbs.SGE{to.sge(0, grhLength+4096)}})
					from.fill(seed, 0, n)
					w := datagram(a, b, op, from, n)
					w.ID, w.Imm = id, 0xcafe
					a.send(w)
					want(t, a.wait(1)[0], id, verbs.WCSend)
					wc := b.wait(1)[0]
					want(t, wc, id, verbs.WCRecv)
					if int(wc.ByteLen) != grhLength+n || wc.Flags&verbs.WithGRH == 0 || wc.SrcQPN != a.endpoint().QPN {
						t.Errorf("%d bytes: %+v", n, wc)
					}
					if op == verbs.OpSendImm && (wc.Flags&verbs.WithImm == 0 || wc.Imm != 0xcafe) {
						t.Errorf("immediate data %#x (flags %v)", wc.Imm, wc.Flags)
					}
					wantPattern(t, to, seed, grhLength, n)
					wantGRH(t, p, to.bytes(0, grhLength), a.endpoint().GID, b.endpoint().GID)
				}
			})
		})
	}
}

// TestUDWrongQKey sends a datagram that the receiver must drop, and a datagram that it takes.
func TestUDWrongQKey(t *testing.T) {
	eachPair(t, func(t *testing.T, p pair) {
		a, b := p.datagramQueues()
		from, to := p.a.region(100, verbs.LocalWrite), p.b.region(4096, verbs.LocalWrite)
		for id := range uint64(2) {
			b.recv(verbs.RecvWR{ID: id, SGL: []verbs.SGE{to.sge(2048*int(id), 2048)}})
		}
		bad, good := datagram(a, b, verbs.OpSendImm, from, 100), datagram(a, b, verbs.OpSendImm, from, 100)
		bad.RemoteQKey, bad.Imm, good.Imm = qkey+1, 1, 2
		a.send(bad, good)
		a.wait(2)
		if wc := b.wait(1)[0]; wc.ID != 0 || wc.Imm != 2 {
			t.Errorf("receive %d got datagram %d", wc.ID, wc.Imm)
		}
	})
}

func (p pair) datagramQueues() (a, b queue) {
	a = p.a.queue(queueInit{typ: verbs.UD, qkey: qkey})
	b = p.b.queue(queueInit{typ: verbs.UD, qkey: qkey})
	p.connect(a, b, verbs.ConnectOptions{})
	return a, b
}

// datagram is a work request that sends the first n bytes of r from queue a to queue b.
func datagram(a, b queue, op verbs.SendOp, r region, n int) work {
	w := work{to: b.endpoint().GID, SendWR: verbs.SendWR{Op: op, Flags: verbs.Signaled, RemoteQPN: b.endpoint().QPN,
		RemoteQKey: qkey}}
	if n > 0 {
		w.SGL = []verbs.SGE{r.sge(0, n)}
	}
	return w
}

// wantGRH looks for both addresses where a receive buffer has them: in the GRH, or over
// IPv4 in the IP header that fills its last 20 bytes (IBTA annex A17.4.5.1).
func wantGRH(t *testing.T, p pair, grh []byte, source, dest verbs.GID) {
	t.Helper()
	got, want := grh[8:40], append(source[:], dest[:]...)
	if !p.ipv6 {
		got, want = grh[32:40], append(source[12:], dest[12:]...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("addresses in the GRH %x, want %x", got, want)
	}
}
