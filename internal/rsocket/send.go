// SPDX-License-Identifier: Apache-2.0

package rsocket

import "encoding/binary"

// MaxTransfer is how much data a message carries at most, in bytes.
const MaxTransfer = 1 << 16

// sendState is what is on its way to the peer.
type sendState struct {
	seq   uint16 // data messages sent
	limit uint16 // seq may not go beyond

	targets [SGLSize]SGE // receive buffers of the peer, the one in use first
	slot    int          // entry of our table that the peer writes next

	head, used int // of the ring, bytes
	size       int

	posted, completed uint64 // work requests
	signaled          uint64 // the last one that is
	entries           []sendEntry
	quietRequests     int // since the last signaled one
	quietBytes        int
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
	w.limit, w.size = peer.Credits, cfg.SendBuf
	w.targets[0] = peer.Data
	w.slot = 1 % SGLSize
	w.entries = make([]sendEntry, cfg.SendQueue)
}

// takeTargets takes the receive buffers that the peer has written to our table. A slot is
// empty again once it was taken: the peer uses it when the buffer before was filled.
func (w *sendState) takeTargets(table []byte) {
	for range SGLSize {
		if w.targets[SGLSize-1].Length != 0 {
			return
		}
		b := table[w.slot*SGESize:][:SGESize]
		var e SGE
		e.Get(b, binary.LittleEndian)
		if e.Length == 0 {
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

// free is how many more work requests may be posted without those that are kept for
// control messages.
func (s *Stream) free() int {
	return len(s.send.entries) - CtrlSize - (int(s.send.posted-s.send.completed) - s.ctrl.inFlight)
}

// Room returns where in the send ring the data of the next message goes and how many bytes
// it may have, from there on and then from the ring's beginning; 0: it has to wait for the
// peer or for completions. A message of at most Config.Inline bytes can do without the ring:
// InlineRoom.
func (s *Stream) Room() (off, n int) { return s.send.head, min(s.InlineRoom(), s.send.room()) }

// room is how much of the ring can be used next. A ring that is nearly full counts as full,
// so that a long write does not end in many short messages: completions of three quarters
// of it are always to come.
func (w *sendState) room() int {
	if w.size-w.used < w.size/8 {
		return 0
	}
	return w.size - w.used
}

// InlineRoom is how many bytes the next message may have as far as the peer and the queue
// are concerned.
func (s *Stream) InlineRoom() int {
	w := &s.send
	if s.ctrl.want != open || s.ctrl.peer == disconnected || w.seq == w.limit || s.free() <= 0 {
		return 0
	}
	return min(MaxTransfer, int(w.targets[0].Length))
}

// Send puts a message of n bytes into p: out of the ring, where Room has said, or of at
// most Config.Inline bytes that InlineRoom has allowed.
func (s *Stream) Send(n int, inRing bool, p *Post) {
	w := &s.send
	t := &w.targets[0]
	*p = Post{Msg: NewMessage(OpData, uint32(n)), Len: n, Remote: Region{t.Addr, t.Key}}
	t.Addr += uint64(n)
	if t.Length -= uint32(n); t.Length == 0 {
		copy(w.targets[:], w.targets[1:])
		w.targets[SGLSize-1] = SGE{}
	}
	w.seq++
	bytes := 0
	if inRing {
		p.Off, p.InRing, bytes = w.head, true, n
		w.use(n)
	}
	s.track(p, bytes)
}

// track signals what has to be: enough that neither ring nor queue runs full of work
// requests that nothing will be heard of.
func (s *Stream) track(p *Post, bytes int) {
	w := &s.send
	p.Signaled = w.quietRequests+1 >= (len(w.entries)-CtrlSize+3)/4 || w.quietBytes+bytes >= w.size/4
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
	w.quietRequests++
	w.quietBytes += bytes
	if p.Signaled {
		w.signaled = w.posted
		w.quietRequests, w.quietBytes = 0, 0
	}
}

func (w *sendState) complete() wrKind {
	e := w.entries[w.completed%uint64(len(w.entries))]
	w.completed++
	w.used -= e.bytes
	return e.kind
}
