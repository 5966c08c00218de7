// SPDX-License-Identifier: Apache-2.0

package local

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A long SEND from memory that the receiver can read is a message that says where its payload is: in a
// segment, or in other memory of the sender's process, where the system lets the receiver copy from it.
// The receiver copies it from there to its receive, and then takes the message out of the ring, by which
// the sender knows that its memory is free. If the receiver cannot copy it, it asks for the payload as for
// a READ's data. A long WRITE that goes through the ring does the same.
//
// The memory of a region is not touched after the region has ended. A segment stays while the receiver has
// it mapped. For other memory the receiver says that it is at work, and looks whether a region has ended
// since the SEND. The sender first says that it has ([Peer.Revoke]), and then waits for receivers at work.

// phase is how far a receiver has come with such a SEND.
type phase uint8

const (
	noRef    phase = iota
	copying        // it has a receive
	wanted         // the payload has to be asked for
	fetching       // it was asked for
	complete       // it is there
)

// reference is such a SEND or WRITE. Its message is the oldest one in the ring. Its fields were copied before they
// were checked: the peer can write to the ring all the time.
type reference struct {
	phase       phase
	write       bool
	kind        kind   // of a SEND
	field       uint32 // of a SEND: immediate data or key
	remoteCache remoteLookup
	key         verbs.Key
	addr        uint64
	length      int
	place       uint64 // address in the sender's process; 0: it is in a segment
	named       uint64 // and the number of revocations when it was named
}

// fetches reports whether the payload is on its way, and the peer's other requests wait.
func (r *reference) fetches() bool { return r.phase == wanted || r.phase == fetching }

// decodeRef copies the description of a payload from a message, but for the length, which the caller has checked.
func (q *QP) decodeRef(body []byte, length uint64) reference {
	return reference{phase: copying, remoteCache: q.ref.remoteCache, key: verbs.Key(get32(body, 4)),
		addr: get64(body, 8), length: int(length),
		place: get64(body, 24), named: get64(body, 32)}
}

// takeRef takes up a SEND whose payload is in the peer's memory. It returns false while there is more of it to do.
func (q *QP) takeRef(k kind, body []byte) bool {
	length := get64(body, 16)
	if length > uint64(q.Device.MaxMsgSize) {
		q.corrupt()
		return false
	}
	if !q.receive(k) {
		return false
	}
	if !q.Scatter(&q.land) {
		q.CompleteReceive(verbs.StatusLocalProtectionError)
		return q.refuse(verbs.StatusRemoteOperationError, verbs.EventQPFatal)
	}
	if length > uint64(q.land.Len()) {
		q.CompleteReceive(verbs.StatusLocalLengthError)
		return q.refuse(verbs.StatusRemoteInvalidRequestError, verbs.EventQPRequestError)
	}
	q.ref, q.got = q.decodeRef(body, length), 0
	q.ref.kind, q.ref.field = k, get32(body, 0)
	return q.continueRef()
}

// takeWriteRef takes up a WRITE whose payload is in the peer's memory. It returns false while there is more of it to
// do.
func (q *QP) takeWriteRef(body []byte) bool {
	key, addr, length := verbs.Key(get32(body, refFields)), get64(body, refFields+8), get64(body, 16)
	const op, need = verbs.WCWrite, verbs.RemoteWrite
	if q.Attr().Access&need == 0 {
		return q.forbidden(op, key, addr, length, need)
	}
	s, ok := q.Device.Memory.RemoteCached(&q.last, q.PD, q.Num, key, addr, length, need)
	if !ok {
		return q.notAllowed(op, key, addr, length, need)
	}
	if length == 0 || length > uint64(q.Device.MaxMsgSize) {
		q.corrupt()
		return false
	}
	if a := q.Device.Memory.Accesses(); a != nil {
		a.Begin(q.Num, verbs.OpWrite, verbs.Remote{Addr: addr, Key: key}, s.Bytes())
	}
	q.land.One(s)
	q.ref, q.got = q.decodeRef(body, length), 0
	q.ref.write = true
	return q.continueRef()
}

