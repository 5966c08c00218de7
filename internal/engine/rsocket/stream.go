// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// SGLSize is the number of entries of a target list. Peers write them in turn, so that
// two receive buffers can be on offer at once.
const SGLSize = 2

// CtrlSize limits the messages in flight that need no credit.
const CtrlSize = 4

// ErrProtocol means that the peer broke the protocol.
var ErrProtocol = errors.New("rsocket: the peer broke the protocol")

// Config has the parameters of a stream.
type Config struct {
	SendBuf   int    // bytes of the send ring
	SendQueue int    // send work requests that the queue holds, more than CtrlSize
	RecvBuf   int    // bytes of the receive ring, an even number
	Credits   int    // data messages that the peer may send before it needs more, up to MaxCredits
	IOMaps    int    // entries of the table of mapped buffers that the peer may fill
	Inline    int    // bytes that are sent from the caller's memory, bypassing the ring
	Chunk     int    // maximum bytes of a message, up to MaxTransfer, which is the default
	Ring      Region // the receive ring, as the peer names it
	Table     Region // TableSize bytes, as the peer names it

	// Sends says that messages are SENDs of WordSize bytes, because the transport has no WRITE with
	// immediate data; their data is a WRITE before them.
	Sends bool
}

// MaxCredits is the maximum that 16-bit sequence numbers allow.
const MaxCredits = 1 << 14

// Region is memory that the peer can write to.
type Region struct {
	Addr uint64
	Key  uint32
}

// TableSize returns the size of the target list and the table of mapped buffers in bytes.
func (c *Config) TableSize() int { return SGLSize*SGESize + IOMapSize*c.IOMaps }

// ConnData returns the private data for the peer.
func (c *Config) ConnData() ConnData {
	return ConnData{Version: Version, Flags: FlagIOMap, Credits: uint16(c.Credits), IOMaps: ScaleIOMaps(c.IOMaps),
		Target: SGE{c.Table.Addr, c.Table.Key, SGLSize},
		Data:   SGE{c.Ring.Addr, c.Ring.Key, uint32(c.RecvBuf / 2)}}
}

// Stream is one side of a connection. It is not safe for concurrent use.
//
// Commands are SendInline, Stage and SendStaged, SendIOMap, WriteMapped, Probe, Consume, Shutdown and Disconnect,
// inputs are HandleMessage and HandleCompletion. After each of them NextControl is to be drained, until
// it returns false. Posts are posted in the order in which they were made.
type Stream struct {
	cfg    Config
	send   sendState
	recv   recvState
	ctrl   ctrlState
	remote remoteState
}

// remoteState holds the contents of the peer's private data.
type remoteState struct {
	order  binary.ByteOrder
	sgl    Region
	slots  int // entries of its target list
	slot   int // the next to be written
	iomap  Region
	iomaps int
}

// NewStream creates the engine of a connection with the peer's private data.
func NewStream(cfg Config, peer *ConnData) (*Stream, error) {
	if peer.Version != Version {
		return nil, fmt.Errorf("%w: it speaks version %d, not %d", ErrProtocol, peer.Version, Version)
	}
	if peer.Target.Length == 0 || peer.Data.Length == 0 {
		return nil, fmt.Errorf("%w: it offers no memory", ErrProtocol)
	}
	s := &Stream{cfg: cfg}
	s.remote = remoteState{order: peer.order(), sgl: Region{peer.Target.Addr, peer.Target.Key},
		slots: int(peer.Target.Length)}
	s.remote.slot = 1 % s.remote.slots // peer.Data takes the place of the first
	if peer.Flags&FlagIOMap != 0 {
		s.remote.iomap = Region{peer.Target.Addr + SGESize*uint64(peer.Target.Length), peer.Target.Key}
		s.remote.iomaps = UnscaleIOMaps(peer.IOMaps)
	}
	s.send.init(&cfg, peer)
	s.recv.init(&cfg)
	return s, nil
}

// A Post is a work request to post: a WRITE with Msg as immediate data, or without.
type Post struct {
	ID       uint64 // of the completion, for HandleCompletion
	Signaled bool
	Msg      Message // OpWrite: none
	Off, Len int     // the program's data, at Off if InRing
	InRing   bool    // it is in the send ring, which wraps; otherwise in the program's memory
	Inline   [IOMapSize]byte
	NInline  int // bytes of Inline that are written instead
	Remote   Region
}

