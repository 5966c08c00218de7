// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// numbered is a datagram with a number where queue pair numbers are.
func numbered(n uint32, size int) []byte {
	b := make([]byte, size)
	binary.BigEndian.PutUint32(b[4:], 0xff000000|n)
	return b
}

// TestGroup sends to each socket of a group, alone and in trains, while the low numbers
// move from one socket to another.
func TestGroup(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "::1"} {
		first, err := Listen(netip.AddrPortFrom(netip.MustParseAddr(addr), 0), Options{})
		if err != nil {
			t.Skip(err)
		}
		defer first.Close()
		local := first.LocalAddr()
		const bits = 3
		fds, err := first.Group(bits)
		if err != nil {
			t.Fatal(err)
		}
		socks := []*Socket{first}
		for _, fd := range fds[1:] {
			s, err := Adopt(fd, local)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			socks = append(socks, s)
		}
		for _, fd := range fds[1:] {
			unix.Close(fd)
		}
		defer unix.Close(fds[0])
		sender, err := Listen(netip.AddrPortFrom(local.Addr(), 0), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer sender.Close()
		send := func(n uint32, count int) {
			t.Helper()
			train := sender.NewTrain()
			train.Reset(local)
			for range count {
				train.Begin(100)
				train.Add(numbered(n, 100))
			}
			if err := sender.Send(train); err != nil {
				t.Fatal(err)
			}
		}
		for _, low := range []int{0, 5, 0} {
			if err := Steer(fds[0], bits, low); err != nil {
				t.Fatal(err)
			}
			for i, s := range socks {
				wants := []uint32{uint32(i)<<21 | 2, uint32(i)<<21 | 0x1fffff}
				if i == low {
					wants = append(wants, 0, 1)
				}
				for _, n := range wants {
					for _, count := range []int{1, 5} {
						send(n, count)
						if got := len(receive(t, s, count)); got != count {
							t.Fatalf("%v, number %#x: socket %d has %d datagrams, want %d", local, n, i, got, count)
						}
					}
				}
			}
		}
		if _, err := Listen(local, Options{}); err == nil {
			t.Error("a stranger could bind the address of a group")
		}
	}
}
