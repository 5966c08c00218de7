// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"bytes"
	"encoding/binary"
	"math/rand"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

const everything = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.MWBind |
	verbs.ZeroBased

// guard is the number of bytes behind a host's region that must not be touched.
const guard = 1 << 12

// host is one end: a device with a queue pair and a region.
type host struct {
	t      testing.TB
	dev    Device
	lane   Lane
	qp     *QP
	cq     *queue.CQ
	mem    []byte
	region *memory.Region
	wire   []byte // sent bytes that have not arrived
	batch  *Batch
	events []verbs.EventType
}

func newHost(t testing.TB, seed int64, size int) *host {
	rnd := rand.New(rand.NewSource(seed))
	h := &host{t: t, mem: make([]byte, size, size+guard), cq: queue.NewCQ(1000, false, driver.CQEvents{}),
		batch: NewBatch()}
	h.dev = Device{Resolve: func(*verbs.AHAttr) error { return nil },
		Device: queue.Device{Memory: memory.NewTable(rnd.Uint32),
			Ports: []queue.Port{{Num: 1, MTU: 4096, PKeys: []verbs.PKey{0xffff}}}, MaxMsgSize: memory.MaxMessage}}
	var err error
	if h.region, err = h.dev.Memory.Register(1, h.mem, everything); err != nil {
		t.Fatal(err)
	}
	h.qp = New(&h.dev, &h.lane, queue.Config{Num: verbs.QPN(seed + 10), Type: verbs.RC, PD: 1, SendCQ: h.cq,
		RecvCQ: h.cq,
		Caps:   verbs.QPCap{MaxSendWR: 100, MaxRecvWR: 100, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 256},
		Recv:   &queue.RecvQueue{PD: 1, MaxWR: 100, MaxSGE: 4}})
	if err := h.qp.Modify(&verbs.QPAttr{State: verbs.StateInit, Port: 1,
		Access: everything &^ (verbs.MWBind | verbs.ZeroBased)},
		verbs.MaskState|verbs.MaskPort|verbs.MaskPKeyIndex|verbs.MaskAccess); err != nil {
		t.Fatal(err)
	}
	return h
}

// pair makes two ends whose streams have begun.
func pair(t testing.TB, size int, p Params) (a, b *host) {
	a, b = newHost(t, 1, size), newHost(t, 2, size)
	p.SendRTR = RTRWrite
	a.begin(p)
	p.SendRTR = 0
	b.respond(p)
	return a, b
}

// respond begins the stream of an end that awaits the other's first message.
func (h *host) respond(p Params) {
	h.t.Helper()
	p.AwaitRTR = true
	h.begin(p)
}

func (h *host) begin(p Params) {
	h.t.Helper()
	if p.ULPDU == 0 {
		p.ULPDU = MaxULPDU
	}
	p.IRD, p.ORD = 8, 8
	if !h.qp.Begin(p) {
		h.t.Fatal("a stream cannot begin")
	}
}

func (h *host) sge(off, n int) verbs.SGE {
	return verbs.SGE{Addr: h.region.Addr() + uint64(off), Length: uint32(n), LKey: h.region.Key()}
}

func (h *host) at(off int) verbs.Remote {
	return verbs.Remote{Addr: h.region.Addr() + uint64(off), Key: h.region.Key()}
}

func (h *host) post(wr verbs.SendWR) {
	h.t.Helper()
	wr.Flags |= verbs.Signaled
	if _, err := h.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) recv(id uint64, sgl ...verbs.SGE) {
	h.t.Helper()
	if _, err := h.qp.PostRecv([]verbs.RecvWR{{ID: id, SGL: sgl}}); err != nil {
		h.t.Fatal(err)
	}
	h.qp.Resume()
}

// transmit moves the queue pair's FPDUs to the wire.
func (h *host) transmit() bool {
	any := false
	for {
		h.batch.Reset()
		if !h.qp.NextFPDUs(h.batch) {
			return any
		}
		any = true
		h.wire = append(h.wire, h.batch.Bytes()...)
		n := h.batch.Len()
		h.batch.Sent(n)
		h.qp.Sent(n)
	}
}

// arrive gives the queue pair the first n bytes of b, and returns how many it took.
func (h *host) arrive(b []byte) int {
	n := copy(h.qp.Into(), b)
	if n > 0 {
		h.qp.Received(n)
	}
	return n
}

// run moves bytes both ways, in pieces of lengths that cut returns, until nothing moves.
func run(a, b *host, cut func() int) {
	for {
		moved := false
		for _, h := range [][2]*host{{a, b}, {b, a}} {
			moved = h[0].transmit() || moved
			for len(h[0].wire) > 0 {
				n := h[1].arrive(h[0].wire[:min(len(h[0].wire), cut())])
				if n == 0 {
					break
				}
				h[0].wire = h[0].wire[n:]
				moved = true
			}
		}
		a.drain()
		b.drain()
		if !moved {
			return
		}
	}
}

