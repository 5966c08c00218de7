// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// patienceWatch holds requesters to the timers of RNR NAKs: the request that had no receive is not sent again before
// the timer in the NAK has run out (IBTA 9.7.5.2.8). A requester that goes back for a lost response, which such a NAK
// shows, too, sends the requests behind it as well: before it has waited, or in the instant of the NAK. If the
// response was only late, and comes before it is requested again, the requests behind it are sent then. So a NAK
// counts if all responses before it have come.
type patienceWatch struct {
	peers   map[watched]verbs.QPN // queue pairs by their host and their peer's number
	asked   map[watched]wait      // by host and number
	awaited map[watched][]request // READs and atomics whose last response has not come
	err     error
}

// watched names a queue pair of a host.
type watched struct {
	host *simnet.Host
	qpn  verbs.QPN
}

// wait is the wait that a NAK asks for.
type wait struct {
	psn   ib.PSN
	since time.Duration
	timer time.Duration
}

// request is a READ or an atomic. A READ that is asked for again from its middle on ends at the same address.
type request struct {
	psn  ib.PSN
	read bool
	end  uint64
}

func newPatienceWatch() *patienceWatch {
	return &patienceWatch{peers: make(map[watched]verbs.QPN), asked: make(map[watched]wait),
		awaited: make(map[watched][]request)}
}

// connected tells which queue pair of a host sends to a number.
func (w *patienceWatch) connected(h *simnet.Host, own, peer verbs.QPN) {
	w.peers[watched{h, peer}] = own
}

// Taken notes RNR NAKs, and responses.
func (w *patienceWatch) Taken(now time.Duration, by *simnet.Host, p *ib.Packet) {
	q := watched{by, p.DestQP}
	switch p.Opcode.Info().Class {
	case ib.ClassAck:
		late := slices.ContainsFunc(w.awaited[q], func(r request) bool { return r.psn.Before(p.PSN) })
		if !p.AETH.Syndrome.IsRNR() {
			return
		}
		if delete(w.asked, q); !late {
			w.asked[q] = wait{p.PSN, now, p.AETH.Syndrome.Timer().Duration()}
		}
	case ib.ClassAtomicAck:
		w.awaited[q] = slices.DeleteFunc(w.awaited[q], func(r request) bool { return !r.read && r.psn == p.PSN })
	case ib.ClassReadResponse:
		if op := p.Opcode.Operation(); op == ib.OpReadResponseLast || op == ib.OpReadResponseOnly {
			w.read(q, p.PSN)
		}
	}
}

// read notes the last response to a READ: to the youngest READ that it can belong to.
func (w *patienceWatch) read(q watched, last ib.PSN) {
	all := w.awaited[q]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].read && !last.Before(all[i].psn) {
			w.awaited[q] = slices.Delete(all, i, i+1)
			return
		}
	}
}

// asks notes a request that has a response.
func (w *patienceWatch) asks(q watched, r request) {
	again := func(o request) bool { return o.read == r.read && (o.psn == r.psn || r.read && o.end == r.end) }
	w.awaited[q] = append(slices.DeleteFunc(w.awaited[q], again), r)
}

// Leaves looks whether a request comes too early.
func (w *patienceWatch) Leaves(now time.Duration, from *simnet.Host, p *ib.Packet) {
	own, ok := w.peers[watched{from, p.DestQP}]
	q := watched{from, own}
	class := p.Opcode.Info().Class
	switch {
	case ok && class == ib.ClassReadRequest:
		w.asks(q, request{p.PSN, true, p.RETH.VA + uint64(p.RETH.DMALen)})
	case ok && class == ib.ClassAtomic:
		w.asks(q, request{psn: p.PSN})
	}
	asked, naked := w.asked[q]
	if !ok || !naked {
		return
	}
	switch class {
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
		w.err = wrongf("%v with PSN %v is sent again %v after an RNR NAK that asks for %v", p.Opcode, p.PSN,
			now-asked.since, asked.timer)
	}
	delete(w.asked, q)
}

// ended returns the violations.
func (w *patienceWatch) ended(n *simnet.Net) (err error) {
	n.Locked(func() { err = w.err })
	return err
}
