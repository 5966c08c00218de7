// SPDX-License-Identifier: Apache-2.0

package iwarp_test

import (
	"encoding/binary"
	"hash/crc32"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// floodLinks is more than a listener holds of links that say nothing.
const floodLinks = 1024 + 76

// TestFlood has a peer make more silent links than a listener holds, and a program connect meanwhile: from
// another address, and from the flood's.
func TestFlood(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 3*floodLinks {
		t.Skipf("%d file descriptors are too few: %v", limit.Cur, err)
	}
	ca := newCA(t)
	for name, open := range map[string]func(testing.TB) (*verbs.Device, netip.Addr){
		"TCP": func(t testing.TB) (*verbs.Device, netip.Addr) {
			dev := open(t, nil)
			return dev, addrOf(t, dev)
		},
		"TLS": func(t testing.TB) (*verbs.Device, netip.Addr) { return openTLS(t, ca, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := open(t)
			address := pair.EchoAddress(t, server)
			honest, from := open(t)
			for what, addr := range map[string]netip.Addr{"another address": netip.MustParseAddr("127.0.0.1"),
				"the same address": from} {
				dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0))}
				var links []net.Conn
				for range floodLinks {
					c, err := dialer.DialContext(t.Context(), "tcp", address)
					if err != nil {
						t.Fatal(err)
					}
					links = append(links, c)
				}
				c, err := cm.Dial(bounded(t), honest, address)
				if err != nil {
					t.Fatalf("a flood from %s: %v", what, err)
				}
				echoes(bounded(t), t, c)
				c.Close()
				for _, c := range links {
					c.Close()
				}
			}
			for loopback.Counter(t, server, "accept_dropped") == 0 {
				time.Sleep(time.Millisecond) // it has room for all of them
			}
		})
	}
}

// TestSCTPFlood is TestFlood with associations that a peer begins and does not go on with.
func TestSCTPFlood(t *testing.T) {
	server, addr := openSCTP(t)
	address := pair.EchoAddress(t, server)
	raw, err := net.Dial("udp", netip.AddrPortFrom(addr, 9899).String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	init := make([]byte, 12, 32)
	init = append(init, 1, 0, 0, 20, 1, 2, 3, 4, 0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 1)
	binary.BigEndian.PutUint16(init[2:], netip.MustParseAddrPort(address).Port())
	answer := make([]byte, 9000)
	raw.SetReadDeadline(time.Now().Add(3 * time.Minute))
	for port := range floodLinks {
		binary.BigEndian.PutUint16(init, uint16(10000+port))
		clear(init[8:12])
		binary.LittleEndian.PutUint32(init[8:], crc32.Checksum(init, crc32.MakeTable(crc32.Castagnoli)))
		if _, err := raw.Write(init); err != nil {
			t.Fatal(err)
		}
		if n, err := raw.Read(answer); err != nil || n < 16 || answer[12] != 2 {
			t.Fatalf("INIT %d is not answered with INIT ACK: % x, %v", port, answer[:n], err)
		}
	}
	honest, _ := openSCTP(t)
	c, err := cm.Dial(bounded(t), honest, address)
	if err != nil {
		t.Fatal(err)
	}
	echoes(bounded(t), t, c)
	c.Close()
}

func addrOf(t testing.TB, dev *verbs.Device) netip.Addr {
	t.Helper()
	gids, err := dev.GIDs(1)
	if err != nil {
		t.Fatal(err)
	}
	return gids[0].GID.Addr()
}

// deaf has the socket at which a device listens for queue pairs drop all packets, and returns a function that
// ends that.
func deaf(t *testing.T, dev *verbs.Device) (end func()) {
	t.Helper()
	addr := addrOf(t, dev)
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	for fd := range len(fds) + 1000 {
		sa, err := unix.Getsockname(fd)
		if err != nil {
			continue
		}
		listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		in4, ok := sa.(*unix.SockaddrInet4)
		if err != nil || listens == 0 || !ok || netip.AddrFrom4(in4.Addr) != addr {
			continue
		}
		drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
		if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: 1, Filter: &drop}); err != nil {
			t.Skipf("this system lets only root filter what a socket gets: %v", err)
		}
		return func() { unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0) }
	}
	t.Fatal("the device does not listen")
	return nil
}

// TestLostSYN has the first packet of the connection between two queue pairs get lost, which TCP sends
// again after a second: their work requests wait for that.
func TestLostSYN(t *testing.T) {
	t.Parallel()
	for !lostSYN(t) {
	}
}

// lostSYN returns false if the machine was so slow that more than one packet was lost.
func lostSYN(t *testing.T) bool {
	t.Helper()
	var qps [2]*verbs.QP
	var eps [2]verbs.Endpoint
	var cqs [2]*verbs.CQ
	var ends []func()
	for i := range qps {
		dev := open(t, nil)
		ends = append(ends, deaf(t, dev))
		pd, err := dev.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		if cqs[i], err = dev.CreateCQ(4, nil); err != nil {
			t.Fatal(err)
		}
		if qps[i], err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cqs[i], RecvCQ: cqs[i]}); err != nil {
			t.Fatal(err)
		}
		if eps[i], err = qps[i].Endpoint(0); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	for i := range qps {
		if err := qps[i].Connect(eps[i], eps[1-i], nil); err != nil {
			t.Fatal(err)
		}
		if err := qps[i].PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(700 * time.Millisecond) // longer than all retries of the queue pairs, and shorter than TCP waits
	for _, end := range ends {
		end()
	}
	if time.Since(start) > 950*time.Millisecond {
		return false
	}
	for i := range cqs {
		var wc [1]verbs.WC
		if _, err := cqs[i].Wait(bounded(t), wc[:]); err != nil {
			t.Fatal(err)
		}
		if wc[0].Status != verbs.StatusSuccess {
			t.Error(wc[0].Status)
		}
	}
	return true
}
