// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"fmt"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

func rejects(it *capture.Item) bool { return it.Frame.Flags&iwarp.FlagReject != 0 }

func terminates(it *capture.Item) bool { return it.Header.Opcode == iwarp.OpTerminate }

// item describes a part of an iWARP connection.
func (w *words) item(p *capture.Packet) {
	switch it := p.Stream; it.Kind {
	case capture.TCPOpen:
		w.op = "TCP SYN"
		w.fact("to port %d", p.ToPort)
	case capture.TCPEnd:
		w.op = "TCP FIN"
	case capture.TCPReset:
		w.op = "TCP RST"
	case capture.TCPRetransmit:
		w.op = "TCP retransmission"
		w.fact("%d B", it.Bytes)
		w.note("bytes from %d of the stream on, seen before or after later ones", it.Seq)
	case capture.TCPHole:
		w.op = "not captured"
		w.fact("%s", units.Bytes(int64(it.Bytes)))
		w.note("TCP's bytes from %d on are not in the capture", it.Seq)
	case capture.MalformedStream:
		w.op = "no FPDU"
		w.note("what follows in the stream is not one of MPA's frames")
	case capture.ReadyToReceive:
		w.op = "ready to receive"
		w.note("an empty FPDU")
	case capture.SetUp:
		w.setUp(it)
	case capture.Segment:
		w.segment(it)
	}
}

// setUp describes a set-up frame of MPA (RFC 5044 section 7.1, RFC 6581).
func (w *words) setUp(it *capture.Item) {
	f := &it.Frame
	w.op = "MPA Request"
	if f.Kind == iwarp.Reply {
		w.op = "MPA Reply"
	}
	w.fact("revision %d", f.Revision)
	if f.Flags&iwarp.FlagReject != 0 {
		w.fact("rejected")
	}
	crc, markers := "no CRC", "no markers"
	if f.Flags&iwarp.FlagCRC != 0 {
		crc = "CRC"
	}
	if f.Flags&iwarp.FlagMarkers != 0 {
		markers = "markers"
	}
	w.note("%s, %s, %s of private data", crc, markers, units.Bytes(int64(f.PrivateLen)))
	if f.Flags&iwarp.FlagEnhanced == 0 {
		return
	}
	e := &it.Enhanced
	var rtr []string
	for _, k := range []struct {
		set  bool
		name string
	}{{e.RTRSend, "Send"}, {e.RTRWrite, "Write"}, {e.RTRRead, "Read"}} {
		if k.set {
			rtr = append(rtr, k.name)
		}
	}
	first := ""
	if e.PeerToPeer {
		first = ", ready to receive by " + strings.Join(rtr, ", ")
	}
	w.note("IRD %d, ORD %d%s", e.IRD, e.ORD, first)
}

// segment describes a DDP segment.
func (w *words) segment(it *capture.Item) {
	h := &it.Header
	w.op = strings.TrimPrefix(h.Opcode.String(), "RDMA ")
	if h.Tagged {
		w.fact("STag 0x%08x", uint32(h.STag))
		w.fact("TO 0x%x", h.TO)
	} else {
		w.fact("MSN %d", h.MSN)
		if h.MO > 0 {
			w.fact("offset %d", h.MO)
		}
	}
	w.fact("%d B", len(it.Body))
	if h.Last {
		w.also("last segment of its message")
	}
	if h.Opcode.Invalidates() {
		w.note("invalidates STag 0x%08x", uint32(h.STag))
	}
	switch h.Opcode {
	case iwarp.OpReadRequest:
		var r iwarp.ReadRequest
		if r.Decode(it.Body) {
			w.facts = []string{fmt.Sprintf("MSN %d", h.MSN), units.Bytes(int64(r.Size))}
			w.note("from STag 0x%08x TO 0x%x", uint32(r.SrcSTag), r.SrcTO)
			w.note("to STag 0x%08x TO 0x%x", uint32(r.SinkSTag), r.SinkTO)
		}
	case iwarp.OpAtomicRequest:
		var r iwarp.AtomicRequest
		if r.Decode(it.Body) {
			what := fmt.Sprintf("add %d", r.Data)
			if r.Op == iwarp.CompareSwap {
				what = fmt.Sprintf("0x%x if it is 0x%x", r.Data, r.Compare)
			}
			w.note("%s, STag 0x%08x TO 0x%x", what, uint32(r.STag), r.TO)
		}
	case iwarp.OpAtomicResponse:
		var r iwarp.AtomicResponse
		if r.Decode(it.Body) {
			w.note("it was 0x%x", r.Original)
		}
	case iwarp.OpTerminate:
		var t iwarp.Terminate
		if t.Decode(it.Body) {
			w.note("%v", t.Cause)
		}
	}
}
