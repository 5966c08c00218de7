// SPDX-License-Identifier: Apache-2.0

package ib

import "strconv"

// Opcode is the first byte of the BTH: three bits of [Transport] above five
// bits of [Operation] (section 9.2.1).
type Opcode uint8

// Transport is the service an opcode belongs to: its top three bits.
type Transport uint8

// The transports of an opcode (section 9.2.1, annexes A14 and A17).
const (
	TransportRC  Transport = 0 // reliable connection
	TransportUC  Transport = 1 // unreliable connection
	TransportRD  Transport = 2 // reliable datagram: no opcode of it is in the table
	TransportUD  Transport = 3 // unreliable datagram
	TransportCNP Transport = 4 // RoCEv2 congestion notification
	TransportXRC Transport = 5 // extended reliable connection
)

// Operation is the operation of an opcode: its low five bits.
type Operation uint8

// The operations of an opcode (section 9.2.1; FLUSH and ATOMIC WRITE: annex A19). OpCNP exists
// under TransportCNP only.
const (
	OpSendFirst          Operation = 0x00
	OpSendMiddle         Operation = 0x01
	OpSendLast           Operation = 0x02
	OpSendLastImm        Operation = 0x03
	OpSendOnly           Operation = 0x04
	OpSendOnlyImm        Operation = 0x05
	OpWriteFirst         Operation = 0x06
	OpWriteMiddle        Operation = 0x07
	OpWriteLast          Operation = 0x08
	OpWriteLastImm       Operation = 0x09
	OpWriteOnly          Operation = 0x0a
	OpWriteOnlyImm       Operation = 0x0b
	OpReadRequest        Operation = 0x0c
	OpReadResponseFirst  Operation = 0x0d
	OpReadResponseMiddle Operation = 0x0e
	OpReadResponseLast   Operation = 0x0f
	OpReadResponseOnly   Operation = 0x10
	OpAck                Operation = 0x11
	OpAtomicAck          Operation = 0x12
	OpCompareSwap        Operation = 0x13
	OpFetchAdd           Operation = 0x14
	OpSendLastInv        Operation = 0x16
	OpSendOnlyInv        Operation = 0x17
	OpFlush              Operation = 0x1c
	OpAtomicWrite        Operation = 0x1d

	OpCNP Operation = 0x01
)

// Opcodes of the reliable connection service.
const (
	RCSendFirst          = Opcode(TransportRC)<<5 | Opcode(OpSendFirst)
	RCSendMiddle         = Opcode(TransportRC)<<5 | Opcode(OpSendMiddle)
	RCSendLast           = Opcode(TransportRC)<<5 | Opcode(OpSendLast)
	RCSendLastImm        = Opcode(TransportRC)<<5 | Opcode(OpSendLastImm)
	RCSendOnly           = Opcode(TransportRC)<<5 | Opcode(OpSendOnly)
	RCSendOnlyImm        = Opcode(TransportRC)<<5 | Opcode(OpSendOnlyImm)
	RCWriteFirst         = Opcode(TransportRC)<<5 | Opcode(OpWriteFirst)
	RCWriteMiddle        = Opcode(TransportRC)<<5 | Opcode(OpWriteMiddle)
	RCWriteLast          = Opcode(TransportRC)<<5 | Opcode(OpWriteLast)
	RCWriteLastImm       = Opcode(TransportRC)<<5 | Opcode(OpWriteLastImm)
	RCWriteOnly          = Opcode(TransportRC)<<5 | Opcode(OpWriteOnly)
	RCWriteOnlyImm       = Opcode(TransportRC)<<5 | Opcode(OpWriteOnlyImm)
	RCReadRequest        = Opcode(TransportRC)<<5 | Opcode(OpReadRequest)
	RCReadResponseFirst  = Opcode(TransportRC)<<5 | Opcode(OpReadResponseFirst)
	RCReadResponseMiddle = Opcode(TransportRC)<<5 | Opcode(OpReadResponseMiddle)
	RCReadResponseLast   = Opcode(TransportRC)<<5 | Opcode(OpReadResponseLast)
	RCReadResponseOnly   = Opcode(TransportRC)<<5 | Opcode(OpReadResponseOnly)
	RCAck                = Opcode(TransportRC)<<5 | Opcode(OpAck)
	RCAtomicAck          = Opcode(TransportRC)<<5 | Opcode(OpAtomicAck)
	RCCompareSwap        = Opcode(TransportRC)<<5 | Opcode(OpCompareSwap)
	RCFetchAdd           = Opcode(TransportRC)<<5 | Opcode(OpFetchAdd)
	RCSendLastInv        = Opcode(TransportRC)<<5 | Opcode(OpSendLastInv)
	RCSendOnlyInv        = Opcode(TransportRC)<<5 | Opcode(OpSendOnlyInv)
	RCFlush              = Opcode(TransportRC)<<5 | Opcode(OpFlush)
	RCAtomicWrite        = Opcode(TransportRC)<<5 | Opcode(OpAtomicWrite)
)

