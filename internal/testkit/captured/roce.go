// SPDX-License-Identifier: Apache-2.0

// Package captured reads tests' captures of real peers, classic pcap files.
package captured

import (
	"encoding/binary"
	"net/netip"
	"os"
	"testing"
)

// Frame is a RoCEv2 packet of a capture.
type Frame struct {
	Num       int // from 1, as Wireshark counts
	Src, Dst  netip.AddrPort
	DF        bool
	ID        uint16 // IPv4 identification
	Transport []byte // BTH to ICRC
}

// rocePort is the UDP port of RoCEv2 (annex A17).
const rocePort = 4791

// RoCE returns the RoCEv2 frames of a pcap file of Ethernet and IPv4.
func RoCE(tb testing.TB, file string) []Frame {
	tb.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	le := binary.LittleEndian
	if le.Uint32(b) != 0xa1b2c3d4 || le.Uint32(b[20:]) != 1 {
		tb.Fatalf("%s: not a little-endian pcap of Ethernet", file)
	}
	var frames []Frame
	b = b[24:]
	for num := 1; len(b) > 0; num++ {
		n := int(le.Uint32(b[8:]))
		if int(le.Uint32(b[12:])) != n {
			tb.Fatalf("%s: frame %d was cut", file, num)
		}
		eth := b[16 : 16+n]
		b = b[16+n:]
		be := binary.BigEndian
		if be.Uint16(eth[12:]) != 0x0800 {
			continue
		}
		ip := eth[14:]
		ip = ip[:be.Uint16(ip[2:])]
		if ip[0] != 0x45 || ip[9] != 17 || be.Uint16(ip[22:]) != rocePort {
			continue
		}
		frames = append(frames, Frame{
			Num:       num,
			Src:       netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[12:])), be.Uint16(ip[20:])),
			Dst:       netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[16:])), be.Uint16(ip[22:])),
			DF:        ip[6]&0x40 != 0,
			ID:        be.Uint16(ip[4:]),
			Transport: ip[28:],
		})
	}
	return frames
}
