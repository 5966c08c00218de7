// SPDX-License-Identifier: Apache-2.0

package link

import "github.com/ramjet-rdma/ramjet/internal/core/clock"

// Recorder is given what a port sends over its link, as it is on the link: packets with their VCRC, and
// flow-control packets, of [ib.FlowControlLen] bytes. The frame is only valid during the call. The ERF
// format has types for both (21 and 25), which Wireshark dissects, the second from eight bytes on.
type Recorder func(now clock.Time, from *Port, frame []byte)

// Record has everything that ports send given to r; nil: nothing any more. Where credits are told
// without flow-control packets, there are none to record.
func (n *Net) Record(r Recorder) { n.record = r }

// recordPacket gives the recorder a packet that leaves port o.
func (n *Net) recordPacket(o *Port, p *Packet) {
	n.scratch = p.appendFrame(n.scratch[:0])
	n.record(n.now, o, n.scratch)
}
