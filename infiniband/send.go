// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"encoding/binary"
	"errors"
	"runtime/debug"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// maxBatch is how many packets one Send carries.
const maxBatch = 16

// sender is the sending half of a port.
type sender struct {
	sizes   [maxBatch]int
	packets [maxBatch]*link.Packet
}

var errGone = errors.New("infiniband: memory to be sent has been unmapped")

// Send sends the packets of a batch.
func (p *port) Send(b *ibta.Batch) error {
	to := b.To.Path.(*path)
	out, err := p.build(b, to)
	if err != nil {
		return err
	}
	p.tracer.sent(out, b.Comment) // before Send, which gives them away
	err = p.adapter.Send(to.to.Port, out)
	if err != nil {
		p.Discard(out)
	}
	return err
}

// build makes the packets of a batch.
func (p *port) build(b *ibta.Batch, to *path) ([]*link.Packet, error) {
	n := b.Len()
	for i := range n {
		p.sizes[i] = to.headerLen() + b.PacketSize(i)
	}
	out := p.packets[:n]
	switch err := p.Alloc(out, p.sizes[:n]); {
	case errors.Is(err, fabric.ErrAgain):
		return nil, softdev.ErrAgain
	case err != nil:
		return nil, err
	}
	if !p.fill(b, to, out) {
		p.Discard(out)
		return nil, errGone
	}
	return out, nil
}

// RecordLost implements packetdev.Recorder.
func (p *port) RecordLost(b *ibta.Batch) {
	if p.tracer.w == nil {
		return
	}
	if out, err := p.build(b, b.To.Path.(*path)); err == nil { // else there is no room for it
		p.tracer.sent(out, b.Comment)
		p.Discard(out)
	}
}

// fill writes a batch's packets into buffers of the fabric, with the payload from the program's memory. It
// returns false if some of that memory is no longer mapped.
func (p *port) fill(b *ibta.Batch, to *path, out []*link.Packet) (ok bool) {
	defer memory.Recover(debug.SetPanicOnFault(true), &ok)
	from := p.adapter.Info(to.to.Port)
	for i, q := range out {
		pkt := b.Packet(i)
		buf := q.Bytes()
		dest := binary.BigEndian.Uint32(pkt.Head[4:]) & 0xffffff
		at := len(to.appendHeaders(buf[:0], from, dest == uint32(ib.QP0), b.PacketSize(i)))
		at += copy(buf[at:], pkt.Head)
		for _, piece := range pkt.Payload {
			at += copy(buf[at:], piece)
		}
		copy(buf[at:], pkt.Tail[:len(pkt.Tail)-ib.ICRCLen])
		q.NoICRC = true // the fabric computes it if the packet leaves memory
		if b.Corrupt {
			at = len(buf) - ib.ICRCLen
			crc, _ := ib.LocalICRC(buf[:at])
			binary.LittleEndian.PutUint32(buf[at:], crc^1)
			q.NoICRC = false
		}
	}
	return true
}
