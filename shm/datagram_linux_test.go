// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"bytes"
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	testQKey     = verbs.QKey(0x1111)
	datagramKind = 0x80
	firstPort    = 47974 // of datagrams, for the first device of an address
)

// talker is a UD queue pair of a device of its own.
type talker struct {
	t   *testing.T
	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	mr  *verbs.MR
	qp  *verbs.QP
}

// noError ends the test after an error.
func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newTalker opens a device at an address of a directory.
func newTalker(t *testing.T, dir, addr string) *talker {
	t.Helper()
	k := &talker{t: t}
	var err error
	k.dev, err = Open(addr, &Options{Dir: dir})
	noError(t, err)
	t.Cleanup(func() { k.dev.Close() })
	k.pd, err = k.dev.AllocPD()
	noError(t, err)
	k.cq, err = k.dev.CreateCQ(64, nil)
	noError(t, err)
	k.mr, err = k.pd.RegMR(make([]byte, 1<<16), verbs.LocalWrite)
	noError(t, err)
	k.qp, err = k.pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: k.cq, RecvCQ: k.cq,
		Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1}, SignalAll: true})
	noError(t, err)
	noError(t, k.qp.StartUD(testQKey))
	return k
}

// send sends n datagrams of 4096 bytes to a queue pair number at an address.
func (k *talker) send(addr string, qpn verbs.QPN, n int) {
	k.t.Helper()
	h, err := k.pd.CreateAH(verbs.AHAttr{DGID: gidOf(addr)})
	noError(k.t, err)
	defer h.Close()
	for range n {
		noError(k.t, k.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{k.mr.SGE(0, 4096)}, AH: h,
			RemoteQPN: qpn, RemoteQKey: testQKey}))
	}
}

func gidOf(addr string) verbs.GID { return verbs.GID(netip.MustParseAddr(addr).As16()) }

// completes waits for n successful completions.
func (k *talker) completes(n int) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute)
	defer cancel()
	var wcs [64]verbs.WC
	for n > 0 {
		got, err := k.cq.Wait(ctx, wcs[:])
		noError(k.t, err)
		for _, wc := range wcs[:got] {
			if wc.Status != verbs.StatusSuccess {
				k.t.Fatalf("%+v", wc)
			}
		}
		n -= got
	}
	if n < 0 {
		k.t.Fatalf("%d completions too many", -n)
	}
}

// drops waits until the device has dropped so many datagrams for a reason: devices publish their counters later.
func (k *talker) drops(reason string, want uint64) {
	k.t.Helper()
	for end := time.Now().Add(time.Minute); k.dropped(reason) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			k.t.Fatalf("%d were dropped for %s, want %d", k.dropped(reason), reason, want)
		}
	}
}

// reaches sends datagrams to another one that has a receive, until that has one: they are dropped while a process gets
// no processor for seconds.
func (k *talker) reaches(o *talker, addr string) {
	k.t.Helper()
	for {
		k.send(addr, o.qp.Num(), 1)
		k.completes(1)
		ctx, cancel := context.WithTimeout(k.t.Context(), time.Second)
		var wcs [1]verbs.WC
		n, err := o.cq.Wait(ctx, wcs[:])
		cancel()
		if n == 1 && wcs[0].Status == verbs.StatusSuccess {
			return
		}
		if n == 1 || k.t.Context().Err() != nil {
			k.t.Fatalf("%+v, %v", wcs[0], err)
		}
	}
}

// dropped returns how many datagrams the device dropped for a reason.
func (k *talker) dropped(reason string) uint64 {
	k.t.Helper()
	list, err := k.dev.Metrics()
	noError(k.t, err)
	for _, m := range list {
		if m.Name == "dropped" && m.Labels[0].Value == reason {
			return m.Value
		}
	}
	k.t.Fatalf("no metric of %s", reason)
	return 0
}

// TestDatagramsToNobody sends where no device is, and after that where one has come, gone, and come again.
func TestDatagramsToNobody(t *testing.T) {
	dir := t.TempDir()
	a := newTalker(t, dir, "127.0.0.1")
	a.send("127.0.0.2", 5, 3)
	a.completes(3)
	a.drops("nobody_there", 3)
	for range 3 {
		b := newTalker(t, dir, "127.0.0.2")
		for {
			noError(t, b.qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{b.mr.SGE(0, 8192)}}))
			a.send("127.0.0.2", b.qp.Num(), 1)
			a.completes(1)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			var wcs [1]verbs.WC
			n, _ := b.cq.Wait(ctx, wcs[:])
			cancel()
			if n == 1 && wcs[0].Status == verbs.StatusSuccess {
				break
			} // else it may have been in the link of the device before
		}
		b.dev.Close()
	}
}

// TestDatagramsStalled sends to a device whose process says nothing, as if it were stopped. Datagrams wait for
// it for a while, are dropped at once after that, and those to others are not held back.
func TestDatagramsStalled(t *testing.T) {
	t.Parallel() // it waits
	dir := t.TempDir()
	listener, err := shmem.Place{Dir: dir}.Listen(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"),
		firstPort).String(), 8)
	noError(t, err)
	defer listener.Close()
	a, b := newTalker(t, dir, "127.0.0.1"), newTalker(t, dir, "127.0.0.3")
	start := time.Now()
	a.send("127.0.0.2", 5, 40)
	a.completes(40)
	if waited := time.Since(start); waited < 3*time.Second {
		t.Errorf("they were dropped after %v", waited)
	}
	a.drops("receiver_stalled", 40)
	noError(t, b.qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{b.mr.SGE(0, 8192)}}))
	a.send("127.0.0.2", 5, 1)
	a.reaches(b, "127.0.0.3")
	a.completes(1)
	noError(t, a.qp.Close())
}

