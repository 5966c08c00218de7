// SPDX-License-Identifier: Apache-2.0

package ibsim

import (
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// The subnet administrator sends tables in segments (section 13.6). Programs rely on the kernel for that, and see a
// table as one long datagram. The library has no kernel, and datagrams of 256 bytes: longer tables are cut after the
// records that fit, both clients' received tables and tables that OpenSM sends. ibsim does the same.

// table decodes the header of a datagram with RMPP.
func table(d *Datagram) (h sa.Header, ok bool) {
	return h, h.Decode(d.MAD[:]) && h.Class == sa.Class && h.RMPP.Flags&sa.RMPPActive != 0
}

// complete turns a client's response with a table into a transfer of a single segment.
func complete(d *Datagram) {
	h, ok := table(d)
	if !ok || !h.Method.Answers() {
		return
	}
	n := d.length
	if stride := 8 * int(h.Offset); n == mad.Size && stride > 0 { // the library has cut off a record that did not fit
		n -= sa.DataLen % stride
	}
	h.RMPP = sa.RMPP{Version: sa.RMPPVersion, Type: sa.RMPPData, RespTime: 31,
		Flags:   sa.RMPPActive | sa.RMPPFirst | sa.RMPPLast,
		Segment: 1, Length: uint32(max(n-sa.HeaderLen, 0) + sa.SubHeaderLen)}
	h.Append(d.MAD[:0])
	clear(d.MAD[max(n, sa.HeaderLen):])
}

// receive prepares a received datagram for the client; false: it is not for the client. reply, unless nil, is to be
// sent to the sender: an acknowledgement, or a stop if more segments follow.
func receive(d *Datagram) (reply *Datagram, ok bool) {
	h, ok := table(d)
	if !ok {
		return nil, true
	}
	if h.RMPP.Type != sa.RMPPData || h.RMPP.Segment != 1 {
		return nil, false // about the client's own tables, or after a stop
	}
	reply = &Datagram{DLID: d.SLID, SQP: ib.QP1, DQP: d.SQP}
	r := h
	r.Method ^= 0x80 // RMPP replies have the method of the request
	r.RMPP = sa.RMPP{Version: sa.RMPPVersion, Type: sa.RMPPAck, RespTime: 31, Flags: sa.RMPPActive, Segment: 1,
		Length: 1}
	d.length = maxReadable
	if h.RMPP.Flags&sa.RMPPLast != 0 {
		n := int(min(max(h.RMPP.Length, sa.SubHeaderLen), sa.SubHeaderLen+sa.DataLen))
		d.length = min(n-sa.SubHeaderLen+sa.HeaderLen, maxReadable)
	} else {
		r.RMPP.Type, r.RMPP.Status = sa.RMPPStop, sa.RMPPExhausted
	}
	r.Append(reply.MAD[:0])
	return reply, true
}
