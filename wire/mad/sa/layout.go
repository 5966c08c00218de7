// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"bytes"

	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Components are the components of an attribute that a query may name, which stand one after the other
// from the record's start, each some bits long. The bits of a component mask count them (section 15.2.5).
type Components struct {
	name string
	len  int     // of a record in bytes, without padding
	bits []uint8 // widths; nameBits is 64 bytes
}

// Len returns the length of a record in bytes, without padding.
func (c *Components) Len() int { return c.len }

// Stride returns how far records are apart in a table, in bytes.
func (c *Components) Stride() int { return (c.len + 7) &^ 7 }

// nameBits is the width of a component of 64 bytes.
const nameBits = 0

var portInfoBits = []uint8{64, 64, 16, 16, 32, 16, 16, 8, 8, 8, 8, 4, 4, 4, 4, 2, 3, 3, 4, 4, 4, 4, 4, 4, 8, 8, 8, 4, 4,
	3, 5, 4, 1, 1, 1, 1, 16, 16, 16, 8, 1, 2, 5, 3, 5, 4, 4, 16, 8, 24, 16, 4, 4, 3, 5}

// layouts has a row for each attribute that can be queried.
var layouts = map[mad.Attribute]*Components{
	AttrNodeRecord: {"NodeRecord", NodeRecordLen,
		[]uint8{16, 16, 8, 8, 8, 8, 64, 64, 64, 16, 16, 32, 8, 24, nameBits}},
	AttrPortInfoRecord: {"PortInfoRecord", PortInfoRecordLen, append([]uint8{16, 8, 8}, portInfoBits...)},
	AttrSLtoVLRecord:   {"SLtoVLMappingTableRecord", SLtoVLRecordLen, []uint8{16, 8, 8}},
	AttrSwitchInfoRecord: {"SwitchInfoRecord", SwitchInfoRecordLen,
		[]uint8{16, 16, 16, 16, 16, 16, 8, 8, 8, 5, 1, 2, 16, 16, 1, 1, 1, 1, 1, 3, 8, 16}},
	AttrLinearRecord:    {"LinearForwardingTableRecord", LinearRecordLen, []uint8{16, 16}},
	AttrMulticastRecord: {"MulticastForwardingTableRecord", MulticastRecordLen, []uint8{16, 4, 3, 9, 32}},
	AttrSMInfoRecord:    {"SMInfoRecord", SMInfoRecordLen, []uint8{16, 16, 64, 64, 32, 4, 4}},
	AttrLinkRecord:      {"LinkRecord", LinkRecordLen, []uint8{16, 8, 8, 16}},
	AttrGUIDInfoRecord:  {"GUIDInfoRecord", GUIDInfoRecordLen, []uint8{16, 8, 8, 32, 64, 64, 64, 64, 64, 64, 64, 64}},
	AttrServiceRecord: {"ServiceRecord", ServiceRecordLen, []uint8{64, 128, 16, 16, 32, 128, nameBits,
		8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 16, 16, 16, 16, 16, 16, 16, 16, 32, 32, 32, 32, 64, 64}},
	AttrPKeyRecord: {"P_KeyTableRecord", PKeyRecordLen, []uint8{16, 16, 8}},
	AttrPathRecord: {"PathRecord", PathRecordLen,
		[]uint8{8, 56, 128, 128, 16, 16, 1, 3, 20, 8, 8, 1, 7, 16, 12, 4, 2, 6, 2, 6, 2, 6}},
	AttrVLArbRecord: {"VLArbitrationTableRecord", VLArbRecordLen, []uint8{16, 8, 8}},
	AttrMCMemberRecord: {"MCMemberRecord", MCMemberRecordLen,
		[]uint8{128, 128, 32, 16, 2, 6, 8, 16, 2, 6, 2, 6, 4, 20, 8, 4, 4, 1}},
	AttrInformInfoRecord: {"InformInfoRecord", InformInfoRecordLen,
		[]uint8{128, 16, 48, 128, 16, 16, 16, 8, 8, 16, 16, 24, 3, 5, 8, 24}},
}

// Layout returns the components of an attribute, nil if it cannot be queried.
func Layout(a mad.Attribute) *Components { return layouts[a] }

// Covers reports whether all bits of a mask stand for a component.
func (c *Components) Covers(mask uint64) bool { return mask>>len(c.bits) == 0 }

// Match reports whether a record has the values of a query in all components that are in the mask.
// Both are at least Len bytes long. Selectors of MTUs, rates and lifetimes are components like others
// here: who gives them their meaning takes them out of the mask.
func (c *Components) Match(mask uint64, query, record []byte) bool {
	at := 0
	for i, w := range c.bits {
		width := int(w)
		if w == nameBits {
			width = 64 * 8
		}
		if mask>>i&1 != 0 && !sameBits(query, record, at, width) {
			return false
		}
		at += width
	}
	return true
}

// sameBits compares width bits from bit at on. Components that are longer than a byte or cross one's
// border end or begin at a border of bytes.
func sameBits(a, b []byte, at, width int) bool {
	first, end := at/8, (at+width+7)/8
	if at%8 == 0 && width%8 == 0 {
		return bytes.Equal(a[first:end], b[first:end])
	}
	for i := first; i < end; i++ {
		mask := byte(0xff)
		if i == first {
			mask &= 0xff >> (at % 8)
		}
		if i == end-1 {
			mask &= 0xff << (end*8 - at - width)
		}
		if (a[i]^b[i])&mask != 0 {
			return false
		}
	}
	return true
}
