// SPDX-License-Identifier: Apache-2.0

package local

import (
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Each side of a connection has a part of shared memory that it writes to:
//
//	0      the accesses that the other side may make to this one's memory by itself: see admit
//	4      not 0: the side has ended the connection between two messages
//	8      how many times the side has changed something outside this memory: see Change
//	12     odd: the side is at work in the other's memory (see cross); it grows with each time
//	16     how often memory that SENDs may name has ended: see Revoke
//	64     the key of the other side's memory, mapped here, in which the side is at work; 0: in none; see begin
//	72     the address at which it is at work
//	80     the number of bytes
//	128    the ring of its requests
//	...    the ring of its responses
//
// The words from 64 on have a cache line of their own, as the other side reads them only when it takes a right away.
//
// Responses have a ring of their own, so that a SEND that waits for a receive keeps no response back.
const (
	atGate    = 0
	atLeft    = 4
	atChanges = 8
	atWork    = 12
	atVoid    = 16

	atKeyUsed  = 64
	atAddrUsed = 72
	atLenUsed  = 80

	requestBytes  = 64 << 10
	responseBytes = 32 << 10
	atRequests    = 128
	atResponses   = atRequests + ringHeader + requestBytes

	// SegmentBytes is how large the part of each side is, in bytes.
	SegmentBytes = atResponses + ringHeader + responseBytes
)

// open is the bit of a gate that says that the queue pair is in a state in which it answers. The other bits are the
// verbs.Access that it allows.
const open = 1 << 31

// Memory is the part of a peer's memory that is mapped here.
type Memory interface {
	// Directory returns the directory of the peer's protection domain; nil: it is not there yet.
	Directory() *Lookup
	// Segment returns the memory of a segment; nil: it is not mapped. It is valid until
	// Generation changes.
	Segment(number uint64) (mem []byte, writable bool)
	Generation() uint64
	// Crosses reports whether the system lets this process copy from and to the peer's other memory.
	Crosses() bool
	// Cross copies local to an address in the peer's process, or back. It returns false if memory of
	// either process is not there, or the system does not let it.
	Cross(local []byte, addr uint64, write bool) bool
	// Quiesce returns when the peer is no longer at work in memory of this process that it has mapped, or has that
	// memory no longer: this side has taken rights away from it. See [Peer.Using].
	Quiesce()
}

// Peer is the other side of a queue pair.
type Peer struct {
	requests, responses     *Sender
	inRequests, inResponses *Receiver
	own, theirs             []byte
	memory                  Memory
	seen                    uint32 // of the peer's changes

	asleep  bool // the peer is to wake this side
	awaits  bool // this side waits until the peer is done with its messages
	watched bool // and the peer is to wake it for that, too
}

// NewPeer returns the other side, for two parts of [SegmentBytes] that are new and mapped for
// writing, and the peer's memory. Both parts are the same for a queue pair that is its own peer.
func NewPeer(own, theirs []byte, m Memory) (*Peer, error) {
	p := &Peer{own: own, theirs: theirs, memory: m}
	var err error
	if p.requests, err = NewSender(own[atRequests:], requestBytes); err != nil {
		return nil, err
	}
	if p.responses, err = NewSender(own[atResponses:], responseBytes); err != nil {
		return nil, err
	}
	if p.inRequests, err = NewReceiver(theirs[atRequests:], requestBytes); err != nil {
		return nil, err
	}
	p.inResponses, err = NewReceiver(theirs[atResponses:], responseBytes)
	return p, err
}

// loops reports whether the queue pair is its own peer.
func (p *Peer) loops() bool { return &p.own[0] == &p.theirs[0] }

// Change has the peer look at changes of this side that are not in this memory.
func (p *Peer) Change() { atomic.AddUint32(half(p.own, atChanges), 1) }

// Changed reports whether the peer has called Change since the last time.
func (p *Peer) Changed() bool {
	n := atomic.LoadUint32(half(p.theirs, atChanges))
	changed := n != p.seen
	p.seen = n
	return changed
}

// Pending reports whether the peer has done something that [QP.Receive] or [QP.Advance] has not seen. Messages
// that it has consumed count only while this side waits for that: each look takes a cache line from the peer.
func (p *Peer) Pending() bool {
	return p.Arrived() || p.awaits && (p.requests.Acknowledged() || p.responses.Acknowledged())
}

// Arrived reports whether the peer has sent something that [QP.Receive] has not seen.
func (p *Peer) Arrived() bool { return p.inRequests.Pending() || p.inResponses.Pending() }

// look finds the messages that have arrived.
func (p *Peer) look() {
	p.inRequests.look()
	p.inResponses.look()
}

// Sleep has the peer wake this side when it does something, until [Peer.Awake]. It returns false if the peer
// has done something meanwhile. When the peer is done with messages it wakes this side only if this side waits
// for that: else each message would wake both sides.
func (p *Peer) Sleep() bool {
	p.asleep = p.inRequests.Sleep() && p.inResponses.Sleep() && p.watch()
	return p.asleep
}

// Awake says that this side looks by itself.
func (p *Peer) Awake() { p.asleep = false }

// watch has the peer wake this side when it is done with messages, if this side waits for that.
func (p *Peer) watch() bool {
	p.watched = p.awaits && p.requests.Sleep() && p.responses.Sleep()
	return p.watched || !p.awaits
}

// Await notes whether this side waits until the peer is done with its messages. It returns false if this side
// sleeps, did not wait for that before, and the peer has been done with messages meanwhile.
func (p *Peer) Await(awaits bool) bool {
	p.awaits = awaits
	return !awaits || !p.asleep || p.watched || p.watch()
}

// admit publishes the operations that the peer may do by itself from now on.
func (p *Peer) admit(state verbs.QPState, access verbs.Access) {
	gate := uint32(0)
	if state >= verbs.StateRTR && state <= verbs.StateSQE {
		gate = open | uint32(access)
	}
	const byItself = uint32(verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic)
	if was := atomic.SwapUint32(half(p.own, atGate), gate); was&^gate&byItself != 0 {
		p.memory.Quiesce()
	}
}

// admits reports whether the peer's queue pair allows an operation.
func (p *Peer) admits(need verbs.Access) bool {
	gate := atomic.LoadUint32(half(p.theirs, atGate))
	return gate&open != 0 && verbs.Access(gate)&need == need
}

// answers reports whether the peer's queue pair is in a state in which it answers.
func (p *Peer) answers() bool { return atomic.LoadUint32(half(p.theirs, atGate))&open != 0 }

// leave tells the peer that this side has ended the connection in an orderly way.
func (p *Peer) leave() { atomic.StoreUint32(half(p.own, atLeft), 1) }

// Left reports whether the peer has ended the connection in an orderly way.
func (p *Peer) Left() bool { return atomic.LoadUint32(half(p.theirs, atLeft)) != 0 }

// remoteLookup is the region of the peer's memory that the last lookup found.
type remoteLookup struct {
	entry      Entry
	place      Place
	generation uint64
	mem        []byte
	writable   bool
}

// find finds n bytes of the peer's memory: as memory that is mapped here, or by their address in the
// peer's process. It returns neither if they are out of reach, or the region does not allow the access:
// then the operation goes to the peer.
func (p *Peer) find(f *remoteLookup, key verbs.Key, addr uint64, n int, need verbs.Access) (mem []byte, at uint64) {
	if (f.entry.Key != uint32(key) || f.generation != p.memory.Generation() || !f.place.Holds()) && !p.lookUp(f, key) {
		return nil, 0
	}
	off, ok := f.entry.Range(addr, uint64(n))
	switch {
	case !ok || verbs.Access(f.entry.Access)&need != need:
		return nil, 0
	case f.entry.Segment == 0:
		if f.entry.Memory == 0 {
			return nil, 0
		}
		return nil, f.entry.Memory + off
	case f.entry.Length > uint64(len(f.mem)), need&(verbs.RemoteWrite|verbs.RemoteAtomic) != 0 && !f.writable:
		return nil, 0
	}
	return f.mem[off:][:n:n], 0
}

// lookUp finds the region of a key. It returns false if none is known.
func (p *Peer) lookUp(f *remoteLookup, key verbs.Key) bool {
	*f = remoteLookup{}
	dir := p.memory.Directory()
	if dir == nil {
		return false
	}
	e, place, ok := dir.Find(uint32(key))
	if !ok {
		return false
	}
	*f = remoteLookup{entry: e, place: place}
	if e.Segment != 0 {
		f.mem, f.writable = p.memory.Segment(e.Segment)
	}
	f.generation = p.memory.Generation()
	return true
}

// enter says that this side is about to work in the peer's memory, and exit that it no longer is. A
// peer that withdraws a region waits for operations that have entered before: see [Peer.Work]. So a
// region that is still in the directory after enter is there until exit.
func (p *Peer) enter() { atomic.AddUint32(half(p.own, atWork), 1) }
func (p *Peer) exit()  { atomic.AddUint32(half(p.own, atWork), 1) }

// begin says that this side is about to work in mapped memory of the peer's, and end that it no longer is. The right
// to that is looked up in between. These are plain stores, as each operation makes them: a peer that takes a right
// away has all processors finish their stores before it looks ([Peer.Using]).
func (p *Peer) begin(at verbs.Remote, n int) {
	*word(p.own, atAddrUsed) = at.Addr
	*word(p.own, atLenUsed) = uint64(n)
	*word(p.own, atKeyUsed) = uint64(at.Key)
}

func (p *Peer) end() {
	memory.Order()
	*word(p.own, atKeyUsed) = 0
}

// remains reports whether an operation in mapped memory was allowed until it was done: the peer's queue pair still
// allows it, and the region still has its place. Reads of the memory come before these checks.
func (p *Peer) remains(f *remoteLookup, need verbs.Access) bool {
	memory.Order()
	return p.admits(need) && f.place.Holds()
}

// Using returns the memory of this process, mapped by the peer, in which the peer says that it is at work; n is 0 if
// there is none. Before the call the right to the memory was taken away, and all processors have finished their stores.
func (p *Peer) Using() (key uint32, addr, n uint64) {
	key = uint32(atomic.LoadUint64(word(p.theirs, atKeyUsed)))
	addr, n = atomic.LoadUint64(word(p.theirs, atAddrUsed)), atomic.LoadUint64(word(p.theirs, atLenUsed))
	if key == 0 || n > stride { // no operation is longer
		return 0, 0, 0
	}
	return key, addr, n
}

// Work returns a number that is odd while the peer is at work in this side's memory, and then changes.
func (p *Peer) Work() uint32 { return atomic.LoadUint32(half(p.theirs, atWork)) }

// Revoke has the peer copy no payload any more that a SEND has named by its address in this process. The peer
// then asks for the payload. It finishes a copy that it has begun: see Work.
func (p *Peer) Revoke() { atomic.AddUint64(word(p.own, atVoid), 1) }

// named returns the word that goes with a SEND that names memory of this process now.
func (p *Peer) named() uint64 { return atomic.LoadUint64(word(p.own, atVoid)) }

// holds reports whether memory that a SEND has named is still there. This side has entered.
func (p *Peer) holds(named uint64) bool { return atomic.LoadUint64(word(p.theirs, atVoid)) == named }

// Shut has the peer begin no more work in this side's memory.
func (p *Peer) Shut() { p.admit(verbs.StateReset, 0) }
