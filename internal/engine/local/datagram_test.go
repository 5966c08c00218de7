// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

const (
	datagramNum = verbs.QPN(0x42)
	datagramKey = verbs.QKey(0x1111)
	datagramMTU = 4096
)

// datagramEnd is a UD queue pair, and the link by which datagrams come to its device.
type datagramEnd struct {
	*side
	qp     *DatagramQP
	link   *Peer
	sender *Sender // the other device's
	theirs []byte
}

func newDatagramEnd(t testing.TB) *datagramEnd {
	t.Helper()
	e := &datagramEnd{side: newSide(t, 2, verbs.RC), theirs: make([]byte, SegmentBytes)}
	e.qp = NewDatagram(e.dev, &e.lane, queue.Config{Num: datagramNum, Type: verbs.UD, PD: 1, SendCQ: e.cq, RecvCQ: e.cq,
		Recv: &queue.RecvQueue{PD: 1, MaxWR: 4, MaxSGE: 1}})
	for _, a := range []struct {
		attr verbs.QPAttr
		mask verbs.QPMask
	}{
		{verbs.QPAttr{State: verbs.StateInit, Port: 1, QKey: datagramKey},
			verbs.MaskState | verbs.MaskPKeyIndex | verbs.MaskPort | verbs.MaskQKey},
		{verbs.QPAttr{State: verbs.StateRTR}, verbs.MaskState},
	} {
		if err := e.qp.Modify(&a.attr, a.mask); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if e.link, err = NewPeer(make([]byte, SegmentBytes), e.theirs, nil); err == nil {
		e.sender, err = NewSender(e.theirs[atRequests:], requestBytes)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// say has the other device send a message.
func (e *datagramEnd) say(k kind, body []byte) {
	e.t.Helper()
	b, err := e.sender.Reserve(len(body), uint32(k))
	if b == nil {
		e.t.Fatalf("no room: %v", err)
	}
	copy(b, body)
	e.sender.Publish()
}

// take receives the datagrams that have come.
func (e *datagramEnd) take() (count int, err error) {
	from, to := ib.GID{15: 1}, ib.GID{15: 2}
	count, _, _, err = e.dev.ReceiveDatagrams(&e.lane, e.link, from, to, 1<<20, func(n, _ verbs.QPN) []*DatagramQP {
		if n == datagramNum {
			return []*DatagramQP{e.qp}
		}
		return nil
	})
	return count, err
}

func message(d datagram, payload string) []byte {
	b := make([]byte, datagramFields, datagramFields+len(payload))
	d.put(b)
	return append(b, payload...)
}

var good = datagram{to: datagramNum, from: 7, qkey: datagramKey, imm: 5, flow: 0xabcde, class: 9, hops: 3}

// TestDatagram receives one with everything.
func TestDatagram(t *testing.T) {
	e := newDatagramEnd(t)
	if _, err := e.qp.PostRecv([]verbs.RecvWR{{ID: 1, SGL: []verbs.SGE{e.sge(0, 100)}}}); err != nil {
		t.Fatal(err)
	}
	e.say(opDatagram|immediate|solicited, message(good, "hello"))
	if n, err := e.take(); n != 1 || err != nil {
		t.Fatalf("%d came: %v", n, err)
	}
	if out := e.lane.Outbox.Completions; len(out) != 1 || !out[0].Solicited {
		t.Errorf("%d completions, or it is not solicited", len(out))
	}
	wc := e.completes(verbs.StatusSuccess)[0]
	if wc.ID != 1 || wc.ByteLen != ib.GRHLen+5 || wc.SrcQPN != 7 || wc.Imm != 5 ||
		wc.Flags != verbs.WithGRH|verbs.WithImm {
		t.Errorf("%+v", wc)
	}
	var grh ib.GRH
	want := ib.GRH{IPVer: 6, TClass: 9, FlowLabel: 0xabcde, PayLen: 12 + 8 + 8 + 4, // BTH, DETH, payload, ICRC
		NxtHdr: ib.GRHNextHeader, HopLmt: 3, SGID: ib.GID{15: 1}, DGID: ib.GID{15: 2}}
	if grh.Decode(e.region.Bytes()); grh != want {
		t.Errorf("GRH %+v, want %+v", grh, want)
	}
	if got := e.region.Bytes()[ib.GRHLen:][:6]; string(got) != "hello\x00" {
		t.Errorf("payload %q", got)
	}
}

// TestDatagramDropped has datagrams without a receiver, which is the sender's fault and does no harm. Messages
// that are no datagrams end the link.
func TestDatagramDropped(t *testing.T) {
	other, locked := good, good
	other.to, locked.qkey = 9, 1
	for _, c := range []struct {
		name string
		kind kind
		body []byte
		want Reason
		err  error
	}{
		{"fits", opDatagram, message(good, "1234567890"), taken, nil},
		{"no queue pair", opDatagram, message(other, ""), dropNoDestination, nil},
		{"another Q_Key", opDatagram, message(locked, ""), dropQKey, nil},
		{"longer than the receive", opDatagram, message(good, "12345678901"), dropTooLong, nil},
		{"longer than the MTU", opDatagram, message(good, string(make([]byte, datagramMTU+1))), taken, ErrCorrupt},
		{"cut off", opDatagram, message(good, "")[:datagramFields-1], taken, ErrCorrupt},
		{"a SEND", opSend, message(good, ""), taken, ErrCorrupt},
		{"an unknown flag", opDatagram | invalidate, message(good, ""), taken, ErrCorrupt},
		{"a source beyond 24 bits", opDatagram,
			message(datagram{to: datagramNum, from: 1 << 24, qkey: datagramKey}, ""), taken, ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newDatagramEnd(t)
			if _, err := e.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{e.sge(0, ib.GRHLen+10)}}}); err != nil {
				t.Fatal(err)
			}
			e.say(c.kind, c.body)
			if _, err := e.take(); !errors.Is(err, c.err) {
				t.Fatalf("got error %v, want %v", err, c.err)
			}
			for r, n := range e.lane.Counters.Dropped {
				if want := c.want != taken && Reason(r) == c.want; (n == 1) != want {
					t.Errorf("%v: %d", Reason(r), n)
				}
			}
			if completed := len(e.completions()) == 1; completed != (c.want == taken && c.err == nil) ||
				e.qp.State() != verbs.StateRTR {
				t.Errorf("completed: %v, state %v", completed, e.qp.State())
			}
		})
	}
}

