// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// The lengths of messages in scattered tests lie around the limits up to which devices copy payload
// that they would gather otherwise.
var (
	scatteredLengths = []int{1023, 1024, 1025, 1056, 1152, 2047, 2048, 2049, 4096}
	datagramLengths  = []int{1023, 1024, 1025, 1056, 1152}
)

var scatteredTests = []test{
	{name: "Scattered/Write", run: func(t *T) { testScattered(t, verbs.OpWrite, verbs.RC, scatteredLengths) }},
	{name: "Scattered/Read", run: func(t *T) { testScattered(t, verbs.OpRead, verbs.RC, scatteredLengths) }},
	{name: "Scattered/LongReads", run: testLongReads},
	{name: "Scattered/Send", run: func(t *T) { testScattered(t, verbs.OpSend, verbs.RC, scatteredLengths) }},
	{name: "Scattered/SRQ", run: testScatteredSRQ, needs: []Ability{SharedRecvs}},
	{name: "Scattered/UC", run: func(t *T) { testScattered(t, verbs.OpSend, verbs.UC, datagramLengths) },
		needs: []Ability{Unreliable}},
	{name: "Scattered/UD", run: testScatteredDatagrams, needs: []Ability{Datagrams}},
}

const (
	scatteredMessages = 64  // posted together: more than a device sends at once
	scatteredSGEs     = 32  // of a message, where the device takes so many
	scatteredStride   = 160 // from one piece to the next; they do not touch
)

// scattered returns n bytes of the end's region in as many pieces as the device takes, for message
// i.
func (e *end) scattered(i, n int) (sgl []verbs.SGE) {
	count := e.scatter()
	for j := range count {
		part := n / (count - j)
		sgl = append(sgl, e.mr.SGE((i*count+j)*scatteredStride, part))
		n -= part
	}
	return sgl
}

// scatter is how many pieces messages have.
func (e *end) scatter() int { return min(scatteredSGEs, e.dev.Query().MaxSGE) }

// gathered returns the bytes of message i.
func (e *end) gathered(i, n int) (all []byte) {
	e.mr.Do(func(b []byte) {
		for _, s := range e.scattered(i, n) {
			off := s.Addr - e.mr.Addr()
			all = append(all, b[off:off+uint64(s.Length)]...)
		}
	})
	return all
}

// testScattered has many messages under way at once, each of which has many pieces on both
// sides of a SEND, and on the requester's of others.
func testScattered(t *T, op verbs.SendOp, typ verbs.QPType, lengths []int) {
	d, _ := t.devices()
	s := scatteredSetup(d)
	s.qp.Type = typ
	a, b := t.pair(s)
	for _, n := range lengths {
		a.fill(0, s.size, n)
		b.fill(0, s.size, n+1)
		a.exchange(b, op, func(i int) verbs.SendWR {
			return verbs.SendWR{Op: op, SGL: a.scattered(i, n), Remote: b.at(i * n)}
		}, func(i int) verbs.RecvWR {
			return verbs.RecvWR{SGL: b.scattered(i, n)}
		})
		for i := range scatteredMessages {
			want := a.gathered(i, n)
			if op != verbs.OpSend {
				b.same(i*n, want)
			} else if !bytes.Equal(b.gathered(i, n), want) {
				t.Fatalf("message %d of %d bytes is not what was sent", i, n)
			}
		}
	}
}

// testLongReads has several READs under way whose pieces are long, so that all of one are in no single segment or
// packet: where a READ has completed, all of its pieces are there.
func testLongReads(t *T) {
	const reads, most, length = 3, 3, 192 << 10
	a, b := t.pair(setup{size: reads * most * length,
		qp: verbs.QPInit{Cap: verbs.QPCap{MaxSendSGE: most, MaxSendWR: reads}}})
	pieces := min(most, a.dev.Query().MaxSGERead)
	want := make([]byte, reads*pieces*length)
	pattern(want, 1)
	a.fill(0, len(want), 2)
	b.fill(0, len(want), 1)
	for i := range reads {
		var sgl []verbs.SGE
		for j := range pieces {
			sgl = append(sgl, a.mr.SGE((i*pieces+j)*length, length))
		}
		a.post(verbs.SendWR{Op: verbs.OpRead, SGL: sgl, Remote: b.at(i * pieces * length)})
	}
	for i := range reads {
		a.sent(verbs.StatusSuccess)
		a.same(0, want[:(i+1)*pieces*length])
	}
}