// Opcodes of the unreliable connection service.
const (
	UCSendFirst    = Opcode(TransportUC)<<5 | Opcode(OpSendFirst)
	UCSendMiddle   = Opcode(TransportUC)<<5 | Opcode(OpSendMiddle)
	UCSendLast     = Opcode(TransportUC)<<5 | Opcode(OpSendLast)
	UCSendLastImm  = Opcode(TransportUC)<<5 | Opcode(OpSendLastImm)
	UCSendOnly     = Opcode(TransportUC)<<5 | Opcode(OpSendOnly)
	UCSendOnlyImm  = Opcode(TransportUC)<<5 | Opcode(OpSendOnlyImm)
	UCWriteFirst   = Opcode(TransportUC)<<5 | Opcode(OpWriteFirst)
	UCWriteMiddle  = Opcode(TransportUC)<<5 | Opcode(OpWriteMiddle)
	UCWriteLast    = Opcode(TransportUC)<<5 | Opcode(OpWriteLast)
	UCWriteLastImm = Opcode(TransportUC)<<5 | Opcode(OpWriteLastImm)
	UCWriteOnly    = Opcode(TransportUC)<<5 | Opcode(OpWriteOnly)
	UCWriteOnlyImm = Opcode(TransportUC)<<5 | Opcode(OpWriteOnlyImm)
)

// Opcodes of the unreliable datagram service.
const (
	UDSendOnly    = Opcode(TransportUD)<<5 | Opcode(OpSendOnly)
	UDSendOnlyImm = Opcode(TransportUD)<<5 | Opcode(OpSendOnlyImm)
)

// CNP is the congestion notification packet of RoCEv2 (annex A17).
const CNP = Opcode(TransportCNP)<<5 | Opcode(OpCNP)

// Opcodes of the extended reliable connection service (annex A14).
const (
	XRCSendFirst          = Opcode(TransportXRC)<<5 | Opcode(OpSendFirst)
	XRCSendMiddle         = Opcode(TransportXRC)<<5 | Opcode(OpSendMiddle)
	XRCSendLast           = Opcode(TransportXRC)<<5 | Opcode(OpSendLast)
	XRCSendLastImm        = Opcode(TransportXRC)<<5 | Opcode(OpSendLastImm)
	XRCSendOnly           = Opcode(TransportXRC)<<5 | Opcode(OpSendOnly)
	XRCSendOnlyImm        = Opcode(TransportXRC)<<5 | Opcode(OpSendOnlyImm)
	XRCWriteFirst         = Opcode(TransportXRC)<<5 | Opcode(OpWriteFirst)
	XRCWriteMiddle        = Opcode(TransportXRC)<<5 | Opcode(OpWriteMiddle)
	XRCWriteLast          = Opcode(TransportXRC)<<5 | Opcode(OpWriteLast)
	XRCWriteLastImm       = Opcode(TransportXRC)<<5 | Opcode(OpWriteLastImm)
	XRCWriteOnly          = Opcode(TransportXRC)<<5 | Opcode(OpWriteOnly)
	XRCWriteOnlyImm       = Opcode(TransportXRC)<<5 | Opcode(OpWriteOnlyImm)
	XRCReadRequest        = Opcode(TransportXRC)<<5 | Opcode(OpReadRequest)
	XRCReadResponseFirst  = Opcode(TransportXRC)<<5 | Opcode(OpReadResponseFirst)
	XRCReadResponseMiddle = Opcode(TransportXRC)<<5 | Opcode(OpReadResponseMiddle)
	XRCReadResponseLast   = Opcode(TransportXRC)<<5 | Opcode(OpReadResponseLast)
	XRCReadResponseOnly   = Opcode(TransportXRC)<<5 | Opcode(OpReadResponseOnly)
	XRCAck                = Opcode(TransportXRC)<<5 | Opcode(OpAck)
	XRCAtomicAck          = Opcode(TransportXRC)<<5 | Opcode(OpAtomicAck)
	XRCCompareSwap        = Opcode(TransportXRC)<<5 | Opcode(OpCompareSwap)
	XRCFetchAdd           = Opcode(TransportXRC)<<5 | Opcode(OpFetchAdd)
	XRCSendLastInv        = Opcode(TransportXRC)<<5 | Opcode(OpSendLastInv)
	XRCSendOnlyInv        = Opcode(TransportXRC)<<5 | Opcode(OpSendOnlyInv)
)

// Join returns the opcode of an operation on a transport; it need not be a
// valid one.
func (t Transport) Join(op Operation) Opcode { return Opcode(t)<<5 | Opcode(op)&0x1f }

// String returns the service's abbreviation.
func (t Transport) String() string {
	switch t {
	case TransportRC:
		return "RC"
	case TransportUC:
		return "UC"
	case TransportRD:
		return "RD"
	case TransportUD:
		return "UD"
	case TransportCNP:
		return "CNP"
	case TransportXRC:
		return "XRC"
	}
	return "Transport(" + strconv.Itoa(int(t)) + ")"
}

// Transport returns the service of o.
func (o Opcode) Transport() Transport { return Transport(o >> 5) }

// Operation returns the operation of o.
func (o Opcode) Operation() Operation { return Operation(o & 0x1f) }

// Info returns the table's row for o. It is never nil: a reserved opcode's row
// has Valid false and the BTH as its only header.
func (o Opcode) Info() *OpInfo { return &opTable[o] }

// String returns the opcode's name as in Wireshark, or its number if it is reserved.
func (o Opcode) String() string {
	if n := opTable[o].Name; n != "" {
		return n
	}
	return "Opcode(0x" + strconv.FormatUint(uint64(o), 16) + ")"
}
