// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"strings"
)

// NQNs are at most 223 bytes, in fields of 256 (base 7.9).
const (
	MaxNQN       = 223
	nqnField     = 256
	DiscoveryNQN = "nqn.2014-08.org.nvmexpress.discovery"
)

// ConnectParams are the parameters in a Connect command (fabrics 3.3).
type ConnectParams struct {
	Format     uint16 // 0
	QID        uint16
	SQSize     uint16 // entries, less one
	Attributes uint8
	KATO       uint32 // keep-alive timeout in ms; 0: none
}

// ConnectNoFlowControl is the attribute by which a host asks for no submission queue flow control.
const ConnectNoFlowControl = 1 << 2

// SetConnect makes c a Connect command.
func (c *Command) SetConnect(p *ConnectParams) {
	c.Opcode, c.NSID = Fabrics, uint32(Connect)
	c.CDW10 = uint32(p.QID)<<16 | uint32(p.Format)
	c.CDW11 = uint32(p.Attributes)<<16 | uint32(p.SQSize)
	c.CDW12 = p.KATO
}

// Connect returns the parameters of a Connect command.
func (c *Command) Connect() ConnectParams {
	return ConnectParams{uint16(c.CDW10), uint16(c.CDW10 >> 16), uint16(c.CDW11), uint8(c.CDW11 >> 16), c.CDW12}
}

// Bits of the result of a Connect, beside the controller's number (base 2.0, 6.3).
const (
	ConnectAuthenticate  = 1 << 17 // ATR: the host has to authenticate
	ConnectSecureChannel = 1 << 18 // ASCR: and then needs a secure channel
)

// authProtocol are the fields SECP, SPSP1 and SPSP0 of the commands that authenticate.
const authProtocol = 0xe9<<24 | 1<<16 | 1<<8

// SetAuth makes c an Authentication Send, or an Authentication Receive, of n bytes (base 2.0, 6.1 and 6.2).
func (c *Command) SetAuth(t FabricsType, n int) {
	c.Opcode, c.NSID = Fabrics, uint32(t)
	c.CDW10, c.CDW11 = authProtocol, uint32(n)
}

// Auth returns the length that SetAuth has set; false: the protocol is another.
func (c *Command) Auth() (n uint32, ok bool) { return c.CDW11, c.CDW10 == authProtocol }

// ConnectDataSize is the length of the data of a Connect command in bytes.
const ConnectDataSize = 1024

// DynamicController is the CNTLID by which a host asks for any controller.
const DynamicController = 0xffff

// Offsets of fields, which a response to an invalid Connect names.
const (
	ConnectOffsetQID     = 42
	ConnectOffsetSQSize  = 44
	ConnectOffsetHostID  = 0   // in the data
	ConnectOffsetCNTLID  = 16  // in the data
	ConnectOffsetSubNQN  = 256 // in the data
	ConnectOffsetHostNQN = 512 // in the data
)

// InvalidConnect is the result of a Connect with an invalid field, in the command or in its data.
func InvalidConnect(offset uint16, inData bool) uint64 {
	r := uint64(offset)
	if inData {
		r |= 1 << 16
	}
	return r
}

// ConnectData is the data of a Connect command (fabrics 3.3).
type ConnectData struct {
	HostID     [16]byte
	Controller uint16 // CNTLID
	SubNQN     string
	HostNQN    string
}

// Decode decodes the data; false: it has another length, or an NQN is none, which is empty then.
func (d *ConnectData) Decode(b []byte) bool {
	if len(b) != ConnectDataSize {
		return false
	}
	*d = ConnectData{HostID: [16]byte(b), Controller: le.Uint16(b[16:])}
	var sub, host bool
	d.SubNQN, sub = decodeNQN(b[256:512])
	d.HostNQN, host = decodeNQN(b[512:768])
	return sub && host
}

// Append appends the 1024 bytes.
func (d *ConnectData) Append(b []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, ConnectDataSize)...)
	to := b[at:]
	copy(to, d.HostID[:])
	le.PutUint16(to[16:], d.Controller)
	copy(to[256:256+MaxNQN], d.SubNQN)
	copy(to[512:512+MaxNQN], d.HostNQN)
	return b
}

// decodeNQN reads an NQN from its field, where it ends with a zero byte.
func decodeNQN(b []byte) (string, bool) {
	n := bytes.IndexByte(b, 0)
	if n < 1 || n > MaxNQN {
		return "", false
	}
	return string(b[:n]), true
}

// Property is the offset of a controller's property (fabrics 3.5).
type Property uint32

// Properties.
const (
	PropertyCAP  Property = 0x00 // 8 bytes
	PropertyVS   Property = 0x08
	PropertyCC   Property = 0x14
	PropertyCSTS Property = 0x1c
)

// Bits of the properties (base 3.1).
const (
	CCEnable        = 1 << 0
	CCShutdownMask  = 3 << 14
	CSTSReady       = 1 << 0
	CSTSFatal       = 1 << 1
	CSTSShutdown    = 2 << 2 // complete
	CapContiguous   = 1 << 16
	CapNVM          = 1 << 37
	Version14       = 0x10400
	ccSQES          = 6 << 16
	ccCQES          = 4 << 20
	CCDefaultEnable = CCEnable | ccSQES | ccCQES
)

// SetProperty makes c a Property Get, or a Property Set to a value, of a property of 4 or 8 bytes.
func (c *Command) SetProperty(t FabricsType, p Property, size int, value uint64) {
	c.Opcode, c.NSID = Fabrics, uint32(t)
	c.CDW10 = 0
	if size == 8 {
		c.CDW10 = 1
	}
	c.CDW11, c.CDW12, c.CDW13 = uint32(p), uint32(value), uint32(value>>32)
}

// Property returns the property that SetProperty has set. The size is 0 if it is none that there is.
func (c *Command) Property() (p Property, size int, value uint64) {
	switch c.CDW10 & 7 {
	case 0:
		size = 4
	case 1:
		size = 8
	}
	return Property(c.CDW11), size, uint64(c.CDW13)<<32 | uint64(c.CDW12)
}

// putText fills a field of ASCII with text and spaces.
func putText(to []byte, s string) {
	for i := copy(to, s); i < len(to); i++ {
		to[i] = ' '
	}
}

// text reads a field of ASCII that spaces or zeros fill up.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return strings.TrimRight(s, " ")
}
