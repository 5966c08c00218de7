// SPDX-License-Identifier: Apache-2.0

package link

import "github.com/ramjet-rdma/ramjet/internal/base/clock"

// Recorder is called with each frame that a port sends: packets with their VCRC, and flow control packets of
// [ib.FlowControlLen] bytes. The frame is only valid during the call. The ERF format has types for both (21 and
// 25), which Wireshark dissects, the second from eight bytes on.
type Recorder func(now clock.Time, from *Port, frame []byte)

// Record sets the recorder; nil: none. Links that exchange credits directly have no flow control packets to
// record.
func (n *Net) Record(r Recorder) { n.record = r }

// recordPacket gives the recorder a packet that leaves port o.
func (n *Net) recordPacket(o *Port, p *Packet) {
	n.scratch = p.appendFrame(n.scratch[:0])
	n.record(n.now, o, n.scratch)
}