// continueRef copies more of a payload. It returns false while there is more of it to do.
func (q *QP) continueRef() bool {
	if q.ref.phase == copying && !q.copyRef() || q.ref.fetches() {
		return false
	}
	r := q.ref
	q.ref = reference{remoteCache: r.remoteCache}
	q.CountRequest(q.got, true)
	if a := q.Device.Memory.Accesses(); a != nil && r.write {
		a.End(q.Num, verbs.OpWrite, nil, true)
	}
	return r.write || q.endSend(r.kind, r.field)
}

// spoilRef ends the connection: where the payload goes is no memory any more.
func (q *QP) spoilRef() bool {
	if q.ref.write {
		return q.violated()
	}
	q.CompleteReceive(verbs.StatusLocalProtectionError)
	return q.refuse(verbs.StatusRemoteOperationError, verbs.EventQPFatal)
}

// copyRef copies the next piece of the payload. It returns false unless that was the last.
func (q *QP) copyRef() bool {
	r := &q.ref
	n := min(r.length-q.got, stride)
	if r.place != 0 {
		return q.crossRef(n)
	}
	mem, _ := q.peer.find(&r.remoteCache, r.key, r.addr+uint64(q.got), n, verbs.RemoteRead)
	if mem == nil {
		return q.wantRef()
	}
	if !q.land.Write(q.Device.Memory, mem) {
		return q.spoilRef()
	}
	memory.Order()
	if !q.peer.answers() || !r.remoteCache.place.Holds() { // the sender's program may have its memory back since
		return q.wantRef()
	}
	q.lane.Counters.RecvBytes += uint64(n)
	q.got += n
	return q.got == r.length
}

// wantRef has the whole payload requested, including the bytes that were copied already.
func (q *QP) wantRef() bool {
	q.ref.phase, q.got = wanted, 0
	q.land.Seek(0)
	return false
}

// crossRef copies the next piece of a payload by the system's copy between processes.
func (q *QP) crossRef(n int) bool {
	r, p := &q.ref, q.peer
	if !p.memory.Crosses() || !q.fetchNamed(n) {
		return q.wantRef()
	}
	q.lane.Counters.Crossed++
	q.lane.Counters.RecvBytes += uint64(n)
	q.got += n
	return q.got == r.length
}

// fetchNamed copies n bytes from the sender's process to the receive. It returns false if that cannot be.
func (q *QP) fetchNamed(n int) bool {
	r, p := &q.ref, q.peer
	p.enter()
	defer p.exit()
	if !p.holds(r.named) || !p.answers() {
		return false
	}
	for done := 0; done < n; {
		b, ok := q.land.Next(n - done)
		if !ok || !p.memory.Cross(b, r.place+uint64(q.got+done), false) {
			return false
		}
		done += len(b)
	}
	memory.Order()
	return p.holds(r.named) && p.answers() // else the sender's program may have had its memory back
}

// askFetch asks for a payload that is out of reach. It returns false if nothing is to be
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

// takeFetch answers with the payload of a SEND or WRITE. That needs no remote access: the program itself sends it.
func (q *QP) takeFetch(key verbs.Key, addr uint64, length uint32) bool {
	s, ok := q.Device.Memory.Local(q.PD, &verbs.SGE{Addr: addr, Length: length, LKey: key}, false)
	if !ok || length == 0 || !q.sends(key, addr, length) {
		q.reap()
		if q.sq.Len() > 0 {
			q.fail(verbs.StatusLocalProtectionError) // its memory has gone
		} else {
			q.corrupt()
		}
		return false
	}
	if q.peer.named() == q.named {
		q.uncrossed = true // the peer cannot copy from there: naming further payloads is useless
	}
	*q.resp.PushBack() = response{span: s}
	return true
}

// sends reports whether a SEND or WRITE that has not completed names this memory: peers get nothing else so. The
// immediate data of a WRITE may still wait for room.
func (q *QP) sends(key verbs.Key, addr uint64, length uint32) bool {
	for i := range min(q.next+1, q.sq.Len()) {
		w := q.sq.At(i)
		payload := w.class() == classSend || w.class() == classWrite
		if w.begun && payload && len(w.SGL) == 1 && w.SGL[0].LKey == key && w.SGL[0].Addr == addr &&
			w.Length == length {
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
		return q.spoilRef()
	}
	q.lane.Counters.RecvBytes += uint64(len(body))
	q.got += len(body)
	if k.has(last) {
		q.reads.PopFront()
		r.phase = complete
	}
	return true
}
