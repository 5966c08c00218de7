// SPDX-License-Identifier: Apache-2.0

package roce1

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/system/linkwatch"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// receiving returns a port without a socket, of an interface with macB.
func receiving(addrs ...string) *port {
	p := &port{watch: &linkwatch.Interface{}}
	link := linkwatch.Link{MAC: macB, MTU: 9000, Up: true}
	for _, a := range addrs {
		link.Addrs = append(link.Addrs, netip.MustParseAddr(a))
	}
	p.init(link)
	return p
}

// Frames are delivered, or counted for the right reason.
func TestTake(t *testing.T) {
	good := newFrame(macA, macB, gidA, gidB, []byte("data"))
	change := func(at int, to ...byte) []byte { b := bytes.Clone(good); copy(b[at:], to); return b }
	other := newFrame(macA, macB, gidA, gidA, []byte("data"))
	reserved := bytes.Clone(good)
	reserved[headerLen] = 0x1f // no opcode
	binary.LittleEndian.PutUint32(reserved[len(reserved)-4:], icrcOf(reserved))
	for _, c := range []struct {
		what  string
		frame []byte
		want  ibta.Reason
	}{
		{"a packet", good, ibta.Taken},
		{"an IPv4 frame", change(12, 8, 0), ibta.DropMalformed},
		{"a GRH of another version", change(14, 0x40), ibta.DropMalformed},
		{"UDP", change(20, 17), ibta.DropMalformed},
		{"a length beyond the frame", change(18, 0xff, 0xfc), ibta.DropMalformed},
		{"a damaged payload", change(len(good)-5, 'x'), ibta.DropICRC},
		{"another GID", other, ibta.DropNoDestination},
		{"a reserved opcode", reserved, ibta.DropMalformed},
		{"nothing", nil, ibta.DropMalformed},
	} {
		p := receiving()
		var counters, want ibta.Counters
		delivered := 0
		p.take(c.frame, &counters, func(pkt *ib.Packet, from *ibta.Arrival) {
			delivered++
			if string(pkt.Payload) != "data" || from.From != pathKey(gidA) || from.To != gidB ||
				!bytes.Equal(from.Header.AppendGRH(nil), good[etherLen:headerLen]) {
				t.Errorf("%s: %+v from %+v", c.what, pkt, from)
			}
		})
		if c.want != ibta.Taken {
			want.Dropped[c.want] = 1
		}
		if counters != want || delivered != 1 && c.want == ibta.Taken {
			t.Errorf("%s: %d delivered, dropped %v, want %v", c.what, delivered, counters.Dropped, c.want)
		}
	}
}

// FuzzTake hands any bytes to the receiver, as they are and with their ICRC put right.
func FuzzTake(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add(newFrame(macA, macB, gidA, gidB, []byte("data")))
	mapped := ib.GIDFromAddr(netip.MustParseAddr("192.0.2.2"))
	f.Add(newFrame(macA, macB, mapped, mapped, bytes.Repeat([]byte("data"), 100)))
	toQP1 := newFrame(macA, macB, mapped, gidB, make([]byte, 256))
	toQP1[headerLen+7] = 1
	f.Add(toQP1)
	f.Fuzz(func(t *testing.T, b []byte) {
		p := receiving("192.0.2.2")
		var c ibta.Counters
		delivered := uint64(0)
		deliver := func(pkt *ib.Packet, from *ibta.Arrival) {
			delivered++
			from.Header.AppendGRH(nil)
			if !p.id.Load().own[from.To] {
				t.Errorf("taken to %v", from.To)
			}
		}
		p.take(bytes.Clone(b), &c, deliver)
		var fr frame
		if b := bytes.Clone(b); fr.decode(b) {
			n := headerLen + len(fr.packet)
			binary.LittleEndian.PutUint32(b[n-4:], icrcOf(b[:n]))
			p.take(b, &c, deliver)
			if c.Dropped[ibta.DropICRC] > 1 {
				t.Error("an ICRC that was put right is wrong")
			}
		} else {
			delivered++ // there was one frame
		}
		for _, n := range c.Dropped {
			delivered += n
		}
		if delivered != 2 {
			t.Errorf("%d frames are accounted for, want 2", delivered)
		}
	})
}

// Rows of the GID table stay where they are when addresses come and go.
func TestIdentity(t *testing.T) {
	addr := func(s string) verbs.GID { return ib.GIDFromAddr(netip.MustParseAddr(s)) }
	link := linkwatch.Link{MAC: macA, Up: true}
	var id *identity
	for _, c := range []struct {
		addrs  []string
		rows   []verbs.GID
		events []verbs.EventType
	}{
		{nil, []verbs.GID{gidA}, nil},
		{[]string{"192.0.2.1", "fe80::ff:fe00:1", "2001:db8::1"},
			[]verbs.GID{gidA, addr("192.0.2.1"), addr("2001:db8::1")}, []verbs.EventType{verbs.EventGIDChange}},
		{[]string{"2001:db8::1"}, []verbs.GID{gidA, {}, addr("2001:db8::1")}, []verbs.EventType{verbs.EventGIDChange}},
		{[]string{"2001:db8::1", "192.0.2.9", "192.0.2.8"},
			[]verbs.GID{gidA, addr("192.0.2.9"), addr("2001:db8::1"), addr("192.0.2.8")},
			[]verbs.EventType{verbs.EventGIDChange}},
		{[]string{"2001:db8::1", "192.0.2.9", "192.0.2.8"},
			[]verbs.GID{gidA, addr("192.0.2.9"), addr("2001:db8::1"), addr("192.0.2.8")}, nil},
	} {
		link.Addrs = nil
		for _, a := range c.addrs {
			link.Addrs = append(link.Addrs, netip.MustParseAddr(a))
		}
		before := id
		if id = identify(before, "", link); !slices.Equal(id.rows, c.rows) {
			t.Fatalf("%v: rows %v, want %v", c.addrs, id.rows, c.rows)
		}
		if before != nil && !slices.Equal(id.changes(before), c.events) {
			t.Errorf("%v: events %v, want %v", c.addrs, id.changes(before), c.events)
		}
		for _, g := range id.info.GIDTable {
			if g.GID != id.rows[g.Index] || !id.own[g.GID] || g.Type != verbs.GIDRoCEv1 {
				t.Errorf("row %+v", g)
			}
		}
		if id.own[verbs.GID{}] {
			t.Error("nobody's GID is ours")
		}
	}
	link.Up = false
	if got := identify(id, "", link).changes(id); !slices.Equal(got, []verbs.EventType{verbs.EventPortError}) {
		t.Errorf("%v when the link is lost", got)
	}
}
