// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"testing"
)

// frame is one packet in the capture of two rsocket peers (riostream over rxe).
type frame struct {
	server  bool
	private []byte // of a REQ or a REP
	addr    uint64 // a WRITE
	key     uint32
	imm     Message
	withImm bool
	payload []byte
}

// capture returns the last connection of the captures, which riostream made.
func capture(t testing.TB) (req, rep frame, writes []frame) {
	t.Helper()
	b, err := os.ReadFile("../../../wire/ib/testdata/roce-mtu4096.pcap")
	if err != nil {
		t.Fatal(err)
	}
	for b = b[24:]; len(b) > 16; {
		n := binary.LittleEndian.Uint32(b[8:])
		ip := b[16+14 : 16+n]
		b = b[16+n:]
		if ip[0] != 0x45 || ip[9] != 17 {
			continue
		}
		f := frame{server: ip[15] == 1}
		bth, end := ip[28:], len(ip)-4
		body := ip[40 : end-int(bth[1]>>4&3)]
		switch op := bth[0]; op {
		case 100: // UD SEND: a MAD behind the DETH
			switch mad := body[8:]; binary.BigEndian.Uint16(mad[16:]) {
			case 0x10:
				f.private = mad[24+140+36:] // behind the IP header of annex A11
				req, writes = f, nil
			case 0x13:
				f.private = mad[24+36:]
				rep = f
			}
		case 10, 11: // RDMA WRITE ONLY, with immediate
			f.addr, f.key = binary.BigEndian.Uint64(body), binary.BigEndian.Uint32(body[8:])
			f.payload = body[16:]
			if f.withImm = op == 11; f.withImm {
				f.imm, f.payload = Message(binary.BigEndian.Uint32(body[16:])), body[20:]
			}
			writes = append(writes, f)
		}
	}
	return req, rep, writes
}

func decode(t testing.TB, b []byte) (c ConnData) {
	t.Helper()
	if !c.Decode(b) {
		t.Fatalf("cannot decode % x", b)
	}
	if back := c.Append(nil); !bytes.Equal(back, b[:ConnDataSize]) {
		t.Fatalf("% x becomes % x", b[:ConnDataSize], back)
	}
	return c
}

// configOf is the configuration of a side of the capture.
func configOf(c ConnData) Config {
	return Config{SendBuf: 1 << 20, SendQueue: 384, RecvBuf: 2 * int(c.Data.Length), Credits: int(c.Credits),
		IOMaps: UnscaleIOMaps(c.IOMaps), Inline: 64, Ring: Region{c.Data.Addr, c.Data.Key},
		Table: Region{c.Target.Addr, c.Target.Key}}
}