// lateListener listens for the datagrams of a device whose process does not run until it accepts.
type lateListener struct {
	t   *testing.T
	net *network
	acc streamdev.Acceptor
	end *end
}

func newLateListener(t *testing.T, dir, addr string) *lateListener {
	t.Helper()
	m, err := newNetwork(netip.MustParseAddr(addr), &Options{Dir: dir})
	noError(t, err)
	n := m.(*network)
	t.Cleanup(func() { n.Close() })
	acc, err := n.Listen(netip.AddrPortFrom(n.addr, firstPort), 8)
	noError(t, err)
	return &lateListener{t: t, net: n, acc: acc, end: &end{net: n}}
}

// until waits for a condition.
func (o *lateListener) until(what string, cond func() bool) {
	o.t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if o.end.look(); time.Now().After(end) {
			o.t.Fatalf("%s does not come", what)
		}
	}
}

// accept takes the sender's link.
func (o *lateListener) accept() {
	o.t.Helper()
	o.until("the sender", func() bool {
		l, err := o.acc.Accept()
		if err == nil {
			o.end.link = l.(*link)
			l.Own(o.end)
		}
		return err == nil
	})
	_, err := o.end.Join(nil)
	noError(o.t, err)
}

// TestDatagramsAwaitRoom sends more than there is room for, to a device that takes it later. The sender sleeps
// meanwhile, and asks to be woken when there is room.
func TestDatagramsAwaitRoom(t *testing.T) {
	for wished := false; !wished; {
		dir := t.TempDir()
		o, a := newLateListener(t, dir, "127.0.0.2"), newTalker(t, dir, "127.0.0.1")
		start := time.Now()
		a.send("127.0.0.2", 5, 40)
		o.accept()
		const awaitsHead = requestsAt + 8
		o.until("the wish for room", func() bool {
			wished = atomic.LoadUint32((*uint32)(unsafe.Pointer(&o.end.theirs[awaitsHead]))) != 0
			return wished || tooLate(start)
		})
	}
}

// tooLate reports whether datagrams sent at a time may have been dropped since, as nobody took them: once more, then.
func tooLate(start time.Time) bool {
	return time.Since(start) > time.Duration(streamdev.UnreliableTimeout)*3/4
}

// TestDatagramsKept changes the memory of datagrams that wait for a device to answer: the device gets the bytes that
// were posted.
func TestDatagramsKept(t *testing.T) {
	for !datagramsKept(t) {
	}
}

// datagramsKept returns false if the machine was too slow for it.
func datagramsKept(t *testing.T) bool {
	dir, start := t.TempDir(), time.Now()
	o, a := newLateListener(t, dir, "127.0.0.2"), newTalker(t, dir, "127.0.0.1")
	for _, old := range []byte{0xa1, 0xa2} {
		fill(a.mr.Bytes(), old)
		a.send("127.0.0.2", 5, 1)
	}
	fill(a.mr.Bytes(), 0xee)
	o.accept()
	a.completes(2)
	if tooLate(start) {
		return false
	}
	for b, want := range map[byte]bool{0xa1: true, 0xa2: true, 0xee: false} {
		datagram := bytes.Repeat([]byte{b}, 4096)
		if bytes.Contains(o.end.theirs[requestsAt:], datagram) != want {
			t.Errorf("a datagram of %#x: %t, want %t", b, !want, want)
		}
	}
	return true
}

func fill(b []byte, with byte) {
	for i := range b {
		b[i] = with
	}
}

// TestDatagramsFlood sends more than there are receives for: the rest is dropped and counted.
func TestDatagramsFlood(t *testing.T) {
	dir := t.TempDir()
	a, b := newTalker(t, dir, "127.0.0.1"), newTalker(t, dir, "127.0.0.2")
	for range 10 {
		noError(t, b.qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{b.mr.SGE(0, 8192)}}))
	}
	for range 10 {
		a.send("127.0.0.2", b.qp.Num(), 60)
		a.completes(60)
	}
	b.completes(10)
	// a receiver that gets no processor for seconds is taken for a stalled one
	dropped := func() uint64 { return b.dropped("no_receive_posted") + a.dropped("receiver_stalled") }
	for end := time.Now().Add(time.Minute); dropped() < 590; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of 590 were dropped", dropped())
		}
	}
}

// TestDatagramsRogue has a peer send malformed datagrams. Its link ends, and others go on.
func TestDatagramsRogue(t *testing.T) {
	dir := t.TempDir()
	a, b := newTalker(t, dir, "127.0.0.1"), newTalker(t, dir, "127.0.0.2")
	n, err := newNetwork(netip.MustParseAddr("127.0.0.9"), &Options{Dir: dir})
	noError(t, err)
	t.Cleanup(func() { n.Close() })
	for _, kind := range []uint32{datagramKind, 1 | 1<<8 | 1<<9} { // a datagram, a SEND
		r := rogue{end: &end{net: n.(*network)}, t: t}
		l, err := n.Dial(netip.MustParseAddrPort("127.0.0.9:0"),
			netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), firstPort), 0)
		noError(t, err)
		r.link = l.(*link)
		l.Own(r.end)
		r.until("the hello", func() bool { return l.Connected() == nil })
		_, err = r.Join(nil)
		noError(t, err)
		r.ring, err = local.NewSender(r.own[requestsAt:], requestRing)
		noError(t, err)
		body := make([]byte, 24)
		r.say(kind, body)
		r.until("its end", func() bool {
			if kind == datagramKind && b.dropped("no_such_qp") == 1 {
				r.say(kind, body[:23])
			}
			return r.Ended()
		})
		r.link.Close(true)
	}
	noError(t, b.qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{b.mr.SGE(0, 8192)}}))
	a.reaches(b, "127.0.0.2")
}