// scatteredSetup fits queue pairs and regions to these tests.
func scatteredSetup(dev *verbs.Device) setup {
	sges := min(scatteredSGEs, dev.Query().MaxSGE)
	return setup{size: scatteredMessages * scatteredSGEs * scatteredStride, qp: verbs.QPInit{
		Cap: verbs.QPCap{MaxSendWR: scatteredMessages, MaxRecvWR: scatteredMessages, MaxSendSGE: sges,
			MaxRecvSGE: sges}}}
}

// exchange posts the receives, if it takes any, and all messages at once, and waits for them.
func (a *end) exchange(b *end, op verbs.SendOp, message func(i int) verbs.SendWR, receive func(i int) verbs.RecvWR) {
	t := a.t
	t.Helper()
	list := make([]verbs.SendWR, scatteredMessages)
	for i := range list {
		list[i] = message(i)
		list[i].Flags |= verbs.Signaled
		if op == verbs.OpSend {
			wr := receive(i)
			t.ok(b.qp.PostRecv(&wr))
		}
	}
	t.ok(a.qp.PostSendAll(list))
	for range list {
		a.sent(verbs.StatusSuccess)
		if op == verbs.OpSend {
			b.received(verbs.StatusSuccess)
		}
	}
}

func testScatteredSRQ(t *T) {
	da, db := t.devices()
	s := scatteredSetup(da)
	a, b := t.newEnd(da, s), t.newEnd(db, s)
	srq := value(b.pd.CreateSRQ(verbs.SRQInit{MaxWR: s.qp.Cap.MaxRecvWR, MaxSGE: s.qp.Cap.MaxRecvSGE}))(t)
	a.addQP(s.qp)
	b.addQP(verbs.QPInit{SRQ: srq})
	t.join(a, b, verbs.ConnectOptions{})
	const n = 1152
	a.fill(0, s.size, 1)
	for i := range scatteredMessages {
		t.ok(srq.PostRecv(&verbs.RecvWR{SGL: b.scattered(i, n)}))
	}
	for i := range scatteredMessages {
		a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.scattered(i, n)})
	}
	for i := range scatteredMessages {
		a.sent(verbs.StatusSuccess)
		b.received(verbs.StatusSuccess)
		if !bytes.Equal(b.gathered(i, n), a.gathered(i, n)) {
			t.Fatalf("message %d is not what was sent", i)
		}
	}
}

func testScatteredDatagrams(t *T) {
	da, db := t.devices()
	s := scatteredSetup(da)
	a, b := t.newEnd(da, s), t.newEnd(db, s)
	s.qp.Type = verbs.UD
	for _, e := range []*end{a, b} {
		e.addQP(s.qp)
		t.ok(e.qp.StartUD(qkey))
	}
	ah := value(a.pd.CreateAH(way(b.ep)))(t)
	for _, n := range datagramLengths {
		a.fill(0, s.size, n)
		a.exchange(b, verbs.OpSend, func(i int) verbs.SendWR {
			wr := a.datagram(ah, b, 0)
			wr.SGL = a.scattered(i, n)
			return wr
		}, func(i int) verbs.RecvWR {
			return verbs.RecvWR{SGL: b.sgl(i*(grhLen+n), grhLen+n)}
		})
		for i := range scatteredMessages {
			b.same(i*(grhLen+n)+grhLen, a.gathered(i, n))
		}
	}
}
