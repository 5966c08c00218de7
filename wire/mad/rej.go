// SPDX-License-Identifier: Apache-2.0

package mad

import "encoding/binary"

// Bytes of private data, and of additional reject information.
const (
	MRAPrivateLen = 222
	REJPrivateLen = 148
	ARILen        = 72
)

// MRA asks for more time: the answer to a message will take longer (section 12.6.6).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                    Local communication ID                     |
//	+---------------------------------------------------------------+
//	|                    Remote communication ID                    |
//	+---+-----------+---------+-----+-------------------------------+
//	|Msg|   Resv8   | Timeout |Resv9|   Private data (222 bytes)    |
//	+---+-----------+---------+-----+-------------------------------+
type MRA struct {
	LocalCommID    CommID
	RemoteCommID   CommID
	Message        Message // the message that this acknowledges
	Resv8          uint8   // 6 bits
	ServiceTimeout Timeout // the answer will come within this time
	Resv9          uint8   // 3 bits
	Private        [MRAPrivateLen]byte
}

// Decode reads the message in b. It returns false if b is shorter than DataLen.
func (m *MRA) Decode(b []byte) bool {
	if len(b) < DataLen {
		return false
	}
	m.LocalCommID = CommID(binary.BigEndian.Uint32(b))
	m.RemoteCommID = CommID(binary.BigEndian.Uint32(b[4:]))
	m.Message, m.Resv8 = Message(b[8]>>6), b[8]&0x3f
	m.ServiceTimeout, m.Resv9 = Timeout(b[9]>>3), b[9]&7
	m.Private = [MRAPrivateLen]byte(b[10:])
	return true
}

// Append appends the message to b.
func (m *MRA) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(m.LocalCommID))
	b = binary.BigEndian.AppendUint32(b, uint32(m.RemoteCommID))
	b = append(b, byte(m.Message)<<6|m.Resv8&0x3f, byte(m.ServiceTimeout)<<3|m.Resv9&7)
	return append(b, m.Private[:]...)
}

// REJ rejects a request or a reply, or ends an unknown connection (section 12.6.7).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                    Local communication ID                     |
//	+---------------------------------------------------------------+
//	|                    Remote communication ID                    |
//	+---+-----------+-------------+-+-------------------------------+
//	|Msg|   Resv8   |  ARI length |R|            Reason             |
//	+---+-----------+-------------+-+-------------------------------+
//	|        Additional reject information (ARI, 72 bytes)          |
//	+---------------------------------------------------------------+
//	|                   Private data (148 bytes)                    |
//	+---------------------------------------------------------------+
type REJ struct {
	LocalCommID  CommID // 0 if the sender has none
	RemoteCommID CommID
	Message      Message // the message that this rejects
	Resv8        uint8   // 6 bits
	ARILen       uint8   // 7 bits: valid bytes of ARI; more than 72 only in malformed messages
	Resv9        uint8   // 1 bit
	Reason       Reason
	ARI          [ARILen]byte
	Private      [REJPrivateLen]byte
}

// Decode reads the message in b. It returns false if b is shorter than DataLen.
func (m *REJ) Decode(b []byte) bool {
	if len(b) < DataLen {
		return false
	}
	m.LocalCommID = CommID(binary.BigEndian.Uint32(b))
	m.RemoteCommID = CommID(binary.BigEndian.Uint32(b[4:]))
	m.Message, m.Resv8 = Message(b[8]>>6), b[8]&0x3f
	m.ARILen, m.Resv9 = b[9]>>1, b[9]&1
	m.Reason = Reason(binary.BigEndian.Uint16(b[10:]))
	m.ARI = [ARILen]byte(b[12:])
	m.Private = [REJPrivateLen]byte(b[84:])
	return true
}

// Append appends the message to b.
func (m *REJ) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(m.LocalCommID))
	b = binary.BigEndian.AppendUint32(b, uint32(m.RemoteCommID))
	b = append(b, byte(m.Message)<<6|m.Resv8&0x3f, m.ARILen<<1|m.Resv9&1)
	b = binary.BigEndian.AppendUint16(b, uint16(m.Reason))
	b = append(b, m.ARI[:]...)
	return append(b, m.Private[:]...)
}
