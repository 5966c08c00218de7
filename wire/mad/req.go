// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// REQPrivateLen is the length of a REQ's private data in bytes.
const REQPrivateLen = 92

// Path is a path of a REQ, as the sender sees it: local is the sender's side
// (sections 12.7.10 to 12.7.21).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|         Local port LID        |        Remote port LID        |
//	+-------------------------------+-------------------------------+
//	|                  Local port GID (16 bytes)                    |
//	+---------------------------------------------------------------+
//	|                  Remote port GID (16 bytes)                   |
//	+---------------------------------------+-----------+-----------+
//	|              Flow label               |   Resv    |Packet rate|
//	+---------------+---------------+-------+-+-----+---+-----+-----+
//	| Traffic class |   Hop limit   |  SL   |L|Resv3|AckTmout | Resv|
//	+---------------+---------------+-------+-+-----+---------+-----+
type Path struct {
	LocalLID     uint16
	RemoteLID    uint16
	LocalGID     ib.GID
	RemoteGID    ib.GID
	FlowLabel    uint32 // 20 bits
	Resv32       uint8  // 6 bits
	PacketRate   uint8  // 6 bits: code of the static rate, section 12.7.12
	TrafficClass uint8
	HopLimit     uint8
	SL           uint8 // 4 bits
	SubnetLocal  bool
	Resv38       uint8   // 3 bits
	AckTimeout   Timeout // local ACK timeout of the QP, section 12.7.34
	Resv39       uint8   // 3 bits
}

// pathLen is the length of a path in bytes.
const pathLen = 44

func (p *Path) decode(b []byte) {
	p.LocalLID = binary.BigEndian.Uint16(b)
	p.RemoteLID = binary.BigEndian.Uint16(b[2:])
	p.LocalGID = ib.GID(b[4:])
	p.RemoteGID = ib.GID(b[20:])
	w := binary.BigEndian.Uint32(b[36:])
	p.FlowLabel = w >> 12
	p.Resv32 = uint8(w>>6) & 0x3f
	p.PacketRate = uint8(w) & 0x3f
	p.TrafficClass = b[40]
	p.HopLimit = b[41]
	p.SL = b[42] >> 4
	p.SubnetLocal = b[42]&8 != 0
	p.Resv38 = b[42] & 7
	p.AckTimeout = Timeout(b[43] >> 3)
	p.Resv39 = b[43] & 7
}

func (p *Path) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, p.LocalLID)
	b = binary.BigEndian.AppendUint16(b, p.RemoteLID)
	b = append(b, p.LocalGID[:]...)
	b = append(b, p.RemoteGID[:]...)
	b = binary.BigEndian.AppendUint32(b, p.FlowLabel<<12|uint32(p.Resv32&0x3f)<<6|uint32(p.PacketRate&0x3f))
	return append(b, p.TrafficClass, p.HopLimit,
		p.SL<<4|bit(p.SubnetLocal, 3)|p.Resv38&7, byte(p.AckTimeout)<<3|p.Resv39&7)
}

func bit(set bool, n uint) byte {
	if set {
		return 1 << n
	}
	return 0
}

// REQ requests a connection (section 12.6.5).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                    Local communication ID                     |
//	+---------------------------------------------------------------+
//	|                            Resv4                              |
//	+---------------------------------------------------------------+
//	|                     Service ID (8 bytes)                      |
//	+---------------------------------------------------------------+
//	|                    Local CA GUID (8 bytes)                    |
//	+---------------------------------------------------------------+
//	|                            Resv24                             |
//	+---------------------------------------------------------------+
//	|                         Local Q_Key                           |
//	+-----------------------------------------------+---------------+
//	|                   Local QPN                   | Resp. resourc.|
//	+-----------------------------------------------+---------------+
//	|                   Local EECN                  | Initiat. depth|
//	+-----------------------------------------------+---------+---+-+
//	|                  Remote EECN                  |RemoteTmo|TST|F|
//	+-----------------------------------------------+---------+-+-+-+
//	|                  Starting PSN                 |LocalTmo |Retry|
//	+-------------------------------+-------+-+-----+-------+-+-----+
//	|             P_Key             |  MTU  |R| RNR |Retries|S| XTT |
//	+-------------------------------+-------+-+-----+-------+-+-----+
//	|                    Primary path (44 bytes)                    |
//	+---------------------------------------------------------------+
//	|                   Alternate path (44 bytes)                   |
//	+---------------------------------------------------------------+
//	|                    Private data (92 bytes)                    |
//	+---------------------------------------------------------------+
type REQ struct {
	LocalCommID        CommID
	Resv4              uint32
	ServiceID          ServiceID
	LocalCAGUID        uint64
	Resv24             uint32
	LocalQKey          ib.QKey // RD only
	LocalQPN           ib.QPN
	ResponderResources uint8   // READs and atomics that the sender answers at once
	LocalEECN          uint32  // 24 bits, RD only
	InitiatorDepth     uint8   // READs and atomics that the sender wants in flight
	RemoteEECN         uint32  // 24 bits, RD only
	RemoteTimeout      Timeout // remote CM response timeout: the receiver should answer within it
	Transport          Transport
	FlowControl        bool    // the sender's QP gives end-to-end credits
	StartingPSN        ib.PSN  // the first PSN that the message's receiver sends
	LocalTimeout       Timeout // local CM response timeout: the sender will answer within it
	RetryCount         uint8   // 3 bits: of the receiver's QP
	PKey               ib.PKey
	PathMTU            uint8 // 4 bits: 1 is 256 bytes, 5 is 4096
	RDCExists          bool
	RNRRetryCount      uint8 // 3 bits: of the receiver's QP; 7: unlimited
	MaxCMRetries       uint8 // 4 bits: how often either side retransmits a message
	SRQ                bool  // the sender's QP has a shared receive queue
	ExtendedTransport  uint8 // 3 bits, if Transport is TransportExtended
	Primary            Path
	Alternate          Path // all zeros: none
	Private            [REQPrivateLen]byte
}

