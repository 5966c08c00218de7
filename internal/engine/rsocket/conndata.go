// SPDX-License-Identifier: Apache-2.0

package rsocket

import "encoding/binary"

// Sizes on the wire, in bytes.
const (
	ConnDataSize = 40
	SGESize      = 16
	IOMapSize    = 24
)

// Version is the only version of the stream protocol.
const Version = 1

// Flags of ConnData.
const (
	FlagBigEndian = 1 << 0 // the sender reads its tables as big endian
	FlagIOMap     = 1 << 1 // IOMapEntries and the table behind the target list are valid
)

// SGE names memory that the peer writes to.
type SGE struct {
	Addr   uint64
	Key    uint32
	Length uint32 // bytes
}

// Put writes the entry to the first SGESize bytes of b.
func (s SGE) Put(b []byte, order binary.ByteOrder) {
	order.PutUint64(b, s.Addr)
	order.PutUint32(b[8:], s.Key)
	order.PutUint32(b[12:], s.Length)
}

// Get reads what Put wrote.
func (s *SGE) Get(b []byte, order binary.ByteOrder) {
	s.Addr, s.Key, s.Length = order.Uint64(b), order.Uint32(b[8:]), order.Uint32(b[12:])
}

// ConnData is the private data of the REQ and the REP (struct rs_conn_data), big endian:
//
//	 0        1        2        3
//	+--------+--------+--------+--------+
//	| version| flags  |     credits     |
//	+--------+--------+--------+--------+
//	|        reserved          | iomaps |
//	+--------+--------+--------+--------+
//	| target list: address 8, key 4,    |
//	|              number of entries 4  |
//	+--------+--------+--------+--------+
//	| first receive buffer: address 8,  |
//	|            key 4, bytes 4         |
//	+--------+--------+--------+--------+
type ConnData struct {
	Version uint8
	Flags   uint8
	Credits uint16 // initial credits: data messages that may be sent
	IOMaps  uint8  // entries of the table of mapped buffers, see [ScaleIOMaps]
	Target  SGE    // Length counts entries of SGESize bytes
	Data    SGE
}

// Append appends the encoding to b.
func (c ConnData) Append(b []byte) []byte {
	var w [ConnDataSize]byte
	w[0], w[1] = c.Version, c.Flags
	binary.BigEndian.PutUint16(w[2:], c.Credits)
	w[7] = c.IOMaps
	c.Target.Put(w[8:], binary.BigEndian)
	c.Data.Put(w[24:], binary.BigEndian)
	return append(b, w[:]...)
}

// Decode reads the encoding and ignores bytes behind it, such as padding. It returns false if b is
// too short.
func (c *ConnData) Decode(b []byte) bool {
	if len(b) < ConnDataSize {
		return false
	}
	*c = ConnData{Version: b[0], Flags: b[1], Credits: binary.BigEndian.Uint16(b[2:]), IOMaps: b[7]}
	c.Target.Get(b[8:], binary.BigEndian)
	c.Data.Get(b[24:], binary.BigEndian)
	return true
}

// order returns the byte order in which the sender of c reads its tables.
func (c *ConnData) order() binary.ByteOrder {
	if c.Flags&FlagBigEndian != 0 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// ScaleIOMaps encodes a number of table entries in 8 bits: up to 128 unchanged, above that in units
// of 256 with the top bit set.
func ScaleIOMaps(n int) uint8 {
	if n <= 1<<7 {
		return uint8(n)
	}
	return uint8(1<<7 | min(n>>8, 1<<7-1))
}

// UnscaleIOMaps returns the number of entries that v encodes.
func UnscaleIOMaps(v uint8) int {
	if v <= 1<<7 {
		return int(v)
	}
	return int(v&^(1<<7)) << 8
}

// IOMap is an entry of the table of mapped buffers: the location in the peer's memory of a range of
// its offset space (struct rs_iomap).
type IOMap struct {
	Offset uint64
	SGE
}

// Put writes the entry to the first IOMapSize bytes of b.
func (m IOMap) Put(b []byte, order binary.ByteOrder) {
	order.PutUint64(b, m.Offset)
	m.SGE.Put(b[8:], order)
}

// Get reads what Put wrote.
func (m *IOMap) Get(b []byte, order binary.ByteOrder) {
	m.Offset = order.Uint64(b)
	m.SGE.Get(b[8:], order)
}
