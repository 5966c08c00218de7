// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/codec"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// common has the attributes that classes share, with their lengths.
var common = []codec.Row{
	codec.Of[ClassPortInfo]("ClassPortInfo", 72),
	codec.Of[Notice]("Notice", 64),
}

func TestCommon(t *testing.T) { codec.Test(t, common) }

// TestDetails: the details of each trap come back from a notice, at the bytes that section 14.2.5.1
// gives them.
func TestDetails(t *testing.T) {
	one, two := ib.GID{0: 0xfe, 15: 1}, ib.GID{0: 0xfe, 15: 2}
	var b [NoticeDetailsLen]byte
	check := func(trap Trap, same bool, at map[int]byte) {
		t.Helper()
		if !same {
			t.Errorf("trap %d does not come back from %x", trap, b)
		}
		for i, want := range at {
			if b[i] != want {
				t.Errorf("trap %d: byte %d is %#x, want %#x: %x", trap, i, b[i], want, b)
			}
		}
	}
	fill := func() { copy(b[:], bytes.Repeat([]byte{0xff}, len(b))) } // details before must leave nothing

	fill()
	gid, gid2 := GIDDetails{one}, GIDDetails{}
	gid.Encode(&b)
	gid2.Decode(&b)
	check(TrapInService, gid == gid2, map[int]byte{5: 0, 6: 0xfe, 21: 1, 22: 0})

	fill()
	link, link2 := LinkStateDetails{0x1234}, LinkStateDetails{}
	link.Encode(&b)
	link2.Decode(&b)
	check(TrapLinkState, link == link2, map[int]byte{0: 0x12, 1: 0x34, 2: 0})

	fill()
	port, port2 := PortDetails{0x1234, 9}, PortDetails{}
	port.Encode(&b)
	port2.Decode(&b)
	check(TrapLinkIntegrity, port == port2, map[int]byte{0: 0, 2: 0x12, 4: 9, 5: 0})

	fill()
	local, local2 := LocalChangesDetails{0x1234, true, 0x01020304, ChangedDescription, 5}, LocalChangesDetails{}
	local.Encode(&b)
	local2.Decode(&b)
	check(TrapLocalChanges, local == local2, map[int]byte{2: 0x12, 4: 0, 5: 1, 6: 1, 9: 4, 11: 1, 13: 5, 14: 0})

	fill()
	key, key2 := MKeyDetails{LID: 1, DrSLID: 2, Method: MethodSet, Attribute: 0x15, Modifier: 3, MKey: 4,
		Directed: true, Truncated: true, HopCount: 33, Return: [30]byte{29: 7}}, MKeyDetails{}
	key.Encode(&b)
	key2.Decode(&b)
	check(TrapMKey, key == key2, map[int]byte{3: 1, 5: 2, 6: 2, 7: 0, 9: 0x15, 13: 3, 21: 4, 22: 0, 23: 0xc0 | 33,
		53: 7})

	for _, trap := range []Trap{TrapPKey, TrapQKey, TrapSwitchPKey} {
		fill()
		d, d2 := KeyDetails{LID1: 1, LID2: 2, Key: 0xffff, SL: 3, QP1: 4, QP2: 5, GID1: one, GID2: two}, KeyDetails{}
		at := map[int]byte{3: 1, 5: 2, 6: 0, 8: 0xff, 10: 0x30, 13: 4, 17: 5, 18: 0xfe, 33: 1, 49: 2, 50: 0}
		if trap == TrapSwitchPKey {
			d.Valid, d.SwitchLID, d.Port = ValidLID1|ValidGID2, 6, 7
			at = map[int]byte{1: 0x81, 3: 1, 5: 2, 6: 0xff, 7: 0xff, 8: 0x30, 11: 4, 15: 5, 16: 0xfe, 31: 1, 47: 2,
				49: 6, 50: 7}
		}
		d.Encode(trap, &b)
		d2.Decode(trap, &b)
		check(trap, d == d2, at)
	}
}

func TestStatusStrings(t *testing.T) {
	for _, s := range []Status{StatusOK, StatusBusy, StatusRedirect, StatusUnsupportedVersion, StatusUnsupportedMethod,
		StatusUnsupportedAttribute, StatusInvalidField} {
		if strings.HasPrefix(s.String(), "status") {
			t.Errorf("%#x has no text", uint16(s))
		}
	}
	if s := Status(0x0300).String(); s != "status 0x0300" {
		t.Errorf("a class's own status is %q", s)
	}
}

// FuzzCommon: any bytes decode and encode back, and so do the details of any notice but for reserved
// fields.
func FuzzCommon(f *testing.F) {
	f.Add(bytes.Repeat([]byte{0xa5}, 72))
	f.Add(bytes.Repeat([]byte{1}, 64))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, a := range common {
			a.Check(t, b)
		}
		var n Notice
		if !n.Decode(b) {
			return
		}
		var key, key2 MKeyDetails
		var local, local2 LocalChangesDetails
		out := n.Details
		key.Decode(&n.Details)
		key.Encode(&out)
		key2.Decode(&out)
		local.Decode(&n.Details)
		local.Encode(&out)
		local2.Decode(&out)
		if key != key2 || local != local2 {
			t.Fatalf("%+v became %+v, %+v became %+v", key, key2, local, local2)
		}
		for _, trap := range []Trap{TrapPKey, TrapQKey, TrapSwitchPKey} {
			var d, d2 KeyDetails
			d.Decode(trap, &n.Details)
			d.Encode(trap, &out)
			d2.Decode(trap, &out)
			if d != d2 {
				t.Fatalf("trap %d: %+v became %+v", trap, d, d2)
			}
		}
	})
}