// TestCapture plays both sides of the connection of two librdmacm peers: with the same
// connection data, engines post the peers' work requests, and understand all of them.
func TestCapture(t *testing.T) {
	req, rep, writes := capture(t)
	client, server := decode(t, req.private), decode(t, rep.private)
	want := ConnData{Version: 1, Flags: FlagIOMap, Credits: 384, IOMaps: 1,
		Target: SGE{0x5559359cd000, 0x11dd, 2}, Data: SGE{0x7f5b7b721000, 0x12b0, 1 << 19}}
	if client != want {
		t.Errorf("REQ: %+v, want %+v", client, want)
	}
	if ours := (&Config{RecvBuf: 1 << 20, Credits: 384, IOMaps: 1, Ring: Region{0x7f5b7b721000, 0x12b0},
		Table: Region{0x5559359cd000, 0x11dd}}); ours.ConnData() != want {
		t.Errorf("ours: %+v", ours.ConnData())
	}
	type side struct {
		*Stream
		table []byte
		told  ConnData
	}
	sides := map[bool]*side{}
	for _, isServer := range []bool{false, true} {
		own, peer := client, server
		if isServer {
			own, peer = server, client
		}
		cfg := configOf(own)
		s, err := NewStream(cfg, &peer)
		if err != nil {
			t.Fatal(err)
		}
		sides[isServer] = &side{Stream: s, table: make([]byte, cfg.TableSize()), told: own}
	}
	seen := map[Op]int{}
	for i, f := range writes {
		from, to := sides[f.server], sides[!f.server]
		var p Post
		switch op := f.imm.Op(); {
		case !f.withImm:
			m, ok := from.FindIOMap(from.table, 0)
			if !ok {
				t.Fatalf("write %d: nothing is mapped", i)
			}
			off := f.addr - m.Addr
			if _, n := from.MappedRoom(); n < len(f.payload) {
				t.Fatalf("write %d: room for %d bytes", i, n)
			}
			from.WriteMapped(m, off, len(f.payload), &p)
		case op == OpIOMap:
			var m IOMap
			m.Get(f.payload, binary.LittleEndian)
			from.SendIOMap(int(f.imm.Data()), m, &p)
		case op == OpData:
			from.SendInline(int(f.imm.Data()), &p)
		case op == OpControl:
			from.Disconnect()
			fallthrough
		default:
			if !from.NextControl(&p) {
				t.Fatalf("write %d: %v is not sent", i, f.imm)
			}
		}
		payload := p.Inline[:p.NInline]
		if p.Len > 0 {
			payload = f.payload // the program's
		}
		wantMsg := f.imm
		if !f.withImm {
			wantMsg = NewMessage(OpWrite, uint32(len(f.payload)))
		}
		if p.Msg.Op() == OpSGL {
			wantMsg = p.Msg // credits come back when a message has arrived, the peers' once it was read
		}
		if p.Msg != wantMsg || !bytes.Equal(payload, f.payload) ||
			len(f.payload) > 0 && p.Remote != (Region{f.addr, f.key}) {
			t.Errorf("write %d: %v to %#x, % x; want %v to %#x, % x", i, p.Msg, p.Remote, payload, f.imm, f.addr,
				f.payload)
		}
		from.HandleCompletion(p.ID)
		seen[p.Msg.Op()]++
		// Data written to the other side's table arrives there.
		if base := to.told.Target.Addr; f.key == to.told.Target.Key && f.addr >= base &&
			f.addr < base+uint64(len(to.table)) {
			copy(to.table[f.addr-base:], f.payload)
		}
		if f.withImm && p.Msg.Op() == OpControl {
			defer to.HandleMessage(f.imm, len(f.payload) > 0, to.table) // they crossed
		} else if f.withImm {
			if err := to.HandleMessage(f.imm, len(f.payload) > 0, to.table); err != nil {
				t.Fatalf("write %d: %v: %v", i, f.imm, err)
			}
		}
	}
	for _, op := range []Op{OpData, OpSGL, OpIOMap, OpControl, OpWrite} {
		if seen[op] == 0 {
			t.Errorf("the capture has no %v", op)
		}
	}
	if got := sides[true].send.targets; got[0].Length != 1<<19-16 ||
		got[1] != (SGE{client.Data.Addr + 1<<19, client.Data.Key, 1 << 19}) {
		t.Errorf("receive buffers of the client: %+v", got)
	}
}

func TestConnDataShort(t *testing.T) {
	req, _, _ := capture(t)
	for n := range ConnDataSize {
		var c ConnData
		if c.Decode(req.private[:n]) {
			t.Errorf("%d bytes decode", n)
		}
	}
	var c ConnData
	if s, err := NewStream(Config{}, &c); err == nil || s != nil {
		t.Error("version 0 is accepted")
	}
}

func TestScaleIOMaps(t *testing.T) {
	// Values above 128 are multiples of 256, as far as 127 of them.
	for n, want := range map[int]int{0: 0, 1: 1, 128: 128, 255: 128, 256: 256, 700: 512, 1 << 15: 127 << 8} {
		if got := UnscaleIOMaps(ScaleIOMaps(n)); got != want {
			t.Errorf("%d entries become %d, want %d", n, got, want)
		}
	}
}

func TestMessageString(t *testing.T) {
	got := []string{Message(0x80000180).String(), Message(0xe0000000).String(), Message(0xe0000002).String(),
		Message(0xc0000000).String(), Message(16).String(), Message(0xa0000001).String()}
	want := []string{"SGL 384", "CTRL DISCONNECT", "CTRL SHUTDOWN", "IOMAP_SGL 0", "DATA 16", "op 5 1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