// drain moves completions to the queue and keeps events.
func (h *host) drain() {
	for _, c := range h.lane.Outbox.Completions {
		h.cq.Push(&c.WC, c.Solicited, c.Frees)
	}
	for _, e := range h.lane.Outbox.Events {
		h.events = append(h.events, e.Type)
	}
	h.lane.Outbox.Reset()
}

func (h *host) next(want verbs.Status) verbs.WC {
	h.t.Helper()
	var wc [1]verbs.WC
	if h.cq.Poll(wc[:]) == 0 {
		h.t.Fatalf("no completion, want one with %q", want)
	}
	if wc[0].Status != want {
		h.t.Fatalf("%v %d completed with %q, want %q", wc[0].Op, wc[0].ID, wc[0].Status, want)
	}
	return wc[0]
}

func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*31 ^ byte(seed)
	}
}

func whole() int { return 1 << 30 }

var modes = map[string]Params{
	"plain":        {},
	"CRC":          {CRC: true},
	"MSS":          {CRC: true, ULPDU: ULPDUFor(1460)},
	"markers":      {CRC: true, MarkersIn: true, MarkersOut: true, ULPDU: 1400},
	"markers only": {MarkersIn: true, MarkersOut: true, ULPDU: 4000},
}

// TestOperations does each operation, in streams of each mode that are cut anywhere.
func TestOperations(t *testing.T) {
	const size = 2 << 20
	for name, p := range modes {
		for _, n := range []int{0, 1, 3, 64, 1000, 5000, 70000, 300000} {
			rnd := rand.New(rand.NewSource(int64(n)))
			for cutName, cut := range map[string]func() int{"whole": whole,
				"cut": func() int { return 1 + rnd.Intn(1+n/3+40) }} {
				a, b := pair(t, size, p)
				fill(a.mem[:n], n)
				b.recv(1, b.sge(size/2, n/3), b.sge(size/2+n/3, n-n/3))
				a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Solicited,
					SGL: []verbs.SGE{a.sge(0, n/2), a.sge(n/2, n-n/2)}})
				a.post(verbs.SendWR{ID: 2, Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, n)}, Remote: b.at(0)})
				b.recv(2)
				a.post(verbs.SendWR{ID: 3, Op: verbs.OpWriteImm, Imm: 0x01020304, SGL: []verbs.SGE{a.sge(0, n)},
					Remote: b.at(0)})
				a.post(verbs.SendWR{ID: 4, Op: verbs.OpRead,
					SGL: []verbs.SGE{a.sge(size/2, n/2), a.sge(size/2+n/2, n-n/2)}, Remote: b.at(0)})
				a.post(verbs.SendWR{ID: 5, Op: verbs.OpFetchAdd, Add: 5, SGL: []verbs.SGE{a.sge(size-8, 8)},
					Remote: b.at(size - 16)})
				a.post(verbs.SendWR{ID: 6, Op: verbs.OpCompareSwap, Compare: 5, Swap: 77,
					SGL: []verbs.SGE{a.sge(size-8, 8)}, Remote: b.at(size - 16)})
				b.post(verbs.SendWR{ID: 9, Op: verbs.OpRead, SGL: []verbs.SGE{b.sge(size-400000, n)}, Remote: a.at(0)})
				run(a, b, cut)
				for id := uint64(1); id <= 6; id++ {
					if wc := a.next(verbs.StatusSuccess); wc.ID != id {
						t.Fatalf("%s %s %d: completion of %d, want %d", name, cutName, n, wc.ID, id)
					}
				}
				for _, where := range [][]byte{b.mem[:n], b.mem[size/2:][:n], a.mem[size/2:][:n]} {
					if !bytes.Equal(where, a.mem[:n]) {
						t.Fatalf("%s %s %d: not what was sent", name, cutName, n)
					}
				}
				if v := binary.NativeEndian.Uint64(b.mem[size-16:]); v != 77 ||
					binary.NativeEndian.Uint64(a.mem[size-8:]) != 5 {
					t.Fatalf("%s: atomics left %d and brought %d", name, v, a.mem[size-8])
				}
				seen := map[uint64]verbs.WC{}
				for range 3 {
					wc := b.next(verbs.StatusSuccess)
					seen[wc.ID] = wc
				}
				if wc := seen[1]; wc.ByteLen != uint32(n) || wc.Op != verbs.WCRecv {
					t.Fatalf("%s %d: receive %+v", name, n, wc)
				}
				if wc := seen[2]; wc.ByteLen != uint32(n) || wc.Op != verbs.WCRecvWriteImm || wc.Imm != 0x01020304 {
					t.Fatalf("%s %d: receive of a WRITE with immediate %+v", name, n, wc)
				}
				if len(a.events)+len(b.events) > 0 {
					t.Fatalf("%s %d: events %v %v", name, n, a.events, b.events)
				}
			}
		}
	}
}

