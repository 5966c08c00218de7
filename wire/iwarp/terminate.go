// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"encoding/binary"
	"fmt"
)

// Cause is why a stream is terminated: layer, error type and error code, the first 16 bits of a
// Terminate (RFC 5040 section 4.8, RFC 5041 section 7.2, RFC 5044 section 8, RFC 6581 section 8;
// IANA registry "RDDP").
type Cause uint16

const (
	LocalCatastrophic Cause = 0x0000 // RDMAP layer: an error of the peer's own

	ProtectionSTag       Cause = 0x0100 // for reads and atomics
	ProtectionBounds     Cause = 0x0101 // base or bounds violation
	ProtectionAccess     Cause = 0x0102 // access rights violation
	ProtectionStream     Cause = 0x0103 // the STag is of another stream
	ProtectionWrap       Cause = 0x0104 // the tagged offset wraps
	ProtectionInvalidate Cause = 0x0109 // the STag cannot be invalidated

	OperationVersion      Cause = 0x0205 // RDMAP version
	OperationOpcode       Cause = 0x0206 // unexpected opcode
	OperationCatastrophic Cause = 0x0207 // an error that affects this stream alone
	OperationGlobal       Cause = 0x0208 // an error that affects all streams
	OperationUnspecified  Cause = 0x02ff // anything else

	DDPCatastrophic Cause = 0x1000 // DDP layer: an error of the peer's own

	TaggedSTag    Cause = 0x1100 // invalid STag
	TaggedBounds  Cause = 0x1101 // base or bounds violation
	TaggedStream  Cause = 0x1102 // the STag is of another stream
	TaggedWrap    Cause = 0x1103 // the tagged offset wraps
	TaggedVersion Cause = 0x1104 // DDP version

	UntaggedQueue    Cause = 0x1201 // invalid queue number
	UntaggedNoBuffer Cause = 0x1202 // no receive is posted
	UntaggedMSN      Cause = 0x1203 // the message sequence number is out of range
	UntaggedMO       Cause = 0x1204 // invalid message offset
	UntaggedTooLong  Cause = 0x1205 // the message is longer than its receive
	UntaggedVersion  Cause = 0x1206 // DDP version

	MPAClosed          Cause = 0x2001 // the TCP connection ended, was reset or lost
	MPACRC             Cause = 0x2002 // CRC error
	MPAMarker          Cause = 0x2003 // a marker and the FPDU's length disagree
	MPAFrame           Cause = 0x2004 // invalid MPA request or reply frame
	MPALocal           Cause = 0x2005 // an error of the peer's own
	MPAInsufficientIRD Cause = 0x2006 // insufficient IRD (RFC 6581)
	MPANoRTR           Cause = 0x2007 // no matching ready-to-receive message (RFC 6581)
)

var causes = map[Cause]string{
	LocalCatastrophic:     "local catastrophic error",
	ProtectionSTag:        "invalid steering tag",
	ProtectionBounds:      "base or bounds violation",
	ProtectionAccess:      "access rights violation",
	ProtectionStream:      "steering tag not of this stream",
	ProtectionWrap:        "tagged offset wraps",
	ProtectionInvalidate:  "steering tag cannot be invalidated",
	OperationVersion:      "invalid RDMAP version",
	OperationOpcode:       "unexpected opcode",
	OperationCatastrophic: "catastrophic error of the stream",
	OperationGlobal:       "catastrophic error of the device",
	OperationUnspecified:  "unspecified remote error",
	DDPCatastrophic:       "catastrophic error in DDP",
	TaggedSTag:            "tagged buffer: invalid steering tag",
	TaggedBounds:          "tagged buffer: base or bounds violation",
	TaggedStream:          "tagged buffer: steering tag not of this stream",
	TaggedWrap:            "tagged buffer: tagged offset wraps",
	TaggedVersion:         "tagged buffer: invalid DDP version",
	UntaggedQueue:         "untagged buffer: invalid queue number",
	UntaggedNoBuffer:      "untagged buffer: no buffer is posted",
	UntaggedMSN:           "untagged buffer: invalid message sequence number",
	UntaggedMO:            "untagged buffer: invalid message offset",
	UntaggedTooLong:       "untagged buffer: message too long",
	UntaggedVersion:       "untagged buffer: invalid DDP version",
	MPAClosed:             "TCP connection closed, terminated or lost",
	MPACRC:                "CRC error",
	MPAMarker:             "marker and ULPDU_Length do not match",
	MPAFrame:              "invalid MPA request or reply frame",
	MPALocal:              "local error in setting up",
	MPAInsufficientIRD:    "not enough inbound reads",
	MPANoRTR:              "no ready-to-receive message in common",
}