// HandleMessage handles a message that has arrived. wrote says that the peer has written data with it, or may
// have. table is the table that the peer writes to. Messages without meaning to this side are ignored, as
// librdmacm does.
func (s *Stream) HandleMessage(m Message, wrote bool, table []byte) error {
	switch m.Op() {
	case OpData:
		return s.recv.data(int(m.Data()))
	case OpIOMap:
		return s.recv.message() // it uses a credit like data, and carries none
	case OpSGL:
		s.send.limit = uint16(m.Data()) - s.send.spare
		if wrote {
			s.send.announced = min(s.send.announced+1, SGLSize)
		}
		s.send.takeTargets(table)
	case OpControl:
		switch Control(m.Data()) {
		case Disconnect:
			s.ctrl.peer = disconnected
		case Shutdown:
			s.ctrl.peer = max(s.ctrl.peer, shut)
		}
	}
	return nil
}

// closeState is how far a direction is closed.
type closeState uint8

const (
	open closeState = iota
	shut
	disconnected
)

// ctrlState is the state of messages that need no credit.
type ctrlState struct {
	inFlight int
	peer     closeState
	want     closeState // the state that the program requested
	sent     closeState // the state that was announced to the peer
}

// Shutdown announces that nothing more is sent, Disconnect that nothing is received either.
func (s *Stream) Shutdown()   { s.ctrl.want = max(s.ctrl.want, shut) }
func (s *Stream) Disconnect() { s.ctrl.want = disconnected }

// ShutDown reports whether either was called.
func (s *Stream) ShutDown() bool { return s.ctrl.want != open }

// ShutdownSent reports whether the peer knows, or has disconnected and need not.
func (s *Stream) ShutdownSent() bool { return s.ctrl.sent == s.ctrl.want || s.PeerGone() }

// EOF reports whether nothing more will arrive.
func (s *Stream) EOF() bool { return s.ctrl.peer >= shut }

// PeerGone reports whether the peer has disconnected: later messages do not arrive.
func (s *Stream) PeerGone() bool { return s.ctrl.peer == disconnected }

// Flushed reports whether everything, including Shutdown and Disconnect, was sent and has arrived.
func (s *Stream) Flushed() bool {
	return s.ctrl.sent == s.ctrl.want && s.send.posted == s.send.completed
}

// NextControl puts the next message that needs no credit into p: credits and receive buffers for
// the peer, and finally that nothing more is sent.
func (s *Stream) NextControl(p *Post) bool {
	if s.ctrl.inFlight == CtrlSize || s.ctrl.sent == disconnected || s.ctrl.peer == disconnected {
		return false
	}
	*p = Post{Signaled: true}
	switch {
	case s.ctrl.want != disconnected && s.recv.due():
		p.Msg = NewMessage(OpSGL, uint32(s.recv.grant()))
		if sge, ok := s.recv.nextBuffer(&s.cfg); ok {
			sge.Put(p.Inline[:], s.remote.order)
			p.NInline = SGESize
			p.Remote = Region{s.remote.sgl.Addr + uint64(s.remote.slot)*SGESize, s.remote.sgl.Key}
			s.remote.slot = (s.remote.slot + 1) % s.remote.slots
		}
	case s.ctrl.sent != s.ctrl.want:
		c := Shutdown
		if s.ctrl.want == disconnected {
			c = Disconnect
		}
		s.ctrl.sent = s.ctrl.want
		p.Msg = NewMessage(OpControl, uint32(c))
	default:
		return false
	}
	s.ctrl.inFlight++
	s.send.track(p, wrControl, 0)
	return true
}

// Probe puts an empty WRITE into p, which the peer's device acknowledges and its program does not
// see. It returns false if there is no need, because something is in flight whose completion will
// tell as much, or if either side has disconnected.
func (s *Stream) Probe(p *Post) bool {
	w := &s.send
	if w.signaled > w.completed || s.ctrl.want == disconnected || s.ctrl.peer == disconnected {
		return false
	}
	*p = Post{Signaled: true, Msg: NewMessage(OpWrite, 0)}
	s.ctrl.inFlight++
	w.track(p, wrControl, 0)
	return true
}

// HandleCompletion handles the completion of the Post with the id, which implies the completions of earlier ones.
func (s *Stream) HandleCompletion(id uint64) {
	for s.send.completed < id {
		if s.send.complete() == wrControl {
			s.ctrl.inFlight--
		}
	}
}
