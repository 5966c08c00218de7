// SPDX-License-Identifier: Apache-2.0

package iwarp

import "encoding/binary"

// Payload protocol identifiers of DDP over SCTP (RFC 5043, and IANA's registry for SCTP).
const (
	PPIDSegment = 16 // a DDP segment
	PPIDSession = 17 // Session
)

// SSNLen is the length of the 16-bit sequence number that begins every message of either kind.
const SSNLen = 2

// SessionLen is the length of a Session without its private data.
const SessionLen = SSNLen + 2

// SessionFunction is the function code of a session control message. Initiate to Terminate are the message types of RFC
// 6580 section 3.5, which lists RFC 5043's. The enhanced ones are RFC 6581's; their numbers have not been compared with
// IANA's registry.
type SessionFunction uint16

const (
	SessionInitiate  SessionFunction = iota + 1 // asks for a connection
	SessionAccept                               // accepts it
	SessionReject                               // rejects it
	SessionTerminate                            // ends it
	// in this and the next two, the private data begins with Enhanced
	SessionEnhancedInitiate
	SessionEnhancedAccept // accepts it, with IRD and ORD
	SessionEnhancedReject // rejects it, with IRD and ORD
)

// Session is a session control message of DDP over SCTP, followed by private data. The function
// code has 16 bits according to RFC 6580 section 3.5. The order of the fields has not been compared
// with another implementation, because none is available.
//
//	 0               1               2               3
//	+-------------------------------+-------------------------------+
//	|           DDP-SSN             |         function code         |
//	+-------------------------------+-------------------------------+
type Session struct {
	SSN      uint16
	Function SessionFunction
	Private  []byte
}

// Decode reads a message. It returns false if the message is too short or too long, or its function
// code is unknown. Private is part of b.
func (s *Session) Decode(b []byte) bool {
	if len(b) < SessionLen || len(b) > SessionLen+MaxPrivateData {
		return false
	}
	s.SSN, s.Function, s.Private = binary.BigEndian.Uint16(b), SessionFunction(binary.BigEndian.Uint16(b[SSNLen:])),
		b[SessionLen:]
	return s.Function >= SessionInitiate && s.Function <= SessionEnhancedReject
}

// Append appends the message.
func (s *Session) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, s.SSN)
	return append(binary.BigEndian.AppendUint16(b, uint16(s.Function)), s.Private...)
}

// Frame returns the equivalent set-up frame of MPA, without its private data, which is the
// message's. It returns false if there is none.
func (s *Session) Frame() (Frame, bool) {
	f := Frame{Flags: FlagLarge, Revision: 2, PrivateLen: uint16(len(s.Private))}
	switch s.Function {
	case SessionEnhancedInitiate, SessionEnhancedAccept, SessionEnhancedReject:
		f.Flags |= FlagEnhanced
	}
	switch s.Function {
	case SessionInitiate, SessionEnhancedInitiate:
		f.Kind = Request
	case SessionReject, SessionEnhancedReject:
		f.Kind, f.Flags = Reply, f.Flags|FlagReject
	case SessionAccept, SessionEnhancedAccept:
		f.Kind = Reply
	}
	return f, f.Kind != 0
}

// Session returns the function code that is equivalent to the frame, except for CRCs and markers,
// which SCTP does not need.
func (f *Frame) Session() SessionFunction {
	s := SessionInitiate
	switch {
	case f.Kind == Reply && f.Flags&FlagReject != 0:
		s = SessionReject
	case f.Kind == Reply:
		s = SessionAccept
	}
	if f.Flags&FlagEnhanced != 0 {
		s += SessionEnhancedInitiate - SessionInitiate
	}
	return s
}
