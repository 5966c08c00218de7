// SPDX-License-Identifier: Apache-2.0

package rsocket

import "encoding/binary"

// MaxTransfer is the maximum data of a message in bytes.
const MaxTransfer = 1 << 16

// sendState counts the messages and bytes in flight to the peer.
type sendState struct {
	seq   uint16 // data messages sent
	limit uint16 // seq must not exceed it
	spare uint16 // credits that are not used

	targets   [SGLSize]SGE // receive buffers of the peer, the one in use first
	slot      int          // entry of our table that the peer writes next
	announced int          // messages with entries that were not taken

	head, used int // of the ring, bytes
	staged     int // bytes after the bytes in use that were not sent yet
	size       int
	chunk      int // maximum bytes of a message

	posted, completed  uint64 // work requests
	signaled           uint64 // the last signaled one
	entries            []sendEntry
	unsignaledRequests int // since the last signaled one
	unsignaledBytes    int
}

// sendEntry is a work request that has not completed.
type sendEntry struct {
	kind  wrKind
	bytes int // of the ring
}

type wrKind uint8

const (
	wrData wrKind = iota
	wrControl
)

func (w *sendState) init(cfg *Config, peer *ConnData) {
	if cfg.Sends {
		// The peer may have receives for its credits and no more. A message that needs no credit
		// would end the connection if it found no receive.
		w.spare = min(2*CtrlSize, peer.Credits/4)
	}
	w.limit, w.size, w.chunk = peer.Credits-w.spare, cfg.SendBuf, cfg.Chunk
	if w.chunk == 0 {
		w.chunk = MaxTransfer
	}
	w.targets[0] = peer.Data
	w.slot = 1 % SGLSize
	w.entries = make([]sendEntry, cfg.SendQueue)
}

// takeTargets takes the receive buffers that the peer has announced, and clears their slots of our
// table: the peer uses a slot again when the previous buffer was filled. It looks at no other: the peer may be
// writing there.
func (w *sendState) takeTargets(table []byte) {
	for ; w.announced > 0 && w.targets[SGLSize-1].Length == 0; w.announced-- {
		b := table[w.slot*SGESize:][:SGESize]
		var e SGE
		e.Get(b, binary.LittleEndian)
		if e.Length == 0 { // the message came without one, or the peer has broken the rules
			w.announced = 0
			return
		}
		SGE{}.Put(b, binary.LittleEndian)
		w.slot = (w.slot + 1) % SGLSize
		for i := range w.targets {
			if w.targets[i].Length == 0 {
				w.targets[i] = e
				break
			}
		}
	}
}

// free returns how many more work requests may be posted, apart from the places reserved for control messages.
func (s *Stream) free() int {
	return len(s.send.entries) - CtrlSize - (int(s.send.posted-s.send.completed) - s.ctrl.inFlight)
}

// Room returns where in the send ring the program's next bytes go and how many there may be, from
// there on and then from the ring's beginning. 0 means that they have to wait for the peer or for
// completions, after staged bytes were sent. Bytes put there are staged with Stage. Up to
// Config.Inline bytes can bypass the ring: see InlineRoom.
func (s *Stream) Room() (off, n int) {
	w := &s.send
	if off = w.head + w.staged; off >= w.size {
		off -= w.size
	}
	return off, min(s.messageRoom()-w.staged, w.room())
}

// room returns how much of the ring can be used next. A nearly full ring counts as full, so that a
// long write does not end in many short messages: completions of three quarters of it are always to
// come.
func (w *sendState) room() int {
	if n := w.size - w.used - w.staged; n >= w.size/8 {
		return n
	}
	return 0
}

// InlineRoom returns how many bytes the peer and the queue allow for the next message.
func (s *Stream) InlineRoom() int {
	w := &s.send
	if s.ctrl.want != open || s.ctrl.peer == disconnected || w.seq == w.limit || s.free() <= 0 {
		return 0
	}
	return min(MaxTransfer, int(w.targets[0].Length))
}

func (s *Stream) messageRoom() int { return min(s.send.chunk, s.InlineRoom()) }

// SendInline puts a message of n bytes into p that are not in the ring. InlineRoom must have
// allowed it, it has at most Config.Inline bytes, and nothing is staged.
func (s *Stream) SendInline(n int, p *Post) {
	s.data(n, p)
	s.track(p, 0)
}

// Stage records that n bytes were put where Room said. They go with the next SendStaged, which is
// allowed until then.
func (s *Stream) Stage(n int) { s.send.staged += n }

// Staged returns how many bytes were staged and not sent.
func (s *Stream) Staged() int { return s.send.staged }

// Full reports whether waiting could not make the staged message longer.
func (s *Stream) Full() bool { return s.send.staged >= s.messageRoom() }

// Busy reports whether at least half a full message is in flight, with a completion to come.
func (s *Stream) Busy() bool {
	w := &s.send
	return w.signaled > w.completed && w.used >= w.chunk/2
}

// SendStaged puts a message of the staged bytes into p. It returns false if there are none, or
// nothing can be sent any more.
func (s *Stream) SendStaged(p *Post) bool {
	w := &s.send
	n := w.staged
	if n == 0 || n > s.InlineRoom() {
		return false
	}
	s.data(n, p)
	p.Off, p.InRing = w.head, true
	w.staged = 0
	w.use(n)
	s.track(p, n)
	return true
}

// data makes p a message of n bytes.
func (s *Stream) data(n int, p *Post) {
	w := &s.send
	t := &w.targets[0]
	*p = Post{Msg: NewMessage(OpData, uint32(n)), Len: n, Remote: Region{t.Addr, t.Key}}
	t.Addr += uint64(n)
	if t.Length -= uint32(n); t.Length == 0 {
		copy(w.targets[:], w.targets[1:])
		w.targets[SGLSize-1] = SGE{}
	}
	w.seq++
}

// track marks a work request as signaled if necessary: often enough that neither ring nor queue
// fills up with unsignaled work requests, and for full messages, so that Busy is true while they
// are in flight.
func (s *Stream) track(p *Post, bytes int) {
	w := &s.send
	p.Signaled = w.unsignaledRequests+1 >= (len(w.entries)-CtrlSize+3)/4 ||
		w.unsignaledBytes+bytes >= min(w.size/4, w.chunk)
	w.track(p, wrData, bytes)
}

func (w *sendState) use(n int) {
	w.used += n
	if w.head += n; w.head >= w.size {
		w.head -= w.size
	}
}

func (w *sendState) track(p *Post, kind wrKind, bytes int) {
	w.entries[w.posted%uint64(len(w.entries))] = sendEntry{kind, bytes}
	w.posted++
	p.ID = w.posted
	w.unsignaledRequests++
	w.unsignaledBytes += bytes
	if p.Signaled {
		w.signaled = w.posted
		w.unsignaledRequests, w.unsignaledBytes = 0, 0
	}
}

func (w *sendState) complete() wrKind {
	e := w.entries[w.completed%uint64(len(w.entries))]
	w.completed++
	w.used -= e.bytes
	return e.kind
}
