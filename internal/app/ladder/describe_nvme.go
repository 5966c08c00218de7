// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"encoding/binary"
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// nvmeQueue is a connection of NVMe over RDMA: the end that connects sends the commands of a queue, the other one the
// responses.
type nvmeQueue struct{ admin bool }

// nvmeConnection returns the queue that the private data of a connection request is about (NVMe over Fabrics 1.1,
// section 7.3.6.3); nil: it is not one of NVMe. Its layout has no signature: RECFMT is 0, QID any, HRQSIZE and HSQSIZE
// are not 0, the first at least as much as the second, CNTLID is any, and the other 22 bytes are 0.
func nvmeConnection(private []byte) *nvmeQueue {
	const size = 32
	if len(private) < size {
		return nil
	}
	le := binary.LittleEndian
	format, qid, recvs, sends := le.Uint16(private), le.Uint16(private[2:]), le.Uint16(private[4:]),
		le.Uint16(private[6:])
	if format != 0 || sends == 0 || recvs < sends {
		return nil
	}
	for _, b := range private[10:size] {
		if b != 0 {
			return nil
		}
	}
	return &nvmeQueue{admin: qid == 0}
}

const (
	nvmeCommandSize  = 64
	nvmeResponseSize = 16
)

// nvme describes the capsule that a SEND begins with, which fromHost says is a command. Another SEND keeps its words.
func (w *words) nvme(p *capture.Packet, q *nvmeQueue, fromHost bool) {
	b, whole := sent(p)
	switch {
	case fromHost && len(b) >= nvmeCommandSize:
		w.command(b, q)
	case !fromHost && whole && len(b) == nvmeResponseSize:
		w.response(b)
	}
}

// sent returns the payload of the first packet of a SEND, and whether it is the whole message; nothing of other
// packets.
func sent(p *capture.Packet) (b []byte, whole bool) {
	if p.Fabric == capture.IWARP {
		if h := &p.Stream.Header; p.Stream.Kind == capture.Segment && h.Opcode.IsSend() && h.MO == 0 {
			return p.Stream.Body, h.Last
		}
		return nil, false
	}
	info := p.IB.Opcode.Info()
	if p.Broken != "" || p.IB.Opcode.Transport() != ib.TransportRC || info.Class != ib.ClassSend || !info.First {
		return nil, false
	}
	return p.IB.Payload, info.Last
}

// command describes a submission queue entry (NVMe base 1.4, section 4.2).
func (w *words) command(b []byte, q *nvmeQueue) {
	le := binary.LittleEndian
	opcode, namespace := b[0], le.Uint32(b[4:])
	name, ok := nvmeIO[opcode], true
	switch {
	case opcode == 0x7f:
		name, ok = nvmeFabrics[b[4]] // instead of a namespace
	case q.admin:
		name, ok = nvmeAdmin[opcode]
	default:
		_, ok = nvmeIO[opcode]
	}
	if !ok {
		name = fmt.Sprintf("opcode 0x%02x", opcode)
	}
	w.op = "NVMe " + name
	w.fact("CID %d", le.Uint16(b[2:]))
	if opcode != 0x7f && namespace != 0 {
		w.fact("NSID %d", namespace)
	}
	switch {
	case q.admin || opcode == 0x7f:
	case opcode == 0x01 || opcode == 0x02 || opcode == 0x05 || opcode == 0x08:
		w.fact("LBA %d", le.Uint64(b[40:]))
		w.fact("blocks %d", int(le.Uint16(b[48:]))+1)
		if b[51]&0x40 != 0 {
			w.note("force unit access")
		}
	}
	switch sgl := b[24:40]; sgl[15] {
	case 0x01:
		w.note("data: %s in the capsule, from offset %d on", units.Bytes(int64(le.Uint32(sgl[8:]))), le.Uint64(sgl))
	case 0x40, 0x4f:
		n := le.Uint32(sgl[8:]) & 0xffffff
		if n == 0 {
			break
		}
		invalidate := ""
		if sgl[15] == 0x4f {
			invalidate = ", which the response invalidates"
		}
		w.note("data: %s at va 0x%x, rkey 0x%08x%s", units.Bytes(int64(n)), le.Uint64(sgl), le.Uint32(sgl[11:]),
			invalidate)
	default:
		w.note("SGL of type 0x%02x", sgl[15])
	}
}

// response describes a completion queue entry (NVMe base 1.4, section 4.6).
func (w *words) response(b []byte) {
	le := binary.LittleEndian
	w.op = "NVMe response"
	w.fact("CID %d", le.Uint16(b[12:]))
	status := le.Uint16(b[14:])
	name, ok := nvmeStatus[status>>1&0x7ff]
	if !ok {
		name = fmt.Sprintf("status type %d, code 0x%02x", status>>9&7, status>>1&0xff)
	}
	w.facts = append(w.facts, name)
	if status>>1&0x7ff != 0 && status>>15 != 0 {
		w.note("do not retry")
	}
	if v := le.Uint64(b); v != 0 {
		w.also("result 0x%x", v)
	}
	w.also("SQ head %d", le.Uint16(b[8:]))
}

// Names of commands, by opcode, or type of fabrics command.
var (
	nvmeAdmin = map[uint8]string{0x02: "Get Log Page", 0x06: "Identify", 0x08: "Abort", 0x09: "Set Features",
		0x0a: "Get Features", 0x0c: "Asynchronous Event Request", 0x18: "Keep Alive"}
	nvmeIO = map[uint8]string{0x00: "Flush", 0x01: "Write", 0x02: "Read", 0x05: "Compare", 0x08: "Write Zeroes",
		0x09: "Dataset Management"}
	nvmeFabrics = map[uint8]string{0x00: "Property Set", 0x01: "Connect", 0x04: "Property Get",
		0x05: "Authentication Send", 0x06: "Authentication Receive"}
)

// nvmeStatus names a status: its type in bits 8 to 10, its code below.
var nvmeStatus = map[uint16]string{0x000: "success", 0x001: "invalid opcode", 0x002: "invalid field",
	0x004: "data transfer error", 0x006: "internal error", 0x007: "abort requested", 0x00b: "invalid namespace",
	0x00c: "command sequence error", 0x00f: "invalid SGL length", 0x011: "invalid SGL type",
	0x016: "invalid SGL offset", 0x020: "namespace is write protected", 0x080: "LBA out of range",
	0x081: "capacity exceeded",
	0x082: "namespace not ready", 0x181: "controller busy", 0x182: "invalid parameters", 0x184: "invalid host",
	0x191: "authentication required", 0x280: "write fault", 0x281: "unrecovered read error", 0x285: "compare failure",
	0x286: "access denied", 0x301: "ANA persistent loss", 0x302: "ANA inaccessible", 0x303: "ANA transition"}
