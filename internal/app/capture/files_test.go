// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// at is when the frames of these tests were captured.
var at = time.Date(2026, 2, 3, 4, 5, 6, 123456789, time.UTC)

// send is a packet of InfiniBand's transport without its ICRC.
func send(psn ib.PSN, payload string) []byte {
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, PKey: ib.DefaultPKey, DestQP: 0x1234, PSN: psn,
		PadCount: ib.PadFor(len(payload))}, Payload: []byte(payload)}
	return p.Append(nil)
}

var (
	hostA = netip.MustParseAddr("192.0.2.1")
	hostB = netip.MustParseAddr("192.0.2.2")
)

// ipv4 is a RoCEv2 packet from its IP header on, with an ICRC.
func ipv4(psn ib.PSN, payload string) []byte {
	t := send(psn, payload)
	udp := 8 + len(t) + ib.ICRCLen
	b := []byte{0x45, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(20+udp))
	b = append(b, 0, 7, 0x40, 0, 64, ipUDP, 0, 0)
	b = append(append(b, hostA.AsSlice()...), hostB.AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, 50000)
	b = binary.BigEndian.AppendUint16(b, ib.UDPPort)
	b = binary.BigEndian.AppendUint16(b, uint16(udp))
	b = append(append(b, 0, 0), t...)
	flow := ib.NewPseudoHeader(netip.AddrPortFrom(hostA, 50000), netip.AddrPortFrom(hostB, ib.UDPPort), true)
	return ib.AppendICRC(b, 28, flow.Seed(udp, 7))
}

// ibPacket is a packet from its LRH to its VCRC.
func ibPacket(psn ib.PSN, payload string) []byte {
	t := send(psn, payload)
	lrh := ib.LRH{LNH: ib.LNHLocal, SLID: 3, DLID: 5, PktLen: uint16((ib.LRHLen + len(t) + ib.ICRCLen) / 4)}
	b := append(lrh.Append(nil), t...)
	sum, _ := ib.LocalICRC(b)
	return ib.AppendVCRC(binary.LittleEndian.AppendUint32(b, sum))
}

// pcap is a file of one frame.
func pcap(order binary.AppendByteOrder, nanos bool, link LinkType, frame []byte, length int) []byte {
	magic, fraction := uint32(0xa1b2c3d4), uint32(at.Nanosecond()/1000)
	if nanos {
		magic, fraction = 0xa1b23c4d, uint32(at.Nanosecond())
	}
	b := order.AppendUint32(nil, magic)
	b = order.AppendUint16(b, 2)
	b = order.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...)
	b = order.AppendUint32(b, 1<<16)
	b = order.AppendUint32(b, uint32(link))
	b = order.AppendUint32(b, uint32(at.Unix()))
	b = order.AppendUint32(b, fraction)
	b = order.AppendUint32(b, uint32(len(frame)))
	b = order.AppendUint32(b, uint32(length))
	return append(b, frame...)
}