// TestInlineDoesNotPileUp holds that a sender keeps the data of one message: a connection of inline messages needs
// no more memory the longer it lasts.
func TestInlineDoesNotPileUp(t *testing.T) {
	a, b := pair(t, 100, Params{})
	data := []byte("in line!")
	for i := range 100 {
		b.recv(1, b.sge(0, 8))
		data[0] = byte(i)
		a.post(verbs.SendWR{Op: verbs.OpSend, Inline: data})
		run(a, b, whole)
		a.next(verbs.StatusSuccess)
		b.next(verbs.StatusSuccess)
		if !bytes.Equal(b.mem[:8], data) {
			t.Fatalf("message %d: %q came", i, b.mem[:8])
		}
	}
	if n := a.qp.tx.gather.Len(); n > len(data) {
		t.Errorf("the sender holds %d bytes of messages of %d", n, len(data))
	}
}

// TestWait has a message come before its receive is posted.
func TestWait(t *testing.T) {
	a, b := pair(t, 1<<16, Params{CRC: true})
	fill(a.mem[:9000], 1)
	for range 3 {
		a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 9000)}})
	}
	run(a, b, whole)
	if !b.qp.Paused() || b.cq.Poll(make([]verbs.WC, 1)) != 0 {
		t.Fatal("a message was taken without a receive")
	}
	for range 3 {
		b.recv(1, b.sge(20000, 9000))
		run(a, b, whole)
		b.next(verbs.StatusSuccess)
		if !bytes.Equal(b.mem[20000:29000], a.mem[:9000]) {
			t.Fatal("not what was sent")
		}
		clear(b.mem)
	}
}

// TestRefusals has one end break the rules, and names the Terminate that follows.
func TestRefusals(t *testing.T) {
	other := func(r verbs.Remote) verbs.Remote { r.Key ^= 0x5500; return r }
	for name, c := range map[string]struct {
		wr     func(a, b *host) verbs.SendWR
		cause  iwarp.Cause
		status verbs.Status // of the work request
	}{
		"write key": {func(a, b *host) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpWrite, Remote: other(b.at(0))}
		}, iwarp.TaggedSTag, 0},
		"write bounds": {func(a, b *host) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpWrite, Remote: b.at(1 << 16)}
		}, iwarp.TaggedBounds, 0},
		"read key": {func(a, b *host) verbs.SendWR { return verbs.SendWR{Op: verbs.OpRead, Remote: other(b.at(0))} },
			iwarp.ProtectionSTag, verbs.StatusRemoteAccessError},
		"read bounds": {func(a, b *host) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpRead, Remote: b.at(1<<16 - 99)}
		}, iwarp.ProtectionBounds, verbs.StatusRemoteAccessError},
		"atomic bounds": {func(a, b *host) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpFetchAdd, Remote: b.at(1<<16 - 4), SGL: []verbs.SGE{a.sge(0, 8)}}
		}, iwarp.ProtectionBounds, verbs.StatusRemoteAccessError},
		"too long": {func(a, b *host) verbs.SendWR { return verbs.SendWR{Op: verbs.OpSend} }, iwarp.UntaggedTooLong, 0},
		"invalidate": {func(a, b *host) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpSendInv, InvKey: b.region.Key(), SGL: []verbs.SGE{a.sge(0, 8)}}
		}, iwarp.ProtectionInvalidate, 0},
	} {
		a, b := pair(t, 1<<16, Params{CRC: true})
		b.recv(1, b.sge(0, 64))
		wr := c.wr(a, b)
		if wr.SGL == nil {
			wr.SGL = []verbs.SGE{a.sge(0, 100)}
		}
		before := bytes.Clone(b.mem)
		a.post(wr)
		var got iwarp.Terminate
		a.transmit()
		for len(a.wire) > 0 {
			a.wire = a.wire[b.arrive(a.wire):]
			if b.qp.State() == verbs.StateError {
				break
			}
		}
		a.wire = nil
		b.transmit()
		if len(b.wire) < 28 || !got.Decode(b.wire[iwarp.LengthLen+
			iwarp.UntaggedLen:][:int(binary.BigEndian.Uint16(b.wire))-iwarp.UntaggedLen]) || got.Cause != c.cause {
			t.Fatalf("%s: terminated with %v, want %v", name, got.Cause, c.cause)
		}
		run(a, b, whole)
		a.next(c.status)
		if a.qp.State() != verbs.StateError || b.qp.State() != verbs.StateError || !b.qp.Ending() {
			t.Errorf("%s: states %v and %v", name, a.qp.State(), b.qp.State())
		}
		side := verbs.FailedSend
		switch {
		case c.cause == iwarp.ProtectionInvalidate: // found when the message was complete: no header goes with it
			side = verbs.FailedStream
		case c.status == verbs.StatusSuccess:
			side = verbs.FailedCompleted
		}
		if f := a.qp.Failure(); f == nil || f.Side != side || f.Status != statusOf(c.cause) ||
			f.Reason != verbs.ReasonPeerRefused || !strings.Contains(f.Detail, c.cause.String()) {
			t.Errorf("%s: the requester knows %v", name, f)
		}
		if f := b.qp.Failure(); f == nil || f.Side != verbs.FailedRecv && f.Status != statusOf(c.cause) {
			t.Errorf("%s: the responder knows %v", name, f)
		}
		if !bytes.Equal(before, b.mem) {
			t.Errorf("%s: memory has changed", name)
		}
	}
}

