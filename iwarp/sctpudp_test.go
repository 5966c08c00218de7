// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

// newMux makes a mux of an address of its own, without a listener.
func newMux(t testing.TB) *sctpMux {
	t.Helper()
	for range 100 {
		if m, err := newSCTPMux(loopback.Next(), func(*sctpPackets) bool { return false }); err == nil {
			t.Cleanup(func() { m.close() })
			return m
		}
	}
	t.Skip("no loopback address can be had")
	return nil
}

// FuzzSCTPPacket takes packets whose checksum is right, at a mux that has an association: they
// go to it, or nowhere, and none is kept.
func FuzzSCTPPacket(f *testing.F) {
	f.Add([]byte{}, uint16(0))
	f.Add([]byte{0}, uint16(0))
	f.Add([]byte{0x1f, 0x90, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 20, 1, 2, 3, 4, 0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0,
		1}, uint16(0))
	f.Add([]byte{0, 9, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 17, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16, 5}, uint16(0))
	f.Add([]byte{0, 9, 0, 7}, uint16(maxPacket-4))
	f.Add([]byte{0, 9, 0, 7}, uint16(maxPacket-3))
	m := newMux(f)
	peer := netip.MustParseAddrPort(m.udp.LocalAddr().String())
	// long inputs would keep the fuzzer busy with making them shorter
	f.Fuzz(func(t *testing.T, b []byte, zeros uint16) {
		b = append(b, make([]byte, zeros%(maxPacket+2))...)
		key := sctpKey{peer: peer, peerPort: 9, localPort: 7}
		p := m.add(key, true)
		if p == nil {
			t.Fatal("an association is left")
		}
		defer p.Close()
		if len(b) >= sctpHeaderLen {
			binary.LittleEndian.PutUint32(b[8:], sctpSum(b))
		}
		whole := len(b) >= sctpHeaderLen+4 && len(b) <= maxPacket && binary.BigEndian.Uint16(b) == 9 &&
			binary.BigEndian.Uint16(b[2:]) == 7
		m.take(b, key.peer)
		if n := len(p.in); (n == 1) != whole {
			t.Errorf("%d packets for the association, %v", n, whole)
		}
		if len(m.assocs) != 1 {
			t.Errorf("%d associations", len(m.assocs))
		}
		if whole {
			got := make([]byte, maxPacket)
			n, err := p.Read(got)
			if err != nil || n != len(b) || binary.BigEndian.Uint16(got) != libraryPort ||
				binary.LittleEndian.Uint32(got[8:]) != sctpSum(got[:n]) {
				t.Errorf("%d bytes, %v", n, err)
			}
		}
	})
}
