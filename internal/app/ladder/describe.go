// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"fmt"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// words is the text of a row about a packet.
type words struct {
	op    string   // the packet's kind
	facts []string // numbers, beside it
	notes []string // below it
	more  []string // where there is room, or somebody points at it
}

func (w *words) fact(format string, a ...any) { w.facts = append(w.facts, fmt.Sprintf(format, a...)) }
func (w *words) note(format string, a ...any) { w.notes = append(w.notes, fmt.Sprintf(format, a...)) }
func (w *words) also(format string, a ...any) { w.more = append(w.more, fmt.Sprintf(format, a...)) }

// describe puts a packet and the findings about it into words.
func describe(p *capture.Packet, r *finding) (w words) {
	if p.Fabric == capture.IWARP {
		w.item(p)
	} else {
		w.transport(p, r)
	}
	if r.marks&BadCRC != 0 {
		w.note("the %s is wrong: the receiver drops it", crcName(p.Fabric))
	}
	if p.CE {
		w.note("congestion experienced: a switch has marked it")
	}
	if p.Train {
		w.note("and more packets, which the capture cut off: segmentation offload")
	}
	if p.Missing > 0 {
		w.also("%d bytes are not in the capture", p.Missing)
	}
	if r.injected != "" {
		w.note("%s", r.injected)
	} else if p.Comment != "" && p.Comment != lostComment && !onCable.MatchString(p.Comment) {
		w.note("comment: %s", printable(p.Comment))
	}
	return w
}

func crcName(f capture.Fabric) string {
	if f == capture.IWARP {
		return "CRC"
	}
	return "ICRC"
}

// printable replaces characters that a terminal would not show as they are.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if r := []rune(s); len(r) > 200 {
		return string(r[:200]) + "…"
	}
	return s
}

// transport describes a packet of InfiniBand's transport.
func (w *words) transport(p *capture.Packet, r *finding) {
	b := &p.IB
	if p.Broken != "" {
		w.op = "malformed"
		w.note("%s", p.Broken)
		w.also("opcode %v, QP 0x%06x, PSN %d", b.Opcode, uint32(b.DestQP), b.PSN)
		return
	}
	info := b.Opcode.Info()
	name := strings.TrimPrefix(info.Name, b.Opcode.Transport().String()+" ")
	w.op = strings.TrimPrefix(name, "RDMA ")
	if h, data, ok := datagram(p); ok {
		w.management(&h, data)
		return
	}
	switch info.Class {
	case ib.ClassAck:
		w.acknowledge(b, r)
		return
	case ib.ClassCNP:
		w.op = "CNP"
		w.note("congestion notification: the sender is to slow down")
		return
	}
	w.fact("PSN %s", psns(b.PSN, r.lastPSN))
	if info.Payload != ib.PayloadNone {
		w.fact("%d B", len(b.Payload))
	}
	if info.Headers&ib.HasAETH != 0 && !b.AETH.Syndrome.IsACK() {
		w.note("%v", b.AETH.Syndrome)
	}
	w.headers(b, info)
	w.history(b, r)
}

// headers describes the extended headers of requests.
func (w *words) headers(b *ib.Packet, info *ib.OpInfo) {
	if info.Headers&ib.HasFETH != 0 {
		w.note("flush: %s", flushWords(&b.FETH))
	}
	if info.Headers&ib.HasRETH != 0 {
		w.note("va 0x%x, rkey 0x%08x, %s", b.RETH.VA, uint32(b.RETH.RKey), units.Bytes(int64(b.RETH.DMALen)))
	}
	if info.Headers&ib.HasAtomicETH != 0 {
		h := &b.AtomicETH
		what := fmt.Sprintf("add %d", h.Swap)
		if b.Opcode.Operation() == ib.OpCompareSwap {
			what = fmt.Sprintf("0x%x if it is 0x%x", h.Swap, h.Compare)
		}
		w.note("%s, va 0x%x, rkey 0x%08x", what, h.VA, uint32(h.RKey))
	}
	if info.Headers&ib.HasAtomicAck != 0 {
		w.note("it was 0x%x", b.AtomicAck.Orig)
	}
	if info.Imm {
		w.note("immediate 0x%08x", uint32(b.Imm))
	}
	if info.Inv {
		w.note("invalidates rkey 0x%08x", uint32(b.IETH.RKey))
	}
	if info.Headers&ib.HasDETH != 0 {
		w.also("from QP 0x%06x, Q_Key 0x%08x", uint32(b.DETH.SrcQP), uint32(b.DETH.QKey))
	}
	if info.Headers&ib.HasXRCETH != 0 {
		w.also("shared receive queue %d", b.XRCETH.SRQN)
	}
	if info.Headers&ib.HasAETH != 0 {
		w.also("MSN %d, %v", b.AETH.MSN, b.AETH.Syndrome)
	}
	if b.AckReq {
		w.also("wants an acknowledgement")
	}
	if b.SolicitedEvent {
		w.also("solicited event")
	}
	if b.PKey != ib.DefaultPKey {
		w.also("P_Key 0x%04x", uint16(b.PKey))
	}
}

func flushWords(h *ib.FETH) string {
	what := "a range"
	if h.Selectivity == ib.SelectRegion {
		what = "the region"
	}
	var to []string
	if h.Placement&ib.PlacementGlobal != 0 {
		to = append(to, "global visibility")
	}
	if h.Placement&ib.PlacementPersistent != 0 {
		to = append(to, "persistence")
	}
	return what + " to " + strings.Join(to, " and ")
}

// acknowledge describes an acknowledgement, positive or not.
func (w *words) acknowledge(b *ib.Packet, r *finding) {
	w.also("MSN %d, %v", b.AETH.MSN, b.AETH.Syndrome)
	switch s := b.AETH.Syndrome; {
	case s.IsNAK():
		w.op = "NAK"
		w.facts = append(w.facts, s.Code().String())
		w.fact("PSN %d", b.PSN)
		if s.Code() == ib.NAKPSNSequenceError {
			w.note("syndrome 0x%02x: PSN %d was expected, and a later one came", uint8(s), b.PSN)
		} else {
			w.note("syndrome 0x%02x: the request with this PSN was refused", uint8(s))
		}
	case s.IsRNR():
		w.op = "RNR NAK"
		w.fact("PSN %d", b.PSN)
		w.note("no receive was posted: wait %s", units.Duration(s.Timer().Duration()))
	default:
		w.op = "ACK"
		if !s.IsACK() {
			w.op = s.String()
		}
		w.fact("PSN %d", b.PSN)
	}
	if r.acks && r.ackFrom != r.ackTo {
		w.fact("acks %s", psns(r.ackFrom, r.ackTo))
	}
	w.history(b, r)
}

// history describes a packet's meaning after the packets before it.
func (w *words) history(b *ib.Packet, r *finding) {
	if r.marks&Retransmission != 0 {
		if r.retry != "" {
			w.note("retransmission %s: %s", r.cause, r.retry)
		} else {
			w.note("retransmission %s", r.cause)
		}
	}
	if r.marks&Gap != 0 {
		w.note("PSN %s before it: not in the capture", psns(r.gapFrom, r.gapTo))
	}
	if r.marks&Repeated != 0 {
		switch c := b.Opcode.Info().Class; {
		case c == ib.ClassAck:
			w.note("acknowledges nothing new")
		case c.Response():
			w.note("repeated response")
		default:
			w.note("PSN of an earlier packet: repeated, or overtaken")
		}
	}
	if r.restarts {
		w.note("PSNs begin anew: connected again")
	}
}