// TestDatagramsOneWay has a device send on a link where it only receives, and damage shared memory.
func TestDatagramsOneWay(t *testing.T) {
	for name, damage := range map[string]func(e *datagramEnd){
		"an answer":         func(e *datagramEnd) { *word(e.theirs[atResponses:], ringHeader) = there | 8 },
		"took what was not": func(e *datagramEnd) { *e.link.requests.head = 8 },
	} {
		e := newDatagramEnd(t)
		if err := e.link.CheckDatagrams(true); err != nil {
			t.Fatal(err)
		}
		if damage(e); e.link.CheckDatagrams(true) == nil {
			t.Errorf("%s: it stays", name)
		}
	}
	e := newDatagramEnd(t)
	e.say(opDatagram, message(good, ""))
	if e.link.CheckDatagrams(true) != nil || e.link.CheckDatagrams(false) == nil {
		t.Error("who only sends may receive")
	}
}

// FuzzDatagrams has a device write any bytes to the ring. The memory around the receive stays.
func FuzzDatagrams(f *testing.F) {
	f.Add(uint32(0), []byte{}, []byte{}, uint16(0))
	f.Add(uint32(0), []byte{0}, []byte{0}, uint16(0))
	f.Add(uint32(opDatagram), message(good, "hello"), []byte(nil), uint16(0))
	f.Add(uint32(opDatagram|immediate), message(good, "hello"), []byte{8}, uint16(atRequests+128))
	f.Add(uint32(opSend), []byte("x"), []byte{0xff, 0xff}, uint16(atRequests+ringHeader))
	f.Fuzz(func(t *testing.T, k uint32, body, more []byte, at uint16) {
		e := newDatagramEnd(t)
		memory := e.region.Bytes()
		for i := range memory {
			memory[i] = 0x5a
		}
		const off, length = 1000, 200
		if _, err := e.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{e.sge(off, length)}}}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if b, err := e.sender.Reserve(min(len(body), e.sender.MaxMessage()), k); err == nil && b != nil {
				copy(b, body)
				e.sender.Publish()
			}
			copy(e.theirs[min(int(at), len(e.theirs)):], more)
			if _, err := e.take(); err != nil || e.link.CheckDatagrams(true) != nil {
				break
			}
		}
		if n := len(e.completions()); n > 1 {
			t.Errorf("%d completions of one receive", n)
		}
		if len(bytes.Trim(memory[:off], "\x5a")) > 0 || len(bytes.Trim(memory[off+length:], "\x5a")) > 0 {
			t.Error("it wrote beside the receive")
		}
	})
}
