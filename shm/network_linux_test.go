// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/memorydev"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// end is one side of a link, without a device.
type end struct {
	*link
	net    *network
	domain memorydev.Domain
	found  int // reports of the link
}

func (e *end) look() {
	e.net.asked.Store(true)
	e.net.Ready(func(owner any, _, _ bool) {
		if owner == e {
			e.found++
		}
	})
}

// newEnds connects two networks.
func newEnds(t *testing.T) (a, b *end) {
	t.Helper()
	var ends [2]*end
	for i := range ends {
		n, err := newNetwork(netip.MustParseAddr("127.0.0.1"), &Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		ends[i] = &end{net: n.(*network)}
		if ends[i].domain, err = n.NewDomain(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(ends[i].domain.Close)
	}
	a, b = ends[0], ends[1]
	b.net.place = a.net.place
	acc, err := a.net.Listen(netip.MustParseAddrPort("127.0.0.1:0"), 8)
	if err != nil {
		t.Fatal(err)
	}
	l, err := b.net.Dial(netip.MustParseAddrPort("127.0.0.1:0"), acc.Addr(), 0)
	if err != nil {
		t.Fatal(err)
	}
	b.link = l.(*link)
	l.Own(b)
	for i := 0; a.link == nil || b.Connected() != nil; i++ {
		if i == 1000 {
			t.Fatalf("no connection: %v", b.Connected())
		}
		a.look()
		b.look()
		if l, err := acc.Accept(); err == nil {
			a.link = l.(*link)
			l.Own(a)
		} else if !errors.Is(err, softdev.ErrAgain) {
			t.Fatal(err)
		}
	}
	for _, e := range ends {
		if _, err := e.Join(e.domain); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

// allocate makes a region's memory, and publishes it.
func (e *end) allocate(t *testing.T, key uint32) (number uint64) {
	t.Helper()
	mem, free, number, err := e.net.Allocate(4096, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(free)
	e.domain.Publish(local.Entry{Key: key, Access: uint32(verbs.RemoteWrite), Segment: number, Base: 1 << 20,
		Length: uint64(len(mem))})
	return number
}

// TestEndFoundEarly has a side look for memory of a peer that has ended. It comes upon the end before the
// system reports it, and is told of it all the same.
func TestEndFoundEarly(t *testing.T) {
	a, b := newEnds(t)
	a.look()
	b.look()
	number := b.allocate(t, 7<<8)
	b.link.Close(true)
	a.net.passes = 0
	a.net.Ready(func(any, bool, bool) {}) // the peer's doorbell, which tells of less
	a.net.doorbell.Take(1, func(int) {})
	a.found = 0
	if mem, _ := a.Segment(number); mem == nil || !a.Ended() {
		t.Fatalf("%d bytes are mapped; ended: %v", len(mem), a.Ended())
	}
	if a.net.Arm() {
		t.Error("nobody would look")
	}
	for range 2 * askEvery {
		a.look()
	}
	if a.found == 0 {
		t.Error("nobody is told that the peer has ended")
	}
}

// TestLateSegment has an entry seen before its memory has come: the generation tells of it.
func TestLateSegment(t *testing.T) {
	a, b := newEnds(t)
	before := a.Generation()
	if mem, _ := a.Segment(1); mem != nil {
		t.Fatal("there is memory")
	}
	number := b.allocate(t, 7<<8)
	if mem, _ := a.Segment(number); mem == nil {
		t.Fatal("there is no memory")
	}
	if a.Generation() == before {
		t.Error("what was found missing counts as missing still")
	}
}

// TestLeftAtWork ends links while the peer works in this side's memory, and holds that this side knows of
// it until the peer has finished, or has ended.
func TestLeftAtWork(t *testing.T) {
	for _, ends := range []bool{true, false} {
		a, b := newEnds(t)
		work := b.own[atWork:]
		binary.NativeEndian.PutUint32(work, 1)
		a.link.Close(true)
		busy := 0
		a.net.Leaving(func(softdev.Worker) { busy++ })
		if a.Work() != 1 || busy != 1 {
			t.Fatalf("the work is at %d, want 1, and %d peers are at work", a.Work(), busy)
		}
		if b.look(); !b.Ended() {
			t.Error("the peer does not see the end of the link")
		}
		if ends {
			b.link.Close(true)
		} else {
			binary.NativeEndian.PutUint32(work, 2)
		}
		if a.Work()%2 != 0 {
			t.Errorf("the work is at %d", a.Work())
		}
		busy = 0
		if a.net.Leaving(func(softdev.Worker) { busy++ }); busy != 0 || len(a.net.leaving) != 0 {
			t.Errorf("%d peers are at work, %d are leaving", busy, len(a.net.leaving))
		}
	}
}

// TestClosedPeerEnds has a peer end that was at work when the link was closed. Nothing stays of it, also if
// nobody asks who is at work.
func TestClosedPeerEnds(t *testing.T) {
	a, b := newEnds(t)
	binary.NativeEndian.PutUint32(b.own[atWork:], 1)
	a.link.Close(true)
	if a.look(); len(a.net.leaving) != 1 {
		t.Fatalf("%d are leaving", len(a.net.leaving))
	}
	fd := a.net.leaving[0].sock.FD()
	b.link.Close(true)
	if a.look(); len(a.net.leaving) != 0 || a.net.owners[int32(fd)] != nil {
		t.Errorf("%d are leaving", len(a.net.leaving))
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("the socket: %v", err)
	}
}

// TestSurplus has many peers leave: a process drives out its own.
func TestSurplus(t *testing.T) {
	a, b := newEnds(t)
	binary.NativeEndian.PutUint32(b.own[atWork:], 1)
	a.link.Close(true)
	one := a.net.leaving[0]
	other := *one
	other.sock = new(shmem.Socket) // of process 0
	for _, c := range []struct {
		all  []*closedPeer
		gone int
	}{{[]*closedPeer{one}, 0}, {[]*closedPeer{one, &other, &other}, 1},
		{[]*closedPeer{&other, one, one, &other, one}, 1}, {[]*closedPeer{one, one, &other}, 0}} {
		if got := surplus(c.all); got != c.gone {
			t.Errorf("%d of %d gives way, not %d", got, len(c.all), c.gone)
		}
	}
}

// TestCloseAll closes a device with a region, and a network that lets nobody in at present: no descriptor
// stays open.
func TestCloseAll(t *testing.T) {
	dev, err := Open("127.0.0.1", &Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	mr, err := pd.AllocMR(4096, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	dev.Close()
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if file, _ := os.Readlink(fd); strings.Contains(file, "memfd:ramjet-region") {
			t.Errorf("%s is open: %s", fd, file)
		}
	}
	mr.Bytes()[0] = 1 // the memory stays
	mr.Close()

	n, err := newNetwork(netip.MustParseAddr("127.0.0.1"), &Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	a, err := n.Listen(netip.MustParseAddrPort("127.0.0.1:0"), 8)
	if err != nil {
		t.Fatal(err)
	}
	a.Watch(false)
	n.Close()
	if a.(*acceptor).listener != nil {
		t.Error("the listener is open")
	}
}

// TestHuge has a peer offer more memory than there are addresses to spare.
func TestHuge(t *testing.T) {
	a, _ := newEnds(t)
	fd, err := unix.MemfdCreate("huge", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, maxMappedBytes+1<<20); err != nil {
		t.Skip("the system has no files of that size")
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	before := a.net.mappedBytes
	if m := a.net.attach(fd, 1, true); m != nil {
		t.Errorf("%d bytes are mapped", len(m.seg.Bytes()))
	}
	if a.net.mappedBytes != before {
		t.Errorf("%d bytes count as mapped, %d before", a.net.mappedBytes, before)
	}
}

// TestMeet has peers bring the same doorbell, and another.
func TestMeet(t *testing.T) {
	a, b := newEnds(t)
	meet := func(doorbell int) *device {
		fd, err := unix.FcntlInt(uintptr(doorbell), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		d, err := a.net.meet(fd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.net.leave(d) })
		return d
	}
	known := a.device
	if d := meet(b.net.doorbellSeg.FD()); d != known {
		t.Error("the same device is two")
	}
	if d := meet(a.net.doorbellSeg.FD()); d == known {
		t.Error("two devices are one")
	}
}

// TestPeersHoldNobodyAsleep has a peer write to the word that wakes a device: it takes back each wake-up.
func TestPeersHoldNobodyAsleep(t *testing.T) {
	a, _ := newEnds(t)
	word := a.net.doorbell.Asleep()
	var stop atomic.Bool
	var rogue sync.WaitGroup
	rogue.Go(func() {
		for !stop.Load() {
			atomic.StoreUint32(word, 1)
		}
	})
	for range 20 {
		woken := make(chan error, 1)
		go func() { woken <- a.net.Wait() }()
		a.net.Wake()
		select {
		case err := <-woken:
			noError(t, err)
		case <-time.After(30 * time.Second):
			t.Fatal("it sleeps on")
		}
	}
	stop.Store(true)
	rogue.Wait()
}

// TestRefusedWakes has a device that sleeps hear of a dial that was refused at once.
func TestRefusedWakes(t *testing.T) {
	m, err := newNetwork(netip.MustParseAddr("127.0.0.1"), &Options{Dir: t.TempDir()})
	noError(t, err)
	n := m.(*network)
	t.Cleanup(func() { n.Close() })
	for !n.Arm() { // the sockets are looked at once to begin with
		n.Ready(func(any, bool, bool) { t.Error("there is something to look at") })
	}
	woken := make(chan error, 1)
	go func() { woken <- n.Wait() }()
	l, err := n.Dial(netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("127.0.0.2:7"), 0)
	noError(t, err)
	select {
	case err := <-woken:
		noError(t, err)
	case <-time.After(30 * time.Second):
		n.Wake()
		<-woken
		t.Error("it sleeps on")
	}
	e := &end{link: l.(*link), net: n}
	l.Own(e)
	if e.look(); e.found != 1 || !errors.Is(l.Connected(), unix.ECONNREFUSED) {
		t.Errorf("%d reports, %v", e.found, l.Connected())
	}
	l.Close(true)
}

// TestSleepsEnd has a device sleep with nobody to wake it, until its deadline or the alarm.
func TestSleepsEnd(t *testing.T) {
	t.Parallel() // it waits
	a, _ := newEnds(t)
	for _, limit := range []time.Duration{0, -time.Second, time.Millisecond, 3 * maxSleep / 2} { // 0: no deadline
		start, deadline := time.Now(), time.Time{}
		if limit != 0 {
			deadline = start.Add(limit)
		}
		a.net.SetDeadline(deadline)
		ended := make(chan error, 1)
		go func() {
			for {
				atomic.StoreUint32(a.net.doorbell.Asleep(), 1)
				err := a.net.Wait()
				if slept := time.Since(start); err != nil || slept >= limit && (limit != 0 || slept >= maxSleep/10) {
					ended <- err
					return
				}
			}
		}()
		select {
		case err := <-ended:
			noError(t, err)
		case <-time.After(30 * time.Second):
			t.Fatalf("with a limit of %v it sleeps on", limit)
		}
	}
}