// stream returns the bytes that a sends for a few messages, as one piece.
func stream(t testing.TB, p Params) ([]byte, *host) {
	a, b := pair(t, 1<<16, p)
	fill(a.mem, 3)
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 30)}})
	a.post(verbs.SendWR{Op: verbs.OpWriteImm, Imm: 9, SGL: []verbs.SGE{a.sge(100, 4500)}, Remote: b.at(1000)})
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 9000)}})
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(0, 99)}, Remote: b.at(0)})
	a.transmit()
	return a.wire, b
}

// postForStream posts the receives that stream needs.
func (h *host) postForStream() {
	h.recv(1, h.sge(40000, 30))
	h.recv(2)
	h.recv(3, h.sge(20000, 5000), h.sge(30000, 4000))
}

// TestCuts cuts a stream into two, at every place but in the middle of long payloads.
func TestCuts(t *testing.T) {
	for name, p := range modes {
		s, b := stream(t, p)
		b.postForStream()
		for rest := s; len(rest) > 0; {
			rest = rest[b.arrive(rest):]
		}
		b.transmit()
		for cut := 1; cut < len(s); cut++ {
			if cut > 300 && cut < len(s)-200 {
				cut += 12
			}
			c := newHost(t, 2, 1<<16)
			c.respond(p)
			c.postForStream()
			for _, part := range [][]byte{s[:cut], s[cut:]} {
				for len(part) > 0 {
					n := c.arrive(part)
					if n == 0 {
						t.Fatalf("%s, cut at %d: the stream is not taken", name, cut)
					}
					part = part[n:]
				}
			}
			c.transmit()
			c.drain()
			for id := uint64(1); id <= 3; id++ {
				if wc := c.next(verbs.StatusSuccess); wc.ID != id {
					t.Fatalf("%s, cut at %d: completion %+v", name, cut, wc)
				}
			}
			if !bytes.Equal(c.mem, b.mem) || !bytes.Equal(c.wire, b.wire) {
				t.Fatalf("%s, cut at %d: another result", name, cut)
			}
		}
	}
}

// FuzzStream cuts and changes a stream: no memory may be written to that the peer has no right to.
func FuzzStream(f *testing.F) {
	f.Add(uint8(0), []byte{}, uint16(0), uint8(0))
	f.Add(uint8(0), []byte{0}, uint16(0), uint8(0))
	f.Add(uint8(0), []byte{3, 50, 200}, uint16(0), uint8(0))
	f.Add(uint8(0), []byte{3, 50, 200}, uint16(60), uint8(0xff))
	f.Add(uint8(1), []byte{1, 1, 1, 255}, uint16(70), uint8(1))
	f.Add(uint8(3), []byte{255}, uint16(5), uint8(0x80))
	names := []string{"plain", "CRC", "MSS", "markers", "markers only"}
	f.Fuzz(func(t *testing.T, mode uint8, cuts []byte, at uint16, flip uint8) {
		p := modes[names[int(mode)%len(names)]]
		s, b := stream(t, p)
		b.postForStream()
		s[int(at)%len(s)] ^= flip
		behind := b.mem[len(b.mem) : len(b.mem)+guard]
		for i := 0; len(s) > 0; i++ {
			n := 1 << 20
			if len(cuts) > 0 {
				n = 1 + int(cuts[i%len(cuts)])*16
			}
			if n = b.arrive(s[:min(n, len(s))]); n == 0 {
				break
			}
			s = s[n:]
			b.transmit()
			b.drain()
		}
		if !bytes.Equal(behind, make([]byte, guard)) {
			t.Fatal("memory outside of the region has changed")
		}
	})
}