// XRC reports whether the sender's queue pair is an XRC initiator, which needs a target (annex
// A14).
func (m *REQ) XRC() bool {
	return m.Transport == TransportExtended && m.ExtendedTransport == ExtendedXRC
}

// Decode reads the message in b. It returns false if b is shorter than DataLen.
func (m *REQ) Decode(b []byte) bool {
	if len(b) < DataLen {
		return false
	}
	be := binary.BigEndian
	m.LocalCommID = CommID(be.Uint32(b))
	m.Resv4 = be.Uint32(b[4:])
	m.ServiceID = ServiceID(be.Uint64(b[8:]))
	m.LocalCAGUID = be.Uint64(b[16:])
	m.Resv24 = be.Uint32(b[24:])
	m.LocalQKey = ib.QKey(be.Uint32(b[28:]))
	w := be.Uint32(b[32:])
	m.LocalQPN, m.ResponderResources = ib.QPN(w>>8), uint8(w)
	w = be.Uint32(b[36:])
	m.LocalEECN, m.InitiatorDepth = w>>8, uint8(w)
	w = be.Uint32(b[40:])
	m.RemoteEECN, m.RemoteTimeout, m.Transport, m.FlowControl = w>>8, Timeout(w>>3&31), Transport(w>>1&3), w&1 != 0
	w = be.Uint32(b[44:])
	m.StartingPSN, m.LocalTimeout, m.RetryCount = ib.PSN(w>>8), Timeout(w>>3&31), uint8(w&7)
	w = be.Uint32(b[48:])
	m.PKey = ib.PKey(w >> 16)
	m.PathMTU, m.RDCExists, m.RNRRetryCount = uint8(w>>12&15), w&(1<<11) != 0, uint8(w>>8&7)
	m.MaxCMRetries, m.SRQ, m.ExtendedTransport = uint8(w>>4&15), w&8 != 0, uint8(w&7)
	m.Primary.decode(b[52:])
	m.Alternate.decode(b[52+pathLen:])
	m.Private = [REQPrivateLen]byte(b[140:])
	return true
}

// Append appends the message to b.
func (m *REQ) Append(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint32(b, uint32(m.LocalCommID))
	b = be.AppendUint32(b, m.Resv4)
	b = be.AppendUint64(b, uint64(m.ServiceID))
	b = be.AppendUint64(b, m.LocalCAGUID)
	b = be.AppendUint32(b, m.Resv24)
	b = be.AppendUint32(b, uint32(m.LocalQKey))
	b = be.AppendUint32(b, uint32(m.LocalQPN)<<8|uint32(m.ResponderResources))
	b = be.AppendUint32(b, m.LocalEECN<<8|uint32(m.InitiatorDepth))
	b = be.AppendUint32(b, m.RemoteEECN<<8|uint32(m.RemoteTimeout&31)<<3|uint32(m.Transport&3)<<1|
		uint32(bit(m.FlowControl, 0)))
	b = be.AppendUint32(b, uint32(m.StartingPSN)<<8|uint32(m.LocalTimeout&31)<<3|uint32(m.RetryCount&7))
	b = be.AppendUint16(b, uint16(m.PKey))
	b = append(b, m.PathMTU<<4|bit(m.RDCExists, 3)|m.RNRRetryCount&7,
		m.MaxCMRetries<<4|bit(m.SRQ, 3)|m.ExtendedTransport&7)
	b = m.Primary.append(b)
	b = m.Alternate.append(b)
	return append(b, m.Private[:]...)
}
