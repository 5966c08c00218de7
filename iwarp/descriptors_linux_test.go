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
	peer, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(peer), "peer")
	defer file.Close()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = 256
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	var filled []int
	for {
		fd, err := unix.Dup(peer)
		if err != nil {
			break
		}
		filled = append(filled, fd)
	}
	start := time.Now()
	to := netip.MustParseAddrPort(address)
	if err := unix.Connect(peer, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		t.Fatal(err)
	}
	for noRoom() < 3 {
		if time.Since(start) > 2*time.Minute {
			t.Fatal("the device does not notice")
		}
		time.Sleep(time.Millisecond)
	}
	if n, most := noRoom(), uint64(time.Since(start)/(100*time.Millisecond))+2; n > most {
		t.Errorf("the device has looked %d times, at most %d are due", n, most)
	}
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
