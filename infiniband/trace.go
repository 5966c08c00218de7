// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// tracer records packets; w may be nil.
type tracer struct {
	w     *trace.Writer
	frame []byte // of the last packet
}

// sent records packets that are about to be sent, with a comment.
func (t *tracer) sent(packets []*link.Packet, comment string) {
	if t.w == nil {
		return
	}
	h := trace.InfiniBand{At: time.Now(), Direction: trace.Outbound, Comment: comment}
	for _, p := range packets {
		t.record(&h, p)
	}
}

// received records a received packet, with a comment that names the device that has taken it.
func (t *tracer) received(a *fabric.Arrival, comment string) {
	if t.w != nil {
		t.record(&trace.InfiniBand{At: time.Now(), Direction: trace.Inbound, Comment: comment}, a.Packet)
	}
}

// record records a packet as it would be on a cable, with ICRC and VCRC. The virtual lane in memory is 0, or 15
// for subnet management: the port chooses the lane on the cable, as on hardware. Errors of the recording are
// reported when it is closed.
func (t *tracer) record(h *trace.InfiniBand, p *link.Packet) {
	b := append(t.frame[:0], p.Bytes()...)
	if p.NoICRC {
		end := len(b) - ib.ICRCLen
		if crc, ok := ib.LocalICRC(b[:end]); ok {
			binary.LittleEndian.PutUint32(b[end:], crc)
		}
	}
	t.frame = ib.AppendVCRC(b)
	t.w.WriteInfiniBand(h, t.frame)
}

// recorder returns a function that records the packets on a fabric's cables; nil if w is. Errors of the recording
// are reported when it is closed.
func recorder(w *trace.Writer) func(at time.Time, node string, port int, frame []byte) {
	if w == nil {
		return nil
	}
	return func(at time.Time, node string, port int, frame []byte) {
		w.WriteInfiniBand(&trace.InfiniBand{At: at, Comment: fmt.Sprintf("from %s[%d]", node, port)}, frame)
	}
}
