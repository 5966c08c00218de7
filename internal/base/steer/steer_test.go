// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"encoding/binary"
	"testing"

	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

const (
	none   = -1
	any    = 0 // the device with an agent for connection management
	perf   = 2 // the one with an agent for performance management
	dead   = 4 // a slot without a device, although a service id is still claimed there
	nobody = 0x33
)

// threeSlots is a group whose devices are in slots 0 to 2. A service id is the slot that claimed it.
type threeSlots struct{}

func (threeSlots) IsActive(slot int) bool           { return slot < 3 }
func (threeSlots) Owner(service uint64) (int, bool) { return int(service), service <= dead }

func (threeSlots) Server(class uint8) int {
	switch mad.Class(class) {
	case mad.ClassCM:
		return any
	case mad.ClassPerf:
		return perf
	}
	return none
}

func datagram(h mad.Header) []byte { return append(h.Append(nil), make([]byte, mad.DataLen)...) }

// TestConnectionManager asks for the device that each message of connection managers is for.
func TestConnectionManager(t *testing.T) {
	for _, c := range []struct {
		attr mad.Attribute
		slot uint32 // of the id in the message
		want int
	}{
		{mad.AttrREQ, 2, 2}, {mad.AttrREQ, 1, 1}, {mad.AttrREQ, dead, any}, {mad.AttrREQ, 7, any},
		{mad.AttrSIDRREQ, 2, 2}, {mad.AttrSIDRREQ, 7, any},
		{mad.AttrREP, 2, 2}, {mad.AttrRTU, 1, 1}, {mad.AttrREJ, 2, 2}, {mad.AttrMRA, 2, 2}, {mad.AttrDREQ, 2, 2},
		{mad.AttrDREP, 1, 1},
		{mad.AttrLAP, 2, 2}, {mad.AttrAPR, 2, 2}, {mad.AttrRTU, dead, any}, {mad.AttrSIDRREP, 2, 2},
		{mad.AttrSIDRREP, dead, any},
	} {
		b := datagram(mad.CMHeader(c.attr, 1))
		data := b[mad.HeaderLen:]
		switch c.attr {
		case mad.AttrREQ, mad.AttrSIDRREQ:
			binary.BigEndian.PutUint64(data[8:], uint64(c.slot))
		case mad.AttrSIDRREP:
			binary.BigEndian.PutUint32(data, c.slot<<28|77)
		default:
			binary.BigEndian.PutUint32(data[4:], c.slot<<28|77)
		}
		if got := Agent(threeSlots{}, b); got != c.want {
			t.Errorf("%v of slot %d: for %d, want %d", c.attr, c.slot, got, c.want)
		}
		if got := Agent(threeSlots{}, b[:mad.Size-4]); got != none {
			t.Errorf("%v that is too short: for %d", c.attr, got)
		}
	}
}

// TestOtherClasses asks for the device that datagrams of other classes are for, and all responses.
func TestOtherClasses(t *testing.T) {
	for _, c := range []struct {
		class  mad.Class
		method mad.Method
		slot   uint64 // of the transaction
		want   int
	}{
		{mad.ClassPerf, mad.MethodGet, 0, perf}, {mad.ClassPerf, mad.MethodGet, dead, perf},
		{mad.ClassPerf, mad.MethodSend, 1, perf},
		{nobody, mad.MethodGet, 2, none}, {nobody, mad.MethodSend, 2, none},
		{mad.ClassPerf, mad.MethodGetResp, 1, 1}, {nobody, mad.MethodReportResp, 2, 2},
		{nobody, mad.MethodTrapRepress, 2, 2},
		{mad.ClassPerf, mad.MethodGetResp, dead, none}, {mad.ClassCM, mad.MethodGetResp, 2, 2},
		{mad.ClassCM, mad.MethodGetResp, dead, none},
	} {
		b := datagram(mad.Header{BaseVersion: mad.BaseVersion, Class: c.class, ClassVersion: 1, Method: c.method,
			TID: c.slot<<60 | 5})
		if got := Agent(threeSlots{}, b); got != c.want {
			t.Errorf("class %#x, method %#x of slot %d: for %d, want %d", c.class, c.method, c.slot, got, c.want)
		}
	}
}

// TestSlots holds that the slot is in the top bits of a number.
func TestSlots(t *testing.T) {
	for _, c := range []struct {
		n    ib.QPN
		want int
	}{{0, 0}, {0x0fffff, 0}, {0x100000, 1}, {0xabcdef, 10}, {0xffffff, Slots - 1}} {
		if got := SlotOfQPN(c.n); got != c.want {
			t.Errorf("queue pair %#x: slot %d, want %d", c.n, got, c.want)
		}
		if got := SlotOf(uint32(c.n) << 8); got != c.want {
			t.Errorf("id %#x: slot %d, want %d", uint32(c.n)<<8, got, c.want)
		}
	}
}

// FuzzAgent steers any datagram: to a slot with a device, or to none.
func FuzzAgent(f *testing.F) {
	h := mad.CMHeader(mad.AttrREQ, 1)
	f.Add(datagram(h))
	h.Method = mad.MethodGetResp
	f.Add(datagram(h))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if slot := Agent(threeSlots{}, b); slot != none && !(threeSlots{}).IsActive(slot) {
			t.Errorf("%x is for %d", b, slot)
		}
	})
}
