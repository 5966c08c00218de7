// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"os"
	"testing"
	"time"
)

// The readers here share nothing with the package: they have the numbers of
// draft-ietf-opsawg-pcapng and draft-ietf-opsawg-pcap once more.

// block is one pcapng block: the fixed part of its body, and its options.
type block struct {
	typ     uint32
	fixed   []byte
	options []option
}

type option struct {
	code  uint16
	value string
}

func (b block) option(code uint16) (string, bool) {
	for _, o := range b.options {
		if o.code == code {
			return o.value, true
		}
	}
	return "", false
}

func (b block) number64(t *testing.T, code uint16) uint64 {
	t.Helper()
	v, _ := b.option(code)
	if len(v) != 8 {
		t.Fatalf("option %d of block type %d is %q, want 8 bytes", code, b.typ, v)
	}
	return binary.LittleEndian.Uint64([]byte(v))
}

// packet is the packet of an enhanced packet block.
type packet struct {
	block
	at   time.Time
	data []byte
}

// recording is a whole file.
type recording struct {
	section, iface block
	packets        []packet
	statistics     block // typ 0: there is none
}

// readRecording takes a file apart and fails the test where its structure is
// not one section, one interface, packets, and statistics at the end.
func readRecording(t *testing.T, file []byte) recording {
	t.Helper()
	var r recording
	for i := 0; len(file) > 0; i++ {
		if len(file) < 12 {
			t.Fatalf("block %d: %d bytes left over", i, len(file))
		}
		typ, n := le32(file), int(le32(file[4:]))
		if n < 12 || n%4 != 0 || n > len(file) {
			t.Fatalf("block %d: length %d of %d bytes", i, n, len(file))
		}
		if again := int(le32(file[n-4:])); again != n {
			t.Fatalf("block %d: length %d, and at its end %d", i, n, again)
		}
		body := file[8 : n-4]
		file = file[n:]
		want := map[int]uint32{0: 0x0a0d0d0a, 1: 1}[i]
		if i > 1 && (typ == 6 || typ == 5) && r.statistics.typ == 0 {
			want = typ
		}
		if typ != want {
			t.Fatalf("block %d has type %#x", i, typ)
		}
		switch typ {
		case 0x0a0d0d0a:
			r.section = splitBlock(t, typ, body, 16)
		case 1:
			r.iface = splitBlock(t, typ, body, 8)
		case 5:
			r.statistics = splitBlock(t, typ, body, 12)
		case 6:
			captured, original := int(le32(body[12:])), int(le32(body[16:]))
			if captured != original {
				t.Fatalf("block %d: captured %d of %d bytes", i, captured, original)
			}
			if le32(body) != 0 {
				t.Fatalf("block %d: interface %d", i, le32(body))
			}
			padded := (captured + 3) / 4 * 4
			for _, b := range body[20+captured : 20+padded] {
				if b != 0 {
					t.Fatalf("block %d: padding is not 0", i)
				}
			}
			nanos := uint64(le32(body[4:]))<<32 | uint64(le32(body[8:]))
			r.packets = append(r.packets, packet{
				block: splitBlock(t, typ, body, 20+padded),
				at:    time.Unix(0, int64(nanos)),
				data:  body[20 : 20+captured],
			})
		}
	}
	return r
}

func splitBlock(t *testing.T, typ uint32, body []byte, fixed int) block {
	t.Helper()
	b := block{typ: typ, fixed: body[:fixed]}
	rest := body[fixed:]
	if len(rest) == 0 {
		return b
	}
	for len(rest) >= 4 {
		code, n := binary.LittleEndian.Uint16(rest), int(binary.LittleEndian.Uint16(rest[2:]))
		padded := (n + 3) / 4 * 4
		if len(rest) < 4+padded {
			break
		}
		value := rest[4 : 4+n]
		rest = rest[4+padded:]
		if code == 0 {
			if n != 0 || len(rest) != 0 {
				t.Fatalf("block type %d: options end with length %d and %d bytes after", typ, n, len(rest))
			}
			return b
		}
		b.options = append(b.options, option{code, string(value)})
	}
	t.Fatalf("block type %d: options do not end", typ)
	return b
}

func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// frame is an IPv4 packet that Linux rxe sent, and the facts of its headers.
type frame struct {
	at       time.Time
	ip       []byte // the whole packet
	src, dst netip.AddrPort
	id       uint16
	ttl, tos uint8
	df       bool
	payload  []byte
}

// rxeFrames reads testdata/rxe.pcap: one frame each of eleven opcodes, out of a
// capture of perftest and rdma-cm programs between two Linux 6.12 hosts.
func rxeFrames(t testing.TB) []frame {
	t.Helper()
	b, err := os.ReadFile("testdata/rxe.pcap")
	if err != nil {
		t.Fatal(err)
	}
	if le32(b) != 0xa1b2c3d4 || le32(b[20:]) != 1 {
		t.Fatalf("testdata/rxe.pcap: magic %#x, link type %d", le32(b), le32(b[20:]))
	}
	var frames []frame
	for b = b[24:]; len(b) > 0; {
		at := time.Unix(int64(le32(b)), int64(le32(b[4:]))*1000)
		n := int(le32(b[8:]))
		ip := b[16+14 : 16+n]
		b = b[16+n:]
		src, _ := netip.AddrFromSlice(ip[12:16])
		dst, _ := netip.AddrFromSlice(ip[16:20])
		frames = append(frames, frame{
			at:      at,
			ip:      ip,
			src:     netip.AddrPortFrom(src, binary.BigEndian.Uint16(ip[20:])),
			dst:     netip.AddrPortFrom(dst, binary.BigEndian.Uint16(ip[22:])),
			id:      binary.BigEndian.Uint16(ip[4:]),
			ttl:     ip[8],
			tos:     ip[1],
			df:      ip[6]&0x40 != 0,
			payload: ip[28:],
		})
	}
	if len(frames) != 11 {
		t.Fatalf("testdata/rxe.pcap has %d frames, want 11", len(frames))
	}
	return frames
}

// icrcOK verifies the ICRC of an IPv4 packet (IBTA volume 1, annex A17).
func icrcOK(ip []byte) bool {
	b := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, ip[:len(ip)-4]...)
	p := b[8:]
	for _, i := range []int{1, 8, 10, 11, 26, 27, 28 + 4} { // TOS, TTL, checksums, BTH byte 4
		p[i] = 0xff
	}
	return crc32.ChecksumIEEE(b) == le32(ip[len(ip)-4:])
}
