// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// patienceWatch holds requesters to what RNR NAKs ask of them: the request that had no receive is not sent again
// before the timer in the NAK has run out (IBTA 9.7.5.2.8). A requester that goes back for a lost response, which
// such a NAK tells of, too, sends what followed it as well: before it has waited, or in the instant of the NAK.
type patienceWatch struct {
	peers map[watched]verbs.QPN // queue pairs by their host and their peer's number
	asked map[watched]wait      // by host and number
	err   error
}

// watched names a queue pair of a host.
type watched struct {
	host *Host
	qpn  verbs.QPN
}

// wait is what a NAK asks for.
type wait struct {
	psn   ib.PSN
	since time.Duration
	timer time.Duration
}

func newPatienceWatch() *patienceWatch {
	return &patienceWatch{peers: make(map[watched]verbs.QPN), asked: make(map[watched]wait)}
}

// connected tells which queue pair of a host sends to a number.
func (w *patienceWatch) connected(h *Host, own, peer verbs.QPN) { w.peers[watched{h, peer}] = own }

// Taken notes RNR NAKs.
func (w *patienceWatch) Taken(now time.Duration, by *Host, p *ib.Packet) {
	if p.Opcode.Info().Class == ib.ClassAck && p.AETH.Syndrome.IsRNR() {
		w.asked[watched{by, p.DestQP}] = wait{p.PSN, now, p.AETH.Syndrome.Timer().Duration()}
	}
}

// Leaves looks whether a request comes too early.
func (w *patienceWatch) Leaves(now time.Duration, from *Host, p *ib.Packet) {
	own, ok := w.peers[watched{from, p.DestQP}]
	q := watched{from, own}
	asked, naked := w.asked[q]
	if !ok || !naked {
		return
	}
	switch p.Opcode.Info().Class {
	case ib.ClassSend, ib.ClassWrite:
	case ib.ClassAck, ib.ClassReadResponse, ib.ClassAtomicAck:
		return
	default:
		if p.PSN.Before(asked.psn) {
			delete(w.asked, q)
		}
		return
	}
	if p.PSN != asked.psn {
		return
	}
	if now != asked.since && now < asked.since+asked.timer && w.err == nil {
		w.err = wrongf("%v with PSN %v is sent again %v after an RNR NAK that asks for %v", p.Opcode, p.PSN, now-asked.since, asked.timer)
	}
	delete(w.asked, q)
}

// ended returns what was wrong.
func (w *patienceWatch) ended(n *Net) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return w.err
}
