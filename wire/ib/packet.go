// SPDX-License-Identifier: Apache-2.0

package ib

// DecodeError is why a packet could not be decoded. Its values are small numbers, so that a
// receiver can count by reason: counters[err.(DecodeError)].
type DecodeError uint8

// The reasons, in the order in which they are checked.
const (
	_          DecodeError = iota
	ErrShort               // shorter than the headers of its opcode
	ErrVersion             // transport version other than 0, section 9.2
	ErrOpcode              // reserved opcode, section 9.2
	ErrPad                 // more pad than payload, or not a multiple of four bytes, section 9.2
	ErrLength              // payload of a length that the opcode never has, see [PayloadRule]

	// NumDecodeErrors is one more than the largest DecodeError.
	NumDecodeErrors
)

var decodeErrorTexts = [NumDecodeErrors]string{
	ErrShort:   "packet too short",
	ErrVersion: "unknown transport version",
	ErrOpcode:  "reserved opcode",
	ErrPad:     "wrong pad count",
	ErrLength:  "wrong payload length",
}

// Error returns the reason in words.
func (e DecodeError) Error() string {
	if e < NumDecodeErrors {
		return "ib: " + decodeErrorTexts[e]
	}
	return "ib: malformed packet"
}

// errs holds the errors as interface values, so that returning one does not
// allocate.
var errs = func() (e [NumDecodeErrors]error) {
	for i := ErrShort; i < NumDecodeErrors; i++ {
		e[i] = i
	}
	return e
}()

// Packet is a transport packet, from the BTH up to but without the ICRC (chapter 9). Its opcode
// determines which of the extended headers it has ([OpInfo.Headers]). Decode leaves the fields of
// the others unchanged.
//
//	+-----+------------------+---------+-----+------+
//	| BTH | extended headers | payload | pad | ICRC |
//	+-----+------------------+---------+-----+------+
type Packet struct {
	BTH
	DETH      DETH
	XRCETH    XRCETH
	FETH      FETH
	RETH      RETH
	AtomicETH AtomicETH
	AETH      AETH
	AtomicAck AtomicAckETH
	Imm       ImmDt
	IETH      IETH

	// Payload does not include the pad. A decoded packet's aliases its input.
	Payload []byte
	// Pad holds the PadCount bytes after the payload; senders leave it zero.
	Pad [3]byte
}

// PadFor returns the pad count of a payload of n bytes (section 9.2).
func PadFor(n int) uint8 { return uint8(-n & 3) }

// Decode reads a packet without its ICRC, and only the headers that its opcode has. The error is a
// [DecodeError]. After ErrLength, and no other, everything has been decoded nevertheless, so that a
// responder can answer with a NAK. Checks that depend on the path MTU are left to
// [PayloadRule.Fits].
func (p *Packet) Decode(transport []byte) error {
	if !p.BTH.Decode(transport) {
		return errs[ErrShort]
	}
	if p.TVer != 0 {
		return errs[ErrVersion]
	}
	info := &opTable[transport[0]] // by the opcode, without waiting for p's copy
	if !info.Valid {
		return errs[ErrOpcode]
	}
	if len(transport) < info.HeaderLen {
		return errs[ErrShort]
	}
	switch info.Headers { // the common single headers, without a walk over the set
	case 0:
	case HasRETH:
		p.RETH.Decode(transport[BTHLen:])
	case HasAETH:
		p.AETH.Decode(transport[BTHLen:])
	case HasDETH:
		p.DETH.Decode(transport[BTHLen:])
	default:
		p.decodeExtended(info.Headers, transport[BTHLen:])
	}
	rest := transport[info.HeaderLen:]
	n := len(rest) - int(p.PadCount)
	if n < 0 || len(rest)&3 != 0 {
		return errs[ErrPad]
	}
	p.Payload = rest[:n:n]
	if p.PadCount != 0 {
		p.Pad = [3]byte{}
		copy(p.Pad[:], rest[n:])
	}
	if !info.Payload.fitsSome(n) {
		return errs[ErrLength]
	}
	return nil
}

// decodeExtended reads the headers of set, in the order in which they follow
// the BTH; b is long enough for them.
func (p *Packet) decodeExtended(set HeaderSet, b []byte) {
	if set&HasDETH != 0 {
		p.DETH.Decode(b)
		b = b[DETHLen:]
	}
	if set&HasXRCETH != 0 {
		p.XRCETH.Decode(b)
		b = b[XRCETHLen:]
	}
	if set&HasFETH != 0 {
		p.FETH.Decode(b)
		b = b[FETHLen:]
	}
	if set&HasRETH != 0 {
		p.RETH.Decode(b)
		b = b[RETHLen:]
	}
	if set&HasAtomicETH != 0 {
		p.AtomicETH.Decode(b)
		b = b[AtomicETHLen:]
	}
	if set&HasAETH != 0 {
		p.AETH.Decode(b)
		b = b[AETHLen:]
	}
	if set&HasAtomicAck != 0 {
		p.AtomicAck.Decode(b)
		b = b[AtomicAckETHLen:]
	}
	if set&HasImm != 0 {
		p.Imm.Decode(b)
		b = b[ImmDtLen:]
	}
	if set&HasIETH != 0 {
		p.IETH.Decode(b)
	}
}

// AppendHeader appends the BTH and the extended headers of the packet's opcode. The caller appends
// payload and pad. It does not allocate if b has room for [OpInfo.HeaderLen] bytes. PadCount is
// written as it is: set it with [PadFor].
func (p *Packet) AppendHeader(b []byte) []byte {
	b = p.BTH.append(b)
	switch set := opTable[p.Opcode].Headers; set {
	case 0:
		return b
	case HasRETH:
		return p.RETH.Append(b)
	case HasAETH:
		return p.AETH.Append(b)
	case HasDETH:
		return p.DETH.Append(b)
	default:
		return p.appendExtended(set, b)
	}
}

func (p *Packet) appendExtended(set HeaderSet, b []byte) []byte {
	if set&HasDETH != 0 {
		b = p.DETH.Append(b)
	}
	if set&HasXRCETH != 0 {
		b = p.XRCETH.Append(b)
	}
	if set&HasFETH != 0 {
		b = p.FETH.Append(b)
	}
	if set&HasRETH != 0 {
		b = p.RETH.Append(b)
	}
	if set&HasAtomicETH != 0 {
		b = p.AtomicETH.Append(b)
	}
	if set&HasAETH != 0 {
		b = p.AETH.Append(b)
	}
	if set&HasAtomicAck != 0 {
		b = p.AtomicAck.Append(b)
	}
	if set&HasImm != 0 {
		b = p.Imm.Append(b)
	}
	if set&HasIETH != 0 {
		b = p.IETH.Append(b)
	}
	return b
}

// Append appends the whole packet without an ICRC: headers, payload, and
// PadCount bytes of Pad.
func (p *Packet) Append(b []byte) []byte {
	b = p.AppendHeader(b)
	b = append(b, p.Payload...)
	return append(b, p.Pad[:p.PadCount&3]...)
}
