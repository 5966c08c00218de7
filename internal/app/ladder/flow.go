// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// flowKey names the packets from one host to one queue pair; datagrams name the queue pair that they come from, too.
type flowKey struct {
	fabric     capture.Fabric
	from, to   capture.Host
	dest, src  ib.QPN
	datagram   bool
	connection int // of iWARP: and 1 for the direction from the dialer
	dialer     bool
}

// keyOf returns the flow that a packet is part of.
func keyOf(p *capture.Packet) flowKey {
	k := flowKey{fabric: p.Fabric, from: p.From, to: p.To}
	if p.Fabric == capture.IWARP {
		k.connection, k.dialer = p.Stream.Connection, p.Stream.FromDialer
		return k
	}
	k.dest = p.IB.DestQP
	if p.Broken == "" && p.IB.Opcode.Info().Headers&ib.HasDETH != 0 {
		k.src, k.datagram = p.IB.DETH.SrcQP, true
	}
	return k
}

// reply returns the key of the other direction's packets, where it follows from this one.
func (k flowKey) reply() flowKey {
	k.from, k.to, k.dest, k.src = k.to, k.from, k.src, k.dest
	k.dialer = k.fabric == capture.IWARP && !k.dialer
	return k
}

// answer is the last answer of a responder about a flow of requests.
type answer uint8

const (
	noAnswer answer = iota
	nakAnswer
	rnrAnswer
)

// flow is the packets from one host to one queue pair: requests, and responses to the requests of its peer.
type flow struct {
	key   flowKey
	order int // in which flows began
	peer  *flow
	conv  *Conversation
	fromA bool // it goes from conv.A to conv.B

	portA, portB uint16     // of TCP, of sender and receiver
	nvme         *nvmeQueue // of iWARP: the queue in the dialer's request

	service ib.Transport
	known   bool // service is
	mtu     int  // bytes of payload in packets that are not the last; 0: none was seen

	first, last time.Time
	packets     int

	// Requests.
	started bool
	next    ib.PSN // of the next new request
	base    ib.PSN // of the first request in the capture
	// the queue pair was connected anew since: acknowledgements from before the capture do not come any more
	whole   bool
	loose   bool   // a READ's PSNs could not be counted, because no packet has shown the path MTU
	damaged int    // so many packets from next on came with a wrong CRC
	acked   ib.PSN // the oldest that is not acknowledged
	answer  answer
	asked   time.Time // when the last one was sent
	cause   string    // of the retransmissions under way
	waited  bool      // that is an RNR NAK's time
	tries   tries

	// Responses.
	responded    bool
	response     ib.PSN // of the next new packet of a READ response
	reading      bool   // within a message of READ responses
	readNext     ib.PSN // its next packet
	damagedReads int    // so many packets from readNext on came with a wrong CRC

	doubled bool   // a fault has doubled the last packet
	double  ib.PSN // which it was

	both bool // packets of it were recorded at both ends
}

// restart is a distance of PSNs that no window has: the queue pair was connected anew.
const restart = 1 << 20

// finding is the meaning of a packet in the state of its flow.
type finding struct {
	marks    Mark
	gapFrom  ib.PSN // with Gap
	gapTo    ib.PSN
	acks     bool // ackFrom to ackTo were acknowledged
	ackFrom  ib.PSN
	ackTo    ib.PSN
	lastPSN  ib.PSN // of the PSNs that a READ takes
	cause    string // of a retransmission
	retry    string // which of how many it begins; empty: it is not the first of its round
	restarts bool
	injected string // which faults
}

// packet takes a packet of InfiniBand's transport, which faults have struck perhaps.
func (f *flow) packet(p *capture.Packet, injected faults.Kinds) (r finding) {
	r.lastPSN = p.IB.PSN
	info := p.IB.Opcode.Info()
	switch {
	case p.Broken != "":
		r.marks |= Malformed
	case info.Class == ib.ClassCNP:
		r.marks |= CongestionNotice
	case info.Class.Request() || info.Class.Response():
		f.service, f.known = p.IB.Opcode.Transport(), true
		if info.Payload == ib.PayloadMTU && !p.Train {
			f.mtu = max(f.mtu, len(p.IB.Payload))
		}
		if p.BadCRC { // nobody has taken it
			f.damage(p.IB.PSN, info)
			break
		}
		if f.isCopy(p, injected) { // the sender has sent one
			break
		}
		if info.Class.Response() {
			if injected.Lost() { // nobody has heard it
				break
			}
			f.respond(&p.IB, info, &r)
		} else if f.service != ib.TransportUD {
			f.request(p, info, &r)
		}
	}
	if p.BadCRC {
		r.marks |= BadCRC
	}
	if p.CE {
		r.marks |= CongestionMark
	}
	if f.packets == 0 {
		f.first = p.At
	}
	f.packets++
	f.last = p.At
	return r
}

