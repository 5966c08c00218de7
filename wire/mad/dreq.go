// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Bytes of private data.
const (
	DREQPrivateLen = 220
	DREPPrivateLen = 224
)

// DREQ requests to end a connection (section 12.6.10).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                    Local communication ID                     |
//	+---------------------------------------------------------------+
//	|                    Remote communication ID                    |
//	+-----------------------------------------------+---------------+
//	|                  Remote QPN                   |    Resv11     |
//	+-----------------------------------------------+---------------+
//	|                   Private data (220 bytes)                    |
//	+---------------------------------------------------------------+
type DREQ struct {
	LocalCommID  CommID
	RemoteCommID CommID
	RemoteQPN    ib.QPN // the receiver's
	Resv11       uint8
	Private      [DREQPrivateLen]byte
}

// Decode reads the message in b. It returns false if b is shorter than DataLen.
func (m *DREQ) Decode(b []byte) bool {
	if len(b) < DataLen {
		return false
	}
	m.LocalCommID = CommID(binary.BigEndian.Uint32(b))
	m.RemoteCommID = CommID(binary.BigEndian.Uint32(b[4:]))
	w := binary.BigEndian.Uint32(b[8:])
	m.RemoteQPN, m.Resv11 = ib.QPN(w>>8), uint8(w)
	m.Private = [DREQPrivateLen]byte(b[12:])
	return true
}

// Append appends the message to b.
func (m *DREQ) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(m.LocalCommID))
	b = binary.BigEndian.AppendUint32(b, uint32(m.RemoteCommID))
	b = binary.BigEndian.AppendUint32(b, uint32(m.RemoteQPN)<<8|uint32(m.Resv11))
	return append(b, m.Private[:]...)
}

// DREP answers a DREQ (section 12.6.11).
//
//	+---------------------------------------------------------------+
//	|                    Local communication ID                     |
//	+---------------------------------------------------------------+
//	|                    Remote communication ID                    |
//	+---------------------------------------------------------------+
//	|                   Private data (224 bytes)                    |
//	+---------------------------------------------------------------+
type DREP struct {
	LocalCommID  CommID
	RemoteCommID CommID
	Private      [DREPPrivateLen]byte
}

// Decode reads the message in b. It returns false if b is shorter than DataLen.
func (m *DREP) Decode(b []byte) bool {
	if len(b) < DataLen {
		return false
	}
	m.LocalCommID = CommID(binary.BigEndian.Uint32(b))
	m.RemoteCommID = CommID(binary.BigEndian.Uint32(b[4:]))
	m.Private = [DREPPrivateLen]byte(b[8:])
	return true
}

// Append appends the message to b.
func (m *DREP) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(m.LocalCommID))
	b = binary.BigEndian.AppendUint32(b, uint32(m.RemoteCommID))
	return append(b, m.Private[:]...)
}
