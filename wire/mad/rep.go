// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Bytes of private data.
const (
	REPPrivateLen = 196
	RTUPrivateLen = 224
)

// REP accepts a request (section 12.6.8).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                    Local communication ID                     |
//	+---------------------------------------------------------------+
//	|                    Remote communication ID                    |
//	+---------------------------------------------------------------+
//	|                         Local Q_Key                           |
//	+-----------------------------------------------+---------------+
//	|                   Local QPN                   |    Resv15     |
//	+-----------------------------------------------+---------------+
//	|                Local EE context               |    Resv19     |
//	+-----------------------------------------------+---------------+
//	|                  Starting PSN                 |    Resv23     |
//	+---------------+---------------+---------+---+-+-----+-+-------+
//	| Resp. resourc.| Initiat. depth|Ack delay|FA |F| RNR |S| Resv27|
//	+---------------+---------------+---------+---+-+-----+-+-------+
//	|                    Local CA GUID (8 bytes)                    |
//	+---------------------------------------------------------------+
//	|                   Private data (196 bytes)                    |
//	+---------------------------------------------------------------+
type REP struct {
	LocalCommID        CommID
	RemoteCommID       CommID
	LocalQKey          ib.QKey // RD only
	LocalQPN           ib.QPN  // 0 with XRC
	Resv15             uint8
	LocalEECN          uint32 // 24 bits: RD; the target's QPN if the REQ was one of XRC (annex A14)
	Resv19             uint8
	StartingPSN        ib.PSN // the first PSN that the message's receiver sends
	Resv23             uint8
	ResponderResources uint8   // READs and atomics that the sender answers at once
	InitiatorDepth     uint8   // READs and atomics that the sender wants in flight
	AckDelay           Timeout // target ACK delay: how long the sender's adapter may take to acknowledge
	Failover           uint8   // 2 bits: 0: the alternate path was accepted, 1: not supported, 2: rejected
	FlowControl        bool    // the sender's QP gives end-to-end credits
	RNRRetryCount      uint8   // 3 bits: of the receiver's QP; 7: unlimited
	SRQ                bool    // the sender's QP has a shared receive queue
	Resv27             uint8   // 4 bits
	LocalCAGUID        uint64
	Private            [REPPrivateLen]byte
}

// Decode reads the message in b. It returns false if b is shorter than DataLen.
func (m *REP) Decode(b []byte) bool {
	if len(b) < DataLen {
		return false
	}
	be := binary.BigEndian
	m.LocalCommID = CommID(be.Uint32(b))
	m.RemoteCommID = CommID(be.Uint32(b[4:]))
	m.LocalQKey = ib.QKey(be.Uint32(b[8:]))
	w := be.Uint32(b[12:])
	m.LocalQPN, m.Resv15 = ib.QPN(w>>8), uint8(w)
	w = be.Uint32(b[16:])
	m.LocalEECN, m.Resv19 = w>>8, uint8(w)
	w = be.Uint32(b[20:])
	m.StartingPSN, m.Resv23 = ib.PSN(w>>8), uint8(w)
	m.ResponderResources = b[24]
	m.InitiatorDepth = b[25]
	m.AckDelay, m.Failover, m.FlowControl = Timeout(b[26]>>3), b[26]>>1&3, b[26]&1 != 0
	m.RNRRetryCount, m.SRQ, m.Resv27 = b[27]>>5, b[27]&16 != 0, b[27]&15
	m.LocalCAGUID = be.Uint64(b[28:])
	m.Private = [REPPrivateLen]byte(b[36:])
	return true
}

// Append appends the message to b.
func (m *REP) Append(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint32(b, uint32(m.LocalCommID))
	b = be.AppendUint32(b, uint32(m.RemoteCommID))
	b = be.AppendUint32(b, uint32(m.LocalQKey))
	b = be.AppendUint32(b, uint32(m.LocalQPN)<<8|uint32(m.Resv15))
	b = be.AppendUint32(b, m.LocalEECN<<8|uint32(m.Resv19))
	b = be.AppendUint32(b, uint32(m.StartingPSN)<<8|uint32(m.Resv23))
	b = append(b, m.ResponderResources, m.InitiatorDepth,
		byte(m.AckDelay)<<3|m.Failover&3<<1|bit(m.FlowControl, 0),
		m.RNRRetryCount<<5|bit(m.SRQ, 4)|m.Resv27&15)
	b = be.AppendUint64(b, m.LocalCAGUID)
	return append(b, m.Private[:]...)
}

// RTU completes the set-up of a connection (section 12.6.9).
//
//	+---------------------------------------------------------------+
//	|                    Local communication ID                     |
//	+---------------------------------------------------------------+
//	|                    Remote communication ID                    |
//	+---------------------------------------------------------------+
//	|                   Private data (224 bytes)                    |
//	+---------------------------------------------------------------+
type RTU struct {
	LocalCommID  CommID
	RemoteCommID CommID
	Private      [RTUPrivateLen]byte
}

// Decode reads the message in b. It returns false if b is shorter than DataLen.
func (m *RTU) Decode(b []byte) bool {
	if len(b) < DataLen {
		return false
	}
	m.LocalCommID = CommID(binary.BigEndian.Uint32(b))
	m.RemoteCommID = CommID(binary.BigEndian.Uint32(b[4:]))
	m.Private = [RTUPrivateLen]byte(b[8:])
	return true
}

// Append appends the message to b.
func (m *RTU) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(m.LocalCommID))
	b = binary.BigEndian.AppendUint32(b, uint32(m.RemoteCommID))
	return append(b, m.Private[:]...)
}
