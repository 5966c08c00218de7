// SPDX-License-Identifier: Apache-2.0

package iwarp_test

import (
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// TestNoDescriptors has a process run out of file descriptors while a peer connects: the
// link waits, the device looks for it now and then only, and takes it when there is room.
func TestNoDescriptors(t *testing.T) {
	if os.Getenv("RAMJET_TEST_NO_DESCRIPTORS") == "" { // the limit is the process's
		cmd := exec.Command(os.Args[0], "-test.run=^TestNoDescriptors$", "-test.v")
		cmd.Env = append(os.Environ(), "RAMJET_TEST_NO_DESCRIPTORS=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	dev, address := listen(t)
	noRoom := func() uint64 { return loopback.Counter(t, dev, "accept_no_room") }
	var peers [8]int
	for i := range peers {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		peers[i] = fd
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = 256
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	var filled []int
	fill := func() {
		for {
			fd, err := unix.Dup(peers[0])
			if err != nil {
				return
			}
			filled = append(filled, fd)
		}
	}
	fill()
	start := time.Now()
	to := netip.MustParseAddrPort(address)
	// The process itself, such as Go's runtime, may give a descriptor back at any time, and the device then takes a
	// link. That descriptor is gone, and another peer connects.
	connected, last, since := 0, uint64(0), time.Time{}
	for noRoom() < 3 {
		fill()
		now := time.Now()
		if n := noRoom(); n != last {
			last, since = n, now
		}
		if connected < len(peers) && now.Sub(since) > time.Second {
			if err := unix.Connect(peers[connected],
				&unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
				t.Fatal(err)
			}
			connected++
			since = now
		}
		if now.Sub(start) > 2*time.Minute {
			t.Fatalf("with %d peers the device has noticed %d times", connected, last)
		}
		time.Sleep(time.Millisecond)
	}
	if n, most := noRoom(), uint64(time.Since(start)/(100*time.Millisecond)+1)+uint64(connected); n > most {
		t.Errorf("the device has looked %d times, at most %d are due", n, most)
	}
	file := os.NewFile(uintptr(peers[connected-1]), "peer")
	defer file.Close()
	for _, fd := range filled {
		unix.Close(fd)
	}
	w := rdmap.Proposal{CRC: true, ULPDU: rdmap.MaxULPDU, IRD: 1, ORD: 1}
	if _, err := file.Write(rdmap.AppendRequest(nil, &w, nil)); err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := file.Read(b[:]); err != nil {
		t.Fatalf("no reply: %v", err)
	}
}

// TestListenerOutlivesDevice closes a listener after its device, when its descriptor's number
// is that of something else.
func TestListenerOutlivesDevice(t *testing.T) {
	dev := open(t, nil)
	gids, err := dev.GIDs(1)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(gids[0].GID.Addr(), 0)
	l, err := driver.DeviceOf(dev).(driver.StreamDevice).ListenStream(at, 1, func(driver.StreamEvent) {})
	if err != nil {
		t.Fatal(err)
	}
	dev.Close()
	var files []*os.File
	for range 8 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	l.Close()
	for _, f := range files {
		if _, err := f.Stat(); err != nil {
			t.Error(err)
		}
	}
}
