// SPDX-License-Identifier: Apache-2.0

package ib

import "math/bits"

// HeaderSet is the set of extended transport headers that follow the BTH. A
// packet carries them in the order of the constants.
type HeaderSet uint16

// The extended transport headers (section 9.3, annexes A14 and A19).
const (
	HasDETH HeaderSet = 1 << iota
	HasXRCETH
	HasFETH
	HasRETH
	HasAtomicETH
	HasAETH
	HasAtomicAck
	HasImm
	HasIETH
)

// headerLens holds the length of each header of a [HeaderSet], lowest bit first.
var headerLens = [...]int{DETHLen, XRCETHLen, FETHLen, RETHLen, AtomicETHLen, AETHLen, AtomicAckETHLen, ImmDtLen,
	IETHLen}

// Len returns the total length of the headers of s in bytes.
func (s HeaderSet) Len() int {
	n := 0
	for ; s != 0; s &= s - 1 {
		n += headerLens[bits.TrailingZeros16(uint16(s))]
	}
	return n
}

// Class is the kind of operation an opcode is part of.
type Class uint8

// The classes. ClassInvalid is that of reserved opcodes.
const (
	ClassInvalid Class = iota
	ClassSend
	ClassWrite
	ClassReadRequest
	ClassAtomic // compare and swap, fetch and add
	ClassFlush
	ClassAtomicWrite
	ClassReadResponse
	ClassAck // positive, and every NAK
	ClassAtomicAck
	ClassCNP
)

// Request reports whether packets of the class go from requester to responder.
func (c Class) Request() bool { return ClassSend <= c && c <= ClassAtomicWrite }

// Response reports whether packets of the class go from responder to requester.
func (c Class) Response() bool { return ClassReadResponse <= c && c <= ClassAtomicAck }

// MaxMTU is the largest path MTU, in bytes of payload.
const MaxMTU = 4096

// PayloadRule says how long the payload of an opcode must be, without its pad (chapter 9: LAST is
// never empty, because then it would not have been sent).
type PayloadRule uint8

// The payload rules.
const (
	PayloadNone PayloadRule = iota // none
	PayloadMTU                     // exactly one path MTU: FIRST and MIDDLE
	PayloadRest                    // 1 to one path MTU: LAST
	PayloadAny                     // 0 to one path MTU: ONLY
	Payload8                       // exactly 8 bytes: ATOMIC WRITE
	Payload16                      // exactly 16 bytes, reserved: CNP
)

// Fits reports whether a payload of n bytes obeys the rule on a path with the given MTU in bytes.
func (r PayloadRule) Fits(n, mtu int) bool {
	switch r {
	case PayloadMTU:
		return n == mtu
	case PayloadRest:
		return 0 < n && n <= mtu
	case PayloadAny:
		return n <= mtu
	case Payload8:
		return n == 8
	case Payload16:
		return n == 16
	}
	return n == 0
}

// fitsSome reports whether a payload of n bytes obeys the rule under any path MTU.
func (r PayloadRule) fitsSome(n int) bool {
	if r == PayloadMTU {
		return 256 <= n && n <= MaxMTU && n&(n-1) == 0
	}
	return r.Fits(n, MaxMTU)
}

// OpInfo is one row of the opcode table: everything that is fixed for an opcode.
type OpInfo struct {
	Name      string      // as in Wireshark
	Headers   HeaderSet   // extended headers after the BTH
	HeaderLen int         // bytes of the BTH and the extended headers
	Class     Class       // kind of operation
	Payload   PayloadRule // length of the payload
	First     bool        // opens a message; both First and Last: ONLY
	Last      bool        // ends a message
	Imm       bool        // carries immediate data
	Inv       bool        // carries an R_Key to invalidate
	Valid     bool        // false: the opcode is reserved or of reliable datagram
}

// position is the position of a packet in its message.
type position uint8

const (
	opMiddle position = 0
	opFirst  position = 1
	opLast   position = 2
	opOnly            = opFirst | opLast
)

func op(name string, h HeaderSet, c Class, pos position, r PayloadRule) OpInfo {
	return OpInfo{
		Name: name, Headers: h, HeaderLen: BTHLen + h.Len(), Class: c, Payload: r,
		First: pos&opFirst != 0, Last: pos&opLast != 0,
		Imm: h&HasImm != 0, Inv: h&HasIETH != 0, Valid: true,
	}
}

