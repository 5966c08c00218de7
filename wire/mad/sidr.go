// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Bytes of private data, and of additional information.
const (
	SIDRREQPrivateLen = 216
	SIDRREPPrivateLen = 136
	SIDRInfoLen       = 72
)

// SIDRREQ requests the queue pair that serves a service ID (section 12.11.1).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                          Request ID                           |
//	+-------------------------------+-------------------------------+
//	|             P_Key             |             Resv6             |
//	+-------------------------------+-------------------------------+
//	|                     Service ID (8 bytes)                      |
//	+---------------------------------------------------------------+
//	|                   Private data (216 bytes)                    |
//	+---------------------------------------------------------------+
type SIDRREQ struct {
	RequestID CommID
	PKey      ib.PKey
	Resv6     uint16
	ServiceID ServiceID
	Private   [SIDRREQPrivateLen]byte
}

// Decode reads the message in b. It returns false if b is shorter than DataLen.
func (m *SIDRREQ) Decode(b []byte) bool {
	if len(b) < DataLen {
		return false
	}
	m.RequestID = CommID(binary.BigEndian.Uint32(b))
	m.PKey = ib.PKey(binary.BigEndian.Uint16(b[4:]))
	m.Resv6 = binary.BigEndian.Uint16(b[6:])
	m.ServiceID = ServiceID(binary.BigEndian.Uint64(b[8:]))
	m.Private = [SIDRREQPrivateLen]byte(b[16:])
	return true
}

// Append appends the message to b.
func (m *SIDRREQ) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(m.RequestID))
	b = binary.BigEndian.AppendUint16(b, uint16(m.PKey))
	b = binary.BigEndian.AppendUint16(b, m.Resv6)
	b = binary.BigEndian.AppendUint64(b, uint64(m.ServiceID))
	return append(b, m.Private[:]...)
}

// SIDRREP answers a SIDRREQ (section 12.11.2).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                          Request ID                           |
//	+---------------+---------------+-------------------------------+
//	|    Status     |  Info length  |             Resv6             |
//	+---------------+---------------+---------------+---------------+
//	|                      QPN                      |    Resv11     |
//	+-----------------------------------------------+---------------+
//	|                     Service ID (8 bytes)                      |
//	+---------------------------------------------------------------+
//	|                            Q_Key                              |
//	+---------------------------------------------------------------+
//	|              Additional information (72 bytes)                |
//	+---------------------------------------------------------------+
//	|                   Private data (136 bytes)                    |
//	+---------------------------------------------------------------+
type SIDRREP struct {
	RequestID CommID
	Status    SIDRStatus
	InfoLen   uint8 // bytes of Info that are valid
	Resv6     uint16
	QPN       ib.QPN
	Resv11    uint8
	ServiceID ServiceID
	QKey      ib.QKey
	Info      [SIDRInfoLen]byte
	Private   [SIDRREPPrivateLen]byte
}

// Decode reads the message in b. It returns false if b is shorter than DataLen.
func (m *SIDRREP) Decode(b []byte) bool {
	if len(b) < DataLen {
		return false
	}
	m.RequestID = CommID(binary.BigEndian.Uint32(b))
	m.Status = SIDRStatus(b[4])
	m.InfoLen = b[5]
	m.Resv6 = binary.BigEndian.Uint16(b[6:])
	w := binary.BigEndian.Uint32(b[8:])
	m.QPN, m.Resv11 = ib.QPN(w>>8), uint8(w)
	m.ServiceID = ServiceID(binary.BigEndian.Uint64(b[12:]))
	m.QKey = ib.QKey(binary.BigEndian.Uint32(b[20:]))
	m.Info = [SIDRInfoLen]byte(b[24:])
	m.Private = [SIDRREPPrivateLen]byte(b[96:])
	return true
}

// Append appends the message to b.
func (m *SIDRREP) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(m.RequestID))
	b = append(b, byte(m.Status), m.InfoLen)
	b = binary.BigEndian.AppendUint16(b, m.Resv6)
	b = binary.BigEndian.AppendUint32(b, uint32(m.QPN)<<8|uint32(m.Resv11))
	b = binary.BigEndian.AppendUint64(b, uint64(m.ServiceID))
	b = binary.BigEndian.AppendUint32(b, uint32(m.QKey))
	b = append(b, m.Info[:]...)
	return append(b, m.Private[:]...)
}
