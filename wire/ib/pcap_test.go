// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// A frame is a RoCEv2 packet of a capture.
type frame struct {
	num       int // from 1, as Wireshark counts
	src, dst  netip.AddrPort
	df        bool
	id        uint16 // IPv4 identification
	transport []byte // BTH to ICRC
}

// readFrames returns the RoCEv2 frames of a classic pcap file of Ethernet and
// IPv4.
func readFrames(tb testing.TB, name string) []frame {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	le := binary.LittleEndian
	if le.Uint32(b) != 0xa1b2c3d4 || le.Uint32(b[20:]) != 1 {
		tb.Fatalf("%s: not a little-endian pcap of Ethernet", name)
	}
	var frames []frame
	b = b[24:]
	for num := 1; len(b) > 0; num++ {
		n := int(le.Uint32(b[8:]))
		if int(le.Uint32(b[12:])) != n {
			tb.Fatalf("%s: frame %d was cut", name, num)
		}
		eth := b[16 : 16+n]
		b = b[16+n:]
		be := binary.BigEndian
		if be.Uint16(eth[12:]) != 0x0800 {
			continue
		}
		ip := eth[14:]
		ip = ip[:be.Uint16(ip[2:])]
		if ip[0] != 0x45 || ip[9] != 17 || be.Uint16(ip[22:]) != UDPPort {
			continue
		}
		frames = append(frames, frame{
			num:       num,
			src:       netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[12:])), be.Uint16(ip[20:])),
			dst:       netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[16:])), be.Uint16(ip[22:])),
			df:        ip[6]&0x40 != 0,
			id:        be.Uint16(ip[4:]),
			transport: ip[28:],
		})
	}
	return frames
}

// captures lists the capture files and the RoCEv2 frames in them.
var captures = []struct {
	name string
	mtu  int
}{
	{"roce-mtu1024.pcap", 1024},
	{"roce-mtu4096.pcap", 4096},
}