// opTable has one row for each opcode (section 9.2.1 table "OpCode field", 9.3 for the headers;
// annexes A14, A17, A19). Requests of XRC carry an XRCETH in every packet, responses do not.
var opTable = completeTable([256]OpInfo{
	RCSendFirst:          op("RC Send First", 0, ClassSend, opFirst, PayloadMTU),
	RCSendMiddle:         op("RC Send Middle", 0, ClassSend, opMiddle, PayloadMTU),
	RCSendLast:           op("RC Send Last", 0, ClassSend, opLast, PayloadRest),
	RCSendLastImm:        op("RC Send Last Immediate", HasImm, ClassSend, opLast, PayloadRest),
	RCSendOnly:           op("RC Send Only", 0, ClassSend, opOnly, PayloadAny),
	RCSendOnlyImm:        op("RC Send Only Immediate", HasImm, ClassSend, opOnly, PayloadAny),
	RCWriteFirst:         op("RC RDMA Write First", HasRETH, ClassWrite, opFirst, PayloadMTU),
	RCWriteMiddle:        op("RC RDMA Write Middle", 0, ClassWrite, opMiddle, PayloadMTU),
	RCWriteLast:          op("RC RDMA Write Last", 0, ClassWrite, opLast, PayloadRest),
	RCWriteLastImm:       op("RC RDMA Write Last Immediate", HasImm, ClassWrite, opLast, PayloadRest),
	RCWriteOnly:          op("RC RDMA Write Only", HasRETH, ClassWrite, opOnly, PayloadAny),
	RCWriteOnlyImm:       op("RC RDMA Write Only Immediate", HasRETH|HasImm, ClassWrite, opOnly, PayloadAny),
	RCReadRequest:        op("RC RDMA Read Request", HasRETH, ClassReadRequest, opOnly, PayloadNone),
	RCReadResponseFirst:  op("RC RDMA Read Response First", HasAETH, ClassReadResponse, opFirst, PayloadMTU),
	RCReadResponseMiddle: op("RC RDMA Read Response Middle", 0, ClassReadResponse, opMiddle, PayloadMTU),
	RCReadResponseLast:   op("RC RDMA Read Response Last", HasAETH, ClassReadResponse, opLast, PayloadRest),
	RCReadResponseOnly:   op("RC RDMA Read Response Only", HasAETH, ClassReadResponse, opOnly, PayloadAny),
	RCAck:                op("RC Acknowledge", HasAETH, ClassAck, opOnly, PayloadNone),
	RCAtomicAck:          op("RC Atomic Acknowledge", HasAETH|HasAtomicAck, ClassAtomicAck, opOnly, PayloadNone),
	RCCompareSwap:        op("RC Compare Swap", HasAtomicETH, ClassAtomic, opOnly, PayloadNone),
	RCFetchAdd:           op("RC Fetch Add", HasAtomicETH, ClassAtomic, opOnly, PayloadNone),
	RCSendLastInv:        op("RC Send Last Invalidate", HasIETH, ClassSend, opLast, PayloadRest),
	RCSendOnlyInv:        op("RC Send Only Invalidate", HasIETH, ClassSend, opOnly, PayloadAny),
	RCFlush:              op("RC Flush", HasFETH|HasRETH, ClassFlush, opOnly, PayloadNone),
	RCAtomicWrite:        op("RC Atomic Write", HasRETH, ClassAtomicWrite, opOnly, Payload8),

	UCSendFirst:    op("UC Send First", 0, ClassSend, opFirst, PayloadMTU),
	UCSendMiddle:   op("UC Send Middle", 0, ClassSend, opMiddle, PayloadMTU),
	UCSendLast:     op("UC Send Last", 0, ClassSend, opLast, PayloadRest),
	UCSendLastImm:  op("UC Send Last Immediate", HasImm, ClassSend, opLast, PayloadRest),
	UCSendOnly:     op("UC Send Only", 0, ClassSend, opOnly, PayloadAny),
	UCSendOnlyImm:  op("UC Send Only Immediate", HasImm, ClassSend, opOnly, PayloadAny),
	UCWriteFirst:   op("UC RDMA Write First", HasRETH, ClassWrite, opFirst, PayloadMTU),
	UCWriteMiddle:  op("UC RDMA Write Middle", 0, ClassWrite, opMiddle, PayloadMTU),
	UCWriteLast:    op("UC RDMA Write Last", 0, ClassWrite, opLast, PayloadRest),
	UCWriteLastImm: op("UC RDMA Write Last Immediate", HasImm, ClassWrite, opLast, PayloadRest),
	UCWriteOnly:    op("UC RDMA Write Only", HasRETH, ClassWrite, opOnly, PayloadAny),
	UCWriteOnlyImm: op("UC RDMA Write Only Immediate", HasRETH|HasImm, ClassWrite, opOnly, PayloadAny),

	UDSendOnly:    op("UD Send Only", HasDETH, ClassSend, opOnly, PayloadAny),
	UDSendOnlyImm: op("UD Send Only Immediate", HasDETH|HasImm, ClassSend, opOnly, PayloadAny),

	CNP: op("CNP", 0, ClassCNP, opOnly, Payload16),

	XRCSendFirst:    op("XRC Send First", HasXRCETH, ClassSend, opFirst, PayloadMTU),
	XRCSendMiddle:   op("XRC Send Middle", HasXRCETH, ClassSend, opMiddle, PayloadMTU),
	XRCSendLast:     op("XRC Send Last", HasXRCETH, ClassSend, opLast, PayloadRest),
	XRCSendLastImm:  op("XRC Send Last Immediate", HasXRCETH|HasImm, ClassSend, opLast, PayloadRest),
	XRCSendOnly:     op("XRC Send Only", HasXRCETH, ClassSend, opOnly, PayloadAny),
	XRCSendOnlyImm:  op("XRC Send Only Immediate", HasXRCETH|HasImm, ClassSend, opOnly, PayloadAny),
	XRCWriteFirst:   op("XRC RDMA Write First", HasXRCETH|HasRETH, ClassWrite, opFirst, PayloadMTU),
	XRCWriteMiddle:  op("XRC RDMA Write Middle", HasXRCETH, ClassWrite, opMiddle, PayloadMTU),
	XRCWriteLast:    op("XRC RDMA Write Last", HasXRCETH, ClassWrite, opLast, PayloadRest),
	XRCWriteLastImm: op("XRC RDMA Write Last Immediate", HasXRCETH|HasImm, ClassWrite, opLast, PayloadRest),
	XRCWriteOnly:    op("XRC RDMA Write Only", HasXRCETH|HasRETH, ClassWrite, opOnly, PayloadAny),
	XRCWriteOnlyImm: op("XRC RDMA Write Only Immediate", HasXRCETH|HasRETH|HasImm, ClassWrite, opOnly,
		PayloadAny),
	XRCReadRequest:        op("XRC RDMA Read Request", HasXRCETH|HasRETH, ClassReadRequest, opOnly, PayloadNone),
	XRCReadResponseFirst:  op("XRC RDMA Read Response First", HasAETH, ClassReadResponse, opFirst, PayloadMTU),
	XRCReadResponseMiddle: op("XRC RDMA Read Response Middle", 0, ClassReadResponse, opMiddle, PayloadMTU),
	XRCReadResponseLast:   op("XRC RDMA Read Response Last", HasAETH, ClassReadResponse, opLast, PayloadRest),
	XRCReadResponseOnly:   op("XRC RDMA Read Response Only", HasAETH, ClassReadResponse, opOnly, PayloadAny),
	XRCAck:                op("XRC Acknowledge", HasAETH, ClassAck, opOnly, PayloadNone),
	XRCAtomicAck:          op("XRC Atomic Acknowledge", HasAETH|HasAtomicAck, ClassAtomicAck, opOnly, PayloadNone),
	XRCCompareSwap:        op("XRC Compare Swap", HasXRCETH|HasAtomicETH, ClassAtomic, opOnly, PayloadNone),
	XRCFetchAdd:           op("XRC Fetch Add", HasXRCETH|HasAtomicETH, ClassAtomic, opOnly, PayloadNone),
	XRCSendLastInv:        op("XRC Send Last Invalidate", HasXRCETH|HasIETH, ClassSend, opLast, PayloadRest),
	XRCSendOnlyInv:        op("XRC Send Only Invalidate", HasXRCETH|HasIETH, ClassSend, opOnly, PayloadAny),
})

func completeTable(t [256]OpInfo) [256]OpInfo {
	for i := range t {
		if !t[i].Valid {
			t[i].HeaderLen = BTHLen
		}
	}
	return t
}
