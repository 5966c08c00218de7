// SPDX-License-Identifier: Apache-2.0

package rsocket

import "encoding/binary"

// PeerMaps returns how many buffers can be mapped for the peer: the size of its table.
func (s *Stream) PeerMaps() int { return s.remote.iomaps }

// SendIOMap puts the message into p that tells the peer of a mapped buffer, as entry index of its
// table. InlineRoom must allow a message.
func (s *Stream) SendIOMap(index int, m IOMap, p *Post) {
	*p = Post{Msg: NewMessage(OpIOMap, uint32(index)), NInline: IOMapSize,
		Remote: Region{s.remote.iomap.Addr + uint64(index)*IOMapSize, s.remote.iomap.Key}}
	m.Put(p.Inline[:], s.remote.order)
	s.send.seq++
	s.track(p, 0)
}

// FindIOMap returns the entry of our table in which the peer has mapped the offset.
func (s *Stream) FindIOMap(table []byte, offset uint64) (m IOMap, ok bool) {
	for b := table[SGLSize*SGESize:]; len(b) >= IOMapSize; b = b[IOMapSize:] {
		m.Get(b, binary.LittleEndian)
		if offset >= m.Offset && offset-m.Offset < uint64(m.Length) {
			return m, true
		}
	}
	return IOMap{}, false
}

// MappedRoom is Room for a WRITE to mapped memory, which needs no credit and is not limited by
// receive buffers.
func (s *Stream) MappedRoom() (off, n int) {
	w := &s.send
	if s.ctrl.want != open || s.ctrl.peer == disconnected || s.free() <= 0 {
		return 0, 0
	}
	return w.head, min(MaxTransfer, w.room())
}

// WriteMapped puts a WRITE of n bytes to the mapped offset into p. m is its entry, and MappedRoom
// must have allowed it. It goes through the ring, also if it is short.
func (s *Stream) WriteMapped(m IOMap, offset uint64, n int, p *Post) {
	*p = Post{Msg: NewMessage(OpWrite, uint32(n)), Off: s.send.head, Len: n, InRing: true,
		Remote: Region{m.Addr + offset - m.Offset, m.Key}}
	s.send.use(n)
	s.track(p, n)
}