// isCopy reports whether a packet is one that a fault has added. A process notes the fault at the copies that it sends,
// and, of the copies that it receives, at the first, too.
func (f *flow) isCopy(p *capture.Packet, injected faults.Kinds) bool {
	if !injected.Has(faults.Duplicate) {
		f.doubled = false
		return false
	}
	if p.Direction == capture.Outbound || f.doubled && f.double == p.IB.PSN {
		return true
	}
	f.doubled, f.double = true, p.IB.PSN
	return false
}

// damage notes a packet whose CRC is wrong: it is in the capture, although its PSN does not count.
func (f *flow) damage(psn ib.PSN, info *ib.OpInfo) {
	switch {
	case info.Class == ib.ClassReadResponse:
		if f.reading && psn == f.readNext.Add(f.damagedReads) {
			f.damagedReads++
		}
	case info.Class.Request() && f.started && psn == f.next.Add(f.damaged):
		f.damaged++
	}
}

// pathMTU returns the path MTU as far as packets of either direction have shown it.
func (f *flow) pathMTU() int {
	if f.peer != nil {
		return max(f.mtu, f.peer.mtu)
	}
	return f.mtu
}

// request follows the PSNs of requests (section 9.7.1): a READ has the PSNs of its responses.
func (f *flow) request(p *capture.Packet, info *ib.OpInfo, r *finding) {
	defer func() { f.asked, f.tries.last = p.At, p.IB.PSN }()
	psn, n, loose := p.IB.PSN, 1, false
	if info.Class == ib.ClassReadRequest {
		switch mtu := f.pathMTU(); {
		case mtu > 0:
			n = max(1, (int(min(p.IB.RETH.DMALen, 1<<31))+mtu-1)/mtu)
		default:
			loose = p.IB.RETH.DMALen > 256 // the smallest path MTU
		}
	}
	loose = loose || p.Train
	r.lastPSN = psn.Add(n - 1)
	d := psn.Sub(f.next)
	if !f.started || d >= restart || d <= -restart {
		r.restarts = f.started
		f.base, f.whole = psn, f.started
		f.started, f.next, f.damaged, f.acked, f.loose, f.answer = true, psn.Add(n), 0, psn, loose, noAnswer
		return
	}
	switch {
	case d < 0 && f.service == ib.TransportUC:
		r.marks |= Repeated
	case d < 0:
		r.marks |= Retransmission
		switch {
		case f.answer == nakAnswer:
			f.cause, f.waited = "after the NAK", false
		case f.answer == rnrAnswer:
			f.cause, f.waited = "after the RNR NAK's time", true
		case f.cause == "":
			f.cause, f.waited = "without an answer for "+units.Duration(p.At.Sub(f.asked)), false
		}
		f.answer = noAnswer
		r.cause, r.retry = f.cause, f.tries.again(psn, f.waited)
		if end := psn.Add(n); end.After(f.next) {
			f.next, f.damaged = end, 0
		}
		return
	case d > f.damaged && !f.loose:
		r.marks |= Gap
		r.gapFrom, r.gapTo = f.next.Add(f.damaged), psn.Add(-1)
	}
	f.next, f.damaged, f.loose, f.cause, f.answer = psn.Add(n), 0, loose, "", noAnswer
}

// respond follows responses, and the acknowledgements of the peer's requests in them.
func (f *flow) respond(p *ib.Packet, info *ib.OpInfo, r *finding) {
	if info.Class == ib.ClassReadResponse {
		f.readResponse(p.PSN, info, r)
	}
	syndrome := ib.Acknowledge(0)
	if info.Headers&ib.HasAETH != 0 {
		syndrome = p.AETH.Syndrome
	}
	answer, upTo := noAnswer, p.PSN
	switch {
	case syndrome.IsNAK():
		r.marks |= NAK
		answer, upTo = nakAnswer, p.PSN.Add(-1) // the packets before it have arrived
	case syndrome.IsRNR():
		r.marks |= RNR
		answer, upTo = rnrAnswer, p.PSN.Add(-1)
	}
	q := f.peer
	if q == nil || !q.started {
		return
	}
	q.answer = answer
	switch n := upTo.Sub(q.acked); {
	case n >= restart || n <= -restart:
	case n >= 0:
		r.acks, r.ackFrom, r.ackTo = true, q.acked, upTo
		q.acked = upTo.Next()
		q.tries.n, q.tries.rnr = 0, 0
	case answer == noAnswer && info.Class == ib.ClassAck && (q.whole || upTo.Sub(q.base) >= 0):
		r.marks |= Repeated
	}
}

// readResponse follows the packets of READ responses.
func (f *flow) readResponse(psn ib.PSN, info *ib.OpInfo, r *finding) {
	d := psn.Sub(f.response)
	fresh := !f.responded || d >= restart || d <= -restart
	if !fresh && d < 0 {
		r.marks |= Repeated
	}
	ahead := psn.Sub(f.readNext)
	if !info.First && f.reading && ahead > f.damagedReads && ahead < restart {
		r.marks |= Gap
		r.gapFrom, r.gapTo = f.readNext.Add(f.damagedReads), psn.Add(-1)
	}
	f.reading, f.readNext, f.damagedReads = !info.Last, psn.Next(), 0
	if fresh || d >= 0 {
		f.responded, f.response = true, psn.Next()
	}
}