// String describes the cause, in a few words.
func (c Cause) String() string {
	if s := causes[c]; s != "" {
		return s
	}
	return fmt.Sprintf("cause %#04x", uint16(c))
}

// MaxTerminate is the length of the longest Terminate in bytes.
const MaxTerminate = 4 + 2 + UntaggedLen + AtomicRequestLen

// Terminate says why a stream ends, and holds the headers of the faulty message (RFC 5040 section
// 4.8).
//
//	 0               1               2               3
//	+-------+-------+---------------+-----+-------------------------+
//	| layer | etype |     code      |M D R|        reserved         |
//	+-------+-------+---------------+-----+-------------------------+
//	|    DDP segment length, if M   |   DDP header, if D …          |
//	|   RDMAP header, if R …                                        |
//
// Linux siw numbers bits from the other end in each of the first three bytes, because its structure
// has bit fields and the machine is little-endian: etype comes before layer, and R D M are the
// three lowest bits of the third byte. Such a Terminate is recognized by those bits, which are
// reserved, or by a cause that only makes sense that way.
type Terminate struct {
	Cause      Cause
	Control    uint16 // M, D, R and the reserved bits, as received; Append sets M, D and R
	SegmentLen uint16 // bytes of the DDP segment
	HasLen     bool
	Swapped    bool   // layer and etype, and the flags, are in siw's places
	DDP        []byte // its DDP header; after Decode: part of the decoded bytes
	RDMAP      []byte // its RDMAP header, if it has one of its own
}

// controlFlags are M, D and R.
type controlFlags struct{ m, d, r uint16 }

func (f controlFlags) all() uint16 { return f.m | f.d | f.r }

var (
	terminateFlags = controlFlags{0x8000, 0x4000, 0x2000}
	siwFlags       = controlFlags{0x0100, 0x0200, 0x0400}
)

// swap exchanges layer and error type.
func (c Cause) swap() Cause { return c>>4&0x0f00 | c<<4&0xf000 | c&0xff }

// Decode reads a Terminate. It returns false if b is too short for the headers that it announces.
func (t *Terminate) Decode(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	*t = Terminate{Cause: Cause(binary.BigEndian.Uint16(b)), Control: binary.BigEndian.Uint16(b[2:])}
	b = b[4:]
	f := terminateFlags
	if t.Control&f.all() == 0 && (t.Control&siwFlags.all() != 0 ||
		t.Control == 0 && causes[t.Cause] == "" && causes[t.Cause.swap()] != "") {
		t.Swapped, t.Cause, f = true, t.Cause.swap(), siwFlags
	}
	if t.Control&f.m != 0 {
		if len(b) < 2 {
			return false
		}
		t.HasLen, t.SegmentLen = true, binary.BigEndian.Uint16(b)
		b = b[2:]
	}
	if t.Control&f.d != 0 {
		if len(b) < 1 || len(b) < HeaderLen(b[0]) {
			return false
		}
		n := HeaderLen(b[0])
		t.DDP, b = b[:n], b[n:]
	}
	if t.Control&f.r != 0 {
		t.RDMAP, b = b, nil
	}
	return len(b) == 0
}

// Append appends a Terminate.
func (t *Terminate) Append(b []byte) []byte {
	cause, f := t.Cause, terminateFlags
	if t.Swapped {
		cause, f = cause.swap(), siwFlags
	}
	control := t.Control &^ f.all()
	if t.HasLen {
		control |= f.m
	}
	if t.DDP != nil {
		control |= f.d
	}
	if t.RDMAP != nil {
		control |= f.r
	}
	b = binary.BigEndian.AppendUint16(b, uint16(cause))
	b = binary.BigEndian.AppendUint16(b, control)
	if t.HasLen {
		b = binary.BigEndian.AppendUint16(b, t.SegmentLen)
	}
	return append(append(b, t.DDP...), t.RDMAP...)
}
