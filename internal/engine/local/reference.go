// SPDX-License-Identifier: Apache-2.0

package local

import (
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A long SEND from memory that the receiver can read is a message that says where its payload is. The
// receiver copies it from there to its receive, and then takes the message out of the ring, by which the
// sender knows that its memory is free. If the receiver has the memory not mapped, it asks for the
// payload as for a READ's data.

// phase is how far a receiver has come with such a SEND.
type phase uint8

const (
	noRef    phase = iota
	copying        // it has a receive
	wanted         // the payload has to be asked for
	fetching       // it was asked for
	complete       // it is there
)

// reference is such a SEND. Its message is the oldest one in the ring.
type reference struct {
	phase  phase
	far    far
	key    verbs.Key
	addr   uint64
	length int
}

// fetches reports whether the payload is on its way, and the peer's other requests wait.
func (r *reference) fetches() bool { return r.phase == wanted || r.phase == fetching }

// takeRef continues a SEND whose payload is in the peer's memory. It returns false while there is more of
// it to do.
func (q *QP) takeRef(k kind, field uint32, key verbs.Key, addr, length uint64) bool {
	r := &q.ref
	if r.phase == noRef {
		if length > uint64(q.Device.MaxMsgSize) {
			q.corrupt()
			return false
		}
		if !q.receive(k) {
			return false
		}
		if !q.Scatter(&q.land) {
			q.CompleteReceive(verbs.LocalProtectionError)
			return q.refuse(verbs.RemoteOperationError, verbs.EventQPFatal)
		}
		if length > uint64(q.land.Len()) {
			q.CompleteReceive(verbs.LocalLengthError)
			return q.refuse(verbs.RemoteInvalidRequestError, verbs.EventQPRequestError)
		}
		r.phase, r.key, r.addr, r.length = copying, key, addr, int(length)
		q.got = 0
	}
	if r.phase == copying && !q.copyRef() {
		return false
	}
	*r = reference{far: r.far}
	q.CountRequest(q.got, true)
	return q.endSend(k, field)
}

// copyRef copies the next piece of the payload. It returns false unless that was the last.
func (q *QP) copyRef() bool {
	r := &q.ref
	n := min(r.length-q.got, stride)
	mem, _ := q.peer.find(&r.far, r.key, r.addr+uint64(q.got), n, verbs.RemoteRead)
	if mem == nil {
		r.phase = wanted // all of it: what was copied is copied again
		q.got = 0
		q.land.Seek(0)
		return false
	}
	if !q.land.Write(q.Device.Memory, mem) {
		q.CompleteReceive(verbs.LocalProtectionError)
		return q.refuse(verbs.RemoteOperationError, verbs.EventQPFatal)
	}
	q.Device.Counters.RecvBytes += uint64(n)
	q.got += n
	return q.got == r.length
}

// askFetch asks for the payload of a SEND that is out of reach. It returns false if nothing is to be
// asked for, or there is no room.
func (q *QP) askFetch() bool {
	r := &q.ref
	if r.phase != wanted || !q.prepareRead(opFetch, r.key, r.addr, uint32(r.length)) {
		return false
	}
	q.publish()
	*q.reads.PushBack() = readOp{fetch: true}
	r.phase = fetching
	return true
}

// takeFetch answers with the payload of a SEND. It is the program's own memory, whatever peers may do.
func (q *QP) takeFetch(key verbs.Key, addr uint64, length uint32) bool {
	s, ok := q.Device.Memory.Local(q.PD, &verbs.SGE{Addr: addr, Length: length, LKey: key}, false)
	if !ok || length == 0 || !q.sends(key, addr, length) {
		q.harvest()
		if q.sq.Len() > 0 {
			q.fail(verbs.LocalProtectionError) // its memory has gone
		} else {
			q.corrupt()
		}
		return false
	}
	*q.resp.PushBack() = response{span: s}
	return true
}

// sends reports whether a SEND that has not completed names this memory: peers get nothing else so.
func (q *QP) sends(key verbs.Key, addr uint64, length uint32) bool {
	for i := range q.next {
		w := q.sq.At(i)
		if w.Op <= verbs.SendInv && len(w.SGL) == 1 && w.SGL[0].LKey == key && w.SGL[0].Addr == addr && w.Length == length {
			return true
		}
	}
	return false
}

// fetched takes a piece of the payload.
func (q *QP) fetched(k kind, body []byte) bool {
	r := &q.ref
	if r.phase != fetching || len(body) > r.length-q.got || k.has(last) != (q.got+len(body) == r.length) {
		q.corrupt()
		return false
	}
	if !q.land.Write(q.Device.Memory, body) {
		q.CompleteReceive(verbs.LocalProtectionError)
		q.refuse(verbs.RemoteOperationError, verbs.EventQPFatal)
		return false
	}
	q.Device.Counters.RecvBytes += uint64(len(body))
	q.got += len(body)
	if k.has(last) {
		q.reads.PopFront()
		r.phase = complete
	}
	return true
}
