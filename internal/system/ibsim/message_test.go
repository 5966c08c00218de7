// SPDX-License-Identifier: Apache-2.0

package ibsim

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/pm"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// FuzzMessage decodes any message of a client, and encodes it again.
func FuzzMessage(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	c := ctl{client: 3, kind: kindConnect, length: 44}
	(&client{id: 77, qp: 1, node: "host-1"}).put(&c.data)
	f.Add(c.append(nil))
	d := Datagram{SLID: 1, DLID: 2, SQP: 1, DQP: 1, length: 120}
	f.Add(d.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c := new(ctl); c.decode(b) {
			if !bytes.Equal(c.append(nil), b) {
				t.Fatal("a control message is another when it is written")
			}
			var who client
			if who.decode(&c.data); len(who.node) > clientNodeLen {
				t.Fatalf("a node's name of %d bytes", len(who.node))
			}
		}
		if d := new(Datagram); d.decode(b) {
			again := new(Datagram)
			if !again.decode(d.append(nil)) {
				t.Fatal("what is written cannot be read")
			}
			if again.length == mad.Size {
				again.length = d.length
			}
			if *again != *d {
				t.Fatalf("%+v, want %+v", again, d)
			}
			complete(d)
			if reply, _ := receive(again); reply != nil && reply.DLID != again.SLID {
				t.Fatal("a reply to somebody else")
			}
			if again.length > mad.Size || d.length > mad.Size {
				t.Fatal("longer than there is room")
			}
		}
	})
}

// segment is a table's.
func segment(n uint32, flags sa.RMPPFlags, length uint32) *Datagram {
	h := sa.NewHeader(0x92, sa.AttrNodeRecord, 5, 0)
	h.Offset = 14
	h.RMPP = sa.RMPP{Version: sa.RMPPVersion, Type: sa.RMPPData, Flags: sa.RMPPActive | flags, Segment: n,
		Length: length}
	d := &Datagram{SLID: 9, SQP: ib.QP1}
	h.Append(d.MAD[:0])
	return d
}

// A table of one segment is acknowledged, and as long as it is; a longer one is stopped.
func TestTables(t *testing.T) {
	for _, c := range []struct {
		name    string
		segment *Datagram
		length  int
		reply   sa.RMPPType
		ok      bool
	}{
		{"one record", segment(1, sa.RMPPFirst|sa.RMPPLast, 112+sa.SubHeaderLen), sa.HeaderLen + 112, sa.RMPPAck, true},
		{"empty", segment(1, sa.RMPPFirst|sa.RMPPLast, sa.SubHeaderLen), sa.HeaderLen, sa.RMPPAck, true},
		{"more", segment(1, sa.RMPPFirst, 5000), maxReadable, sa.RMPPStop, true},
		{"a later one", segment(2, sa.RMPPLast, 100), 0, sa.RMPPNone, false},
	} {
		reply, ok := receive(c.segment)
		if ok != c.ok || c.segment.length != c.length {
			t.Errorf("%s: %v, length %d, want %v, %d", c.name, ok, c.segment.length, c.ok, c.length)
		}
		var h sa.Header
		if reply != nil {
			h.Decode(reply.MAD[:])
		}
		if h.RMPP.Type != c.reply {
			t.Errorf("%s: reply %d, want %d", c.name, h.RMPP.Type, c.reply)
		}
	}
}

// Programs get no more of a datagram than 224 bytes, and are not told of counters behind them.
func TestReadable(t *testing.T) {
	long := segment(1, sa.RMPPFirst|sa.RMPPLast, sa.SubHeaderLen+sa.DataLen)
	if receive(long); long.length != 224 {
		t.Errorf("a full segment is %d bytes long, want 224", long.length)
	}
	d := new(Datagram)
	h := mad.Header{Class: mad.ClassPerf, Method: mad.MethodGetResp, Attribute: mad.AttrClassPortInfo}
	h.Append(d.MAD[:0])
	want := mad.ClassPortInfo{CapMask: pm.CapExtended, RespTime: 18}
	has := want
	has.CapMask2 = pm.Cap2ExtendedErrors
	has.Append(d.MAD[pm.DataOffset:pm.DataOffset])
	maskExtendedErrors(d)
	var got mad.ClassPortInfo
	got.Decode(d.MAD[pm.DataOffset:])
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
