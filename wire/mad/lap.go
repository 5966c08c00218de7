// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Bytes of private data, and of additional information.
const (
	LAPPrivateLen = 168
	APRPrivateLen = 148
	APRInfoLen    = 72
)

// LAP requests to load an alternate path into an established connection (section 12.8.1).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                    Local communication ID                     |
//	+---------------------------------------------------------------+
//	|                    Remote communication ID                    |
//	+---------------------------------------------------------------+
//	|                            Resv8                              |
//	+-----------------------------------------------+---------+-----+
//	|                  Remote QPN                   |RemoteTmo| Resv|
//	+-----------------------------------------------+---------+-----+
//	|                            Resv16                             |
//	+-------------------------------+-------------------------------+
//	|         Local port LID        |        Remote port LID        |
//	+-------------------------------+-------------------------------+
//	|                  Local port GID (16 bytes)                    |
//	+---------------------------------------------------------------+
//	|                  Remote port GID (16 bytes)                   |
//	+---------------------------------------+-------+---------------+
//	|              Flow label               | Resv58| Traffic class |
//	+---------------+---+-----------+-------+-+-----+---------+-----+
//	|   Hop limit   |R61|Packet rate|  SL   |L|Rsv62|AckTmout |Rsv63|
//	+---------------+---+-----------+-------+-+-----+---------+-----+
//	|                   Private data (168 bytes)                    |
//	+---------------------------------------------------------------+
type LAP struct {
	LocalCommID   CommID
	RemoteCommID  CommID
	Resv8         uint32
	RemoteQPN     ib.QPN // the receiver's
	RemoteTimeout Timeout
	Resv15        uint8 // 3 bits
	Resv16        uint32
	LocalLID      uint16
	RemoteLID     uint16
	LocalGID      ib.GID
	RemoteGID     ib.GID
	FlowLabel     uint32 // 20 bits
	Resv58        uint8  // 4 bits
	TrafficClass  uint8
	HopLimit      uint8
	Resv61        uint8 // 2 bits
	PacketRate    uint8 // 6 bits
	SL            uint8 // 4 bits
	SubnetLocal   bool
	Resv62        uint8 // 3 bits
	AckTimeout    Timeout
	Resv63        uint8 // 3 bits
	Private       [LAPPrivateLen]byte
}

// Decode reads the message in b. It returns false if b is shorter than DataLen.
func (m *LAP) Decode(b []byte) bool {
	if len(b) < DataLen {
		return false
	}
	be := binary.BigEndian
	m.LocalCommID = CommID(be.Uint32(b))
	m.RemoteCommID = CommID(be.Uint32(b[4:]))
	m.Resv8 = be.Uint32(b[8:])
	w := be.Uint32(b[12:])
	m.RemoteQPN, m.RemoteTimeout, m.Resv15 = ib.QPN(w>>8), Timeout(w>>3&31), uint8(w&7)
	m.Resv16 = be.Uint32(b[16:])
	m.LocalLID = be.Uint16(b[20:])
	m.RemoteLID = be.Uint16(b[22:])
	m.LocalGID = ib.GID(b[24:])
	m.RemoteGID = ib.GID(b[40:])
	w = be.Uint32(b[56:])
	m.FlowLabel, m.Resv58, m.TrafficClass = w>>12, uint8(w>>8&15), uint8(w)
	m.HopLimit = b[60]
	m.Resv61, m.PacketRate = b[61]>>6, b[61]&0x3f
	m.SL, m.SubnetLocal, m.Resv62 = b[62]>>4, b[62]&8 != 0, b[62]&7
	m.AckTimeout, m.Resv63 = Timeout(b[63]>>3), b[63]&7
	m.Private = [LAPPrivateLen]byte(b[64:])
	return true
}

// Append appends the message to b.
func (m *LAP) Append(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint32(b, uint32(m.LocalCommID))
	b = be.AppendUint32(b, uint32(m.RemoteCommID))
	b = be.AppendUint32(b, m.Resv8)
	b = be.AppendUint32(b, uint32(m.RemoteQPN)<<8|uint32(m.RemoteTimeout&31)<<3|uint32(m.Resv15&7))
	b = be.AppendUint32(b, m.Resv16)
	b = be.AppendUint16(b, m.LocalLID)
	b = be.AppendUint16(b, m.RemoteLID)
	b = append(b, m.LocalGID[:]...)
	b = append(b, m.RemoteGID[:]...)
	b = be.AppendUint32(b, m.FlowLabel<<12|uint32(m.Resv58&15)<<8|uint32(m.TrafficClass))
	b = append(b, m.HopLimit, m.Resv61<<6|m.PacketRate&0x3f,
		m.SL<<4|bit(m.SubnetLocal, 3)|m.Resv62&7, byte(m.AckTimeout)<<3|m.Resv63&7)
	return append(b, m.Private[:]...)
}

// APStatus is the outcome of a LAP (section 12.8.2.1).
type APStatus uint8

// The statuses that a manager without alternate paths returns.
const (
	APInvalidCommID APStatus = 1
	APNotSupported  APStatus = 2
)

// APR answers a LAP (section 12.8.2).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                    Local communication ID                     |
//	+---------------------------------------------------------------+
//	|                    Remote communication ID                    |
//	+---------------+---------------+-------------------------------+
//	|  Info length  |   AP status   |            Resv10             |
//	+---------------+---------------+-------------------------------+
//	|              Additional information (72 bytes)                |
//	+---------------------------------------------------------------+
//	|                   Private data (148 bytes)                    |
//	+---------------------------------------------------------------+
type APR struct {
	LocalCommID  CommID
	RemoteCommID CommID
	InfoLen      uint8 // bytes of Info that are valid
	Status       APStatus
	Resv10       uint16
	Info         [APRInfoLen]byte
	Private      [APRPrivateLen]byte
}

// Decode reads the message in b. It returns false if b is shorter than DataLen.
func (m *APR) Decode(b []byte) bool {
	if len(b) < DataLen {
		return false
	}
	m.LocalCommID = CommID(binary.BigEndian.Uint32(b))
	m.RemoteCommID = CommID(binary.BigEndian.Uint32(b[4:]))
	m.InfoLen, m.Status = b[8], APStatus(b[9])
	m.Resv10 = binary.BigEndian.Uint16(b[10:])
	m.Info = [APRInfoLen]byte(b[12:])
	m.Private = [APRPrivateLen]byte(b[84:])
	return true
}

// Append appends the message to b.
func (m *APR) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(m.LocalCommID))
	b = binary.BigEndian.AppendUint32(b, uint32(m.RemoteCommID))
	b = append(b, m.InfoLen, byte(m.Status))
	b = binary.BigEndian.AppendUint16(b, m.Resv10)
	b = append(b, m.Info[:]...)
	return append(b, m.Private[:]...)
}
