// SPDX-License-Identifier: Apache-2.0

package roce1

import (
	"encoding/binary"
	"errors"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/system/etherring"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// sender is the sending half of a port.
type sender struct {
	heads  [2][headerLen]byte // of a batch's packets, and of its last one, which may be shorter
	frames [etherring.MaxFrames]etherring.Out
	unsent unsent
}

// unsent is the rest of a batch of which the interface accepted only a part.
type unsent struct {
	batch *ibta.Batch
	first [ib.BTHLen]byte // BTH of its first packet, to recognise the batch
	sent  int
}

var (
	errGone      = errors.New("roce1: memory to be sent has been unmapped")
	errNoAddress = errors.New("roce1: the peer's Ethernet address is not known yet")
)

// Send completes the ICRCs of a batch's packets, and sends them in one system call.
func (p *port) Send(b *ibta.Batch) error {
	r := b.To.Path.(*route)
	to, known := r.peerMAC()
	switch {
	case r.self && p.loopback.full():
		return softdev.ErrAgain
	case !r.self && !known:
		return errNoAddress
	case !p.seal(b, r):
		return errGone
	}
	frames := p.fill(b, r, to)
	var err error
	if !r.self {
		var sent int
		from := p.unsent.sentOf(b)
		sent, err = p.sock.Send(frames[from:])
		p.traceFrames(frames[from:from+sent], b.Comment)
		if errors.Is(err, unix.EAGAIN) {
			p.unsent.keep(b, from+sent)
			return softdev.ErrAgain
		}
		p.unsent = unsent{}
	}
	if r.self || p.groups[r.key.GID] {
		if p.loopback.keep(frames) {
			p.sock.Wake()
		}
	}
	clear(frames)
	return err
}

// sentOf returns how many packets of a batch have been sent.
func (r *unsent) sentOf(b *ibta.Batch) int {
	if r.batch != b || r.first != [ib.BTHLen]byte(b.Packet(0).Head) || r.sent >= b.Len() {
		return 0
	}
	return r.sent
}

// keep records how many packets of a batch have been sent; it will be passed to Send again.
func (r *unsent) keep(b *ibta.Batch, sent int) {
	*r = unsent{b, [ib.BTHLen]byte(b.Packet(0).Head), sent}
}

// seal copies a batch's payload from the program's memory, and puts the ICRCs of the copy into the
// packets. It returns false if some of the memory is no longer mapped.
func (p *port) seal(b *ibta.Batch, r *route) (ok bool) {
	defer memory.Recover(debug.SetPanicOnFault(true), &ok)
	for i := range b.Len() {
		pkt := b.Packet(i)
		pkt.Seal(ib.ICRCHeader(r.stream.seed(b.PacketSize(i)), pkt.Head))
	}
	b.Spoil()
	return true
}

// fill returns the frames of a sealed batch.
func (p *port) fill(b *ibta.Batch, r *route, to mac) []etherring.Out {
	all, segment := b.Memory()
	n := b.Len()
	for i, size := range [2]int{segment, b.PacketSize(n - 1)} {
		h := append(p.heads[i][:0], to[:]...)
		h = append(h, p.id.Load().link.MAC[:]...)
		h = binary.BigEndian.AppendUint16(h, EtherType)
		h = append(h, r.stream.grh[:]...)
		binary.BigEndian.PutUint16(h[etherLen+4:], uint16(size))
	}
	for i := range n {
		head, size := p.heads[0][:], segment
		if i == n-1 {
			head, size = p.heads[1][:], len(all)
		}
		p.frames[i] = etherring.Out{Head: head, Body: all[:size]}
		all = all[size:]
	}
	return p.frames[:n]
}

// RecordLost implements packetdev.Recorder.
func (p *port) RecordLost(b *ibta.Batch) {
	r := b.To.Path.(*route)
	to, _ := r.peerMAC() // zeros if it is not known
	if p.trace == nil || !p.seal(b, r) {
		return
	}
	frames := p.fill(b, r, to)
	p.traceFrames(frames, b.Comment)
	clear(frames)
}

// traceFrames writes frames that are sent to the trace.
func (p *port) traceFrames(frames []etherring.Out, comment string) {
	if p.trace == nil {
		return
	}
	now := time.Now()
	for i := range frames {
		p.trace.WriteEthernet(&trace.Ethernet{At: now, Direction: trace.Outbound, Comment: comment}, frames[i].Head,
			frames[i].Body)
	}
}
