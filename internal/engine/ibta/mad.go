// SPDX-License-Identifier: Apache-2.0

package ibta

import "github.com/ramjet-rdma/ramjet/wire/ib"

// SetDatagram makes one datagram the only packet of the batch. Its payload is copied and
// has at most 1024 bytes.
func (b *Batch) SetDatagram(to *Vector, p *ib.Packet) {
	b.Reset()
	p.PadCount = ib.PadFor(len(p.Payload))
	b.finish(to, append(p.AppendHeader(b.buf), p.Payload...), 0, len(p.Payload), 0)
}

// CheckMAD reports whether to accept a packet to QP0 or QP1: it must be a management datagram of size
// bytes (IBTA 9.8.3, 13.4.2). Its port decides which partitions may send one. QP0 has no key.
func CheckMAD(p *ib.Packet, size int) Reason {
	switch {
	case p.Opcode != ib.UDSendOnly:
		return DropTransport
	case p.DestQP == ib.QP1 && p.DETH.QKey != ib.QKeyGSI:
		return DropQKey
	case len(p.Payload) != size:
		return DropLength
	}
	return Taken
}