// pcapng is a file of one enhanced packet, whose interface counts time as resolution and stamp say.
func pcapng(order binary.AppendByteOrder, link LinkType, frame []byte, resolution byte, stamp uint64) []byte {
	block := func(b []byte, typ uint32, body []byte) []byte {
		for len(body)%4 != 0 {
			body = append(body, 0)
		}
		b = order.AppendUint32(b, typ)
		b = order.AppendUint32(b, uint32(len(body)+12))
		return order.AppendUint32(append(b, body...), uint32(len(body)+12))
	}
	section := order.AppendUint32(nil, byteOrderMagic)
	section = order.AppendUint16(section, 1)
	section = append(order.AppendUint16(section, 0), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	iface := order.AppendUint16(nil, uint16(link))
	iface = append(order.AppendUint16(iface, 0), 0, 0, 0, 0)
	iface = append(order.AppendUint16(order.AppendUint16(iface, optResolution), 1), resolution, 0, 0, 0)
	packet := order.AppendUint32(nil, 0)
	packet = order.AppendUint32(order.AppendUint32(packet, uint32(stamp>>32)), uint32(stamp))
	packet = order.AppendUint32(order.AppendUint32(packet, uint32(len(frame))), uint32(len(frame)))
	packet = append(packet, frame...)
	for len(packet)%4 != 0 {
		packet = append(packet, 0)
	}
	packet = order.AppendUint16(order.AppendUint16(packet, optFlags), 4)
	packet = order.AppendUint32(packet, uint32(Inbound))
	b := block(nil, blockSection, section)
	b = block(b, 0x0bad, []byte("a block that nobody knows"))
	b = block(b, blockInterface, iface)
	return block(b, blockEnhanced, packet)
}

func cat(parts ...[]byte) []byte { return slices.Concat(parts...) }

func be16(v ...uint16) (b []byte) {
	for _, n := range v {
		b = binary.BigEndian.AppendUint16(b, n)
	}
	return b
}

// TestFiles: one packet in each format of file and each kind of link is the same packet.
func TestFiles(t *testing.T) {
	le, be := binary.AppendByteOrder(binary.LittleEndian), binary.AppendByteOrder(binary.BigEndian)
	ip := ipv4(77, "hello")
	eth := cat(make([]byte, 12), be16(typeIPv4), ip, make([]byte, 9)) // with padding behind the packet
	cooked := cat(be16(outgoing, 1, 6), make([]byte, 8), be16(typeIPv4), ip)
	cooked2 := cat(be16(typeIPv4, 0), make([]byte, 6), []byte{outgoing, 6}, make([]byte, 8), ip)
	erf := append([]byte{0, 0, 0, 0, 0, 0, 0, 0, erfInfiniBand, 4},
		cat(be16(0, 0, uint16(len(ibPacket(77, "hello")))), ibPacket(77, "hello"))...)
	erfMoreHeaders := slices.Clone(erf)
	erfMoreHeaders[8] |= erfMore
	erfMoreHeaders = slices.Insert(erfMoreHeaders, erfLen, erfMore|1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0)
	grh := ib.GRH{IPVer: 6, PayLen: uint16(len(send(77, "hello")) + 4), NxtHdr: ib.GRHNextHeader,
		SGID: ib.GIDFromAddr(hostA), DGID: ib.GIDFromAddr(hostB)}
	v1 := grh.Append(nil)
	v1 = ib.AppendICRC(append(v1, send(77, "hello")...), ib.GRHLen, ib.ICRCGlobal([ib.GRHLen]byte(v1)))
	nanos := uint64(at.UnixNano())
	half := uint64(at.Unix())<<32 | uint64(at.Nanosecond())<<32/1e9
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(pcap(le, true, LinkEthernet, eth, len(eth)))
	z.Close()
	for _, c := range []struct {
		name   string
		file   []byte
		fabric Fabric
		within time.Duration
		way    Direction
	}{
		{"pcap", pcap(le, false, LinkEthernet, eth, len(eth)), RoCEv2, time.Microsecond, 0},
		{"pcap, big-endian", pcap(be, false, LinkEthernet, eth, len(eth)), RoCEv2, time.Microsecond, 0},
		{"pcap, nanoseconds", pcap(le, true, LinkEthernet, eth, len(eth)), RoCEv2, 0, 0},
		{"pcap, nanoseconds, big-endian", pcap(be, true, LinkEthernet, eth, len(eth)), RoCEv2, 0, 0},
		{"gzip", zipped.Bytes(), RoCEv2, 0, 0},
		{"pcapng", pcapng(le, LinkEthernet, eth, 9, nanos), RoCEv2, 0, Inbound},
		{"pcapng, big-endian", pcapng(be, LinkEthernet, eth, 9, nanos), RoCEv2, 0, Inbound},
		{"pcapng, microseconds", pcapng(le, LinkEthernet, eth, 6, nanos/1000), RoCEv2, time.Microsecond, Inbound},
		{"pcapng, 2^-32 s", pcapng(le, LinkEthernet, eth, 0x80|32, half), RoCEv2, time.Nanosecond, Inbound},
		{"VLAN", pcap(le, true, LinkEthernet, cat(make([]byte, 12), be16(typeQinQ, 5, typeVLAN, 6, typeIPv4), ip),
			len(eth)), RoCEv2, 0, 0},
		{"cooked", pcap(le, true, LinkSLL, cooked, len(cooked)), RoCEv2, 0, Outbound},
		{"cooked 2", pcap(le, true, LinkSLL2, cooked2, len(cooked2)), RoCEv2, 0, Outbound},
		{"raw IP", pcap(le, true, LinkRaw, ip, len(ip)), RoCEv2, 0, 0},
		{"loopback of BSD", pcap(le, true, LinkNull, cat([]byte{2, 0, 0, 0}, ip), len(ip)+4), RoCEv2, 0, 0},
		{"RoCE v1", pcap(le, true, LinkEthernet, cat(make([]byte, 12), be16(typeRoCEv1), v1), 14+len(v1)), RoCEv1,
			0, 0},
		{"ERF", pcap(le, true, LinkERF, erf, len(erf)), InfiniBand, 0, 0},
		{"ERF with extension headers", pcap(le, true, LinkERF, erfMoreHeaders, len(erfMoreHeaders)), InfiniBand, 0, 0},
		{"InfiniBand", pcap(le, true, LinkInfiniBand, ibPacket(77, "hello"), 100), InfiniBand, 0, 0},
	} {
		var got []Packet
		counts, err := ReadFrom(bytes.NewReader(c.file), func(p *Packet) { got = append(got, *p) })
		if err != nil || len(got) != 1 || counts.Frames != 1 {
			t.Errorf("%s: %d packets of %d frames, %v", c.name, len(got), counts.Frames, err)
			continue
		}
		p := got[0]
		from, to := Host{Addr: hostA}, Host{Addr: hostB}
		if c.fabric == InfiniBand {
			from, to = Host{LID: 3}, Host{LID: 5}
		}
		if p.Fabric != c.fabric || p.From != from || p.To != to || p.IB.PSN != 77 || string(p.IB.Payload) != "hello" ||
			p.Broken != "" || p.BadCRC || p.Missing != 0 {
			t.Errorf("%s: %+v", c.name, p)
		}
		if d := at.Sub(p.At); d < 0 || d > c.within {
			t.Errorf("%s: at %v, want %v", c.name, p.At, at)
		}
		if p.Direction != c.way {
			t.Errorf("%s: direction %d, want %d", c.name, p.Direction, c.way)
		}
	}
}

// TestWrongICRC: any bit of a packet that the ICRC covers makes it wrong.
func TestWrongICRC(t *testing.T) {
	for _, c := range []struct {
		link  LinkType
		frame []byte
		at    int // in the payload
	}{{LinkRaw, ipv4(1, "hello"), 28 + 12}, {LinkInfiniBand, ibPacket(1, "hello"), 8 + 12}} {
		c.frame[c.at] ^= 4
		_, err := ReadFrom(bytes.NewReader(pcap(binary.LittleEndian, true, c.link, c.frame, len(c.frame))),
			func(p *Packet) {
				if !p.BadCRC {
					t.Errorf("link type %d: not noticed", c.link)
				}
			})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestTrain: several packets in one datagram, as segmentation offload leaves it, are taken apart.
func TestTrain(t *testing.T) {
	segments := [][]byte{send(1, "twenty bytes of data"), send(2, "twenty bytes, others"), send(3, "x")}
	b := ipv4(1, "")[:28]
	flow := ib.NewPseudoHeader(netip.AddrPortFrom(hostA, 50000), netip.AddrPortFrom(hostB, ib.UDPPort), true)
	for i, s := range segments {
		b = append(b, ib.AppendICRC(slices.Clone(s), 0, flow.Seed(8+len(s)+ib.ICRCLen, 7+uint16(i)))...)
	}
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[24:], uint16(len(b)-20))
	var got []string
	wire := 0
	if _, err := ReadFrom(bytes.NewReader(pcap(binary.LittleEndian, true, LinkRaw, b, len(b))), func(p *Packet) {
		if p.BadCRC || p.Broken != "" {
			t.Errorf("PSN %d: %q, wrong ICRC: %v", p.IB.PSN, p.Broken, p.BadCRC)
		}
		got = append(got, string(p.IB.Payload))
		wire += p.Wire
	}); err != nil {
		t.Fatal(err)
	}
	if strings.Join(got, "|") != "twenty bytes of data|twenty bytes, others|x" || wire != len(b) {
		t.Errorf("%q, %d bytes of %d", got, wire, len(b))
	}
	long := ipv4(1, strings.Repeat("x", 9000))
	ReadFrom(bytes.NewReader(pcap(binary.LittleEndian, true, LinkRaw, long[:100], len(long))), func(p *Packet) {
		if !p.Train {
			t.Error("9,000 bytes, and no train")
		}
	})
}

// TestTruncated: of a packet that the capture cut, all fields of the headers are read.
func TestTruncated(t *testing.T) {
	whole := ipv4(9, strings.Repeat("x", 1000))
	for n := range len(whole) {
		var got []Packet
		counts, err := ReadFrom(bytes.NewReader(pcap(binary.LittleEndian, true, LinkRaw, whole[:n], len(whole))),
			func(p *Packet) { got = append(got, *p) })
		if err != nil || counts.Truncated != 1 {
			t.Fatalf("%d bytes: %v, %+v", n, err, counts)
		}
		switch {
		case n < 28:
			if len(got) != 0 {
				t.Errorf("%d bytes: a packet", n)
			}
		case len(got) != 1:
			t.Errorf("%d bytes: %d packets", n, len(got))
		case n < 28+ib.BTHLen:
			if got[0].Broken == "" {
				t.Errorf("%d bytes: not broken", n)
			}
		default:
			if p := got[0]; p.Broken != "" || p.IB.PSN != 9 || len(p.IB.Payload) != 1000 || p.Missing != len(whole)-n ||
				p.BadCRC {
				t.Errorf("%d bytes: %q, PSN %d, %d bytes of payload, %d missing", n, p.Broken, p.IB.PSN,
					len(p.IB.Payload), p.Missing)
			}
		}
	}
}

// TestDamaged: errors name the defects of files, and a file that ends early is read up to there.
func TestDamaged(t *testing.T) {
	good := pcapng(binary.LittleEndian, LinkRaw, ipv4(1, "x"), 9, 1)
	twice := cat(good, good)
	for n := len(good) + 1; n < len(twice); n++ {
		packets := 0
		_, err := ReadFrom(bytes.NewReader(twice[:n]), func(*Packet) { packets++ })
		if packets != 1 || err != nil && !errors.Is(err, ErrCut) {
			t.Fatalf("cut to %d bytes: %d packets, %v", n, packets, err)
		}
	}
	huge := pcap(binary.LittleEndian, true, LinkRaw, nil, 0)
	binary.LittleEndian.PutUint32(huge[24+8:], 1<<31)
	length := slices.Clone(good)
	binary.LittleEndian.PutUint32(length[4:], 5)
	number := slices.Clone(good)
	binary.LittleEndian.PutUint32(number[bytes.Index(number, ipv4(1, "x"))-20:], 3)
	for _, c := range []struct {
		name, want string
		file       []byte
	}{
		{"nothing", "0 bytes are not a capture", nil},
		{"text", "neither pcap nor pcapng", []byte("hello, world")},
		{"a frame of 2 GiB", "more than any frame", huge},
		{"a block of 5 bytes", "a length of 5 bytes", length},
		{"a packet of no interface", "interface 3 of 1", number},
	} {
		if _, err := ReadFrom(bytes.NewReader(c.file), func(*Packet) {}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestOwnRecording: the files of package trace are read.
func TestOwnRecording(t *testing.T) {
	var file bytes.Buffer
	w, err := trace.NewWriter(&file, "test")
	if err != nil {
		t.Fatal(err)
	}
	ip := ipv4(5, "hello")
	w.WriteUDP(&trace.UDP{At: at, Src: netip.AddrPortFrom(hostA, 50000), Dst: netip.AddrPortFrom(hostB, ib.UDPPort),
		ID: 7, DontFragment: true, TTL: 64, Direction: trace.Outbound, Comment: "a comment"}, ip[28:])
	w.WriteInfiniBand(&trace.InfiniBand{At: at, Direction: trace.Inbound}, ibPacket(6, "hello"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var got []Packet
	if _, err := ReadFrom(&file, func(p *Packet) { got = append(got, *p) }); err != nil || len(got) != 2 {
		t.Fatalf("%d packets, %v", len(got), err)
	}
	if p := got[0]; p.Fabric != RoCEv2 || p.IB.PSN != 5 || p.Direction != Outbound || p.Comment != "a comment" ||
		p.BadCRC || !p.At.Equal(at) {
		t.Errorf("%+v", p)
	}
	if p := got[1]; p.Fabric != InfiniBand || p.IB.PSN != 6 || p.Direction != Inbound || p.BadCRC {
		t.Errorf("%+v", p)
	}
}

// seeds are the captures that fuzzing begins with.
func seeds(f *testing.F) {
	f.Add(pcapng(binary.LittleEndian, LinkRaw, ipv4(1, "x"), 9, 1))
	f.Add(pcapng(binary.BigEndian, LinkInfiniBand, ibPacket(1, "x"), 0x80|20, 1<<40))
	for _, name := range []string{"../../../wire/iwarp/testdata/iwarp.pcap", "../../../trace/testdata/rxe.pcap"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:min(len(b), 6000)])
	}
}

// FuzzRead: no file makes a reader fail in another way than with an error, nor hold more than a multiple of it.
func FuzzRead(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	seeds(f)
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) > 2 && file[0] == 0x1f && file[1] == 0x8b {
			t.Skip("what is compressed may be large")
		}
		r, err := NewReader(bytes.NewReader(file))
		if err != nil {
			return
		}
		d := NewDecoder()
		var frame Frame
		for n := 0; ; n++ {
			if err := r.Next(&frame); err != nil {
				if err == io.EOF && d.Counts.Frames != n {
					t.Errorf("%d frames, counted %d", n, d.Counts.Frames)
				}
				return
			}
			if len(frame.Data) > len(file) || frame.Length < len(frame.Data) {
				t.Fatalf("a frame of %d bytes, %d on the wire, in a file of %d", len(frame.Data), frame.Length,
					len(file))
			}
			d.Decode(&frame, func(p *Packet) {
				// a SYN is handed over when more of its connection is known
				if p.Missing < 0 || p.Frame < 1 || p.Frame > n+1 {
					t.Errorf("frame %d of %d: %d bytes missing", p.Frame, n+1, p.Missing)
				}
			})
		}
	})
}

// FuzzDecode: no frame of any link type makes a decoder fail.
func FuzzDecode(f *testing.F) {
	f.Add(uint16(0), []byte{}, 0)
	f.Add(uint16(0), []byte{0}, 0)
	f.Add(uint16(LinkRaw), ipv4(1, "hello"), 0)
	f.Add(uint16(LinkInfiniBand), ibPacket(1, "hello"), 3)
	f.Add(uint16(LinkEthernet), cat(make([]byte, 12), be16(typeVLAN, 6, typeIPv4), ipv4(1, "hello")), 100)
	f.Fuzz(func(t *testing.T, link uint16, data []byte, missing int) {
		d := NewDecoder()
		missing = max(0, min(missing, 1<<16))
		for range 2 {
			d.Decode(&Frame{Num: 1, Link: LinkType(link), Data: data, Length: len(data) + missing}, func(p *Packet) {
				if p.Missing < 0 || p.Missing > missing+len(data)+1<<17 {
					t.Errorf("%d bytes missing of a frame without %d", p.Missing, missing)
				}
			})
		}
	})
}
