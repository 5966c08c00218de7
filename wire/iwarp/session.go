// SPDX-License-Identifier: Apache-2.0

package iwarp

import "encoding/binary"

// Payload protocol identifiers of DDP over SCTP (RFC 5043, and IANA's list of SCTP's).
const (
	PPIDSegment = 16 // a DDP segment
	PPIDSession = 17 // Session
)

// SSNLen is what every message of either kind begins with: a sequence number of 16 bits.
const SSNLen = 2

// SessionLen is the length of a Session without its private data.
const SessionLen = SSNLen + 2

// SessionFunction is what a session control message says. Initiate to Terminate are those of
// RFC 6580 section 3.5, which lists RFC 5043's. The enhanced ones are RFC 6581's; their numbers
// have not been compared with IANA's list.
type SessionFunction uint16

const (
	SessionInitiate SessionFunction = iota + 1
	SessionAccept
	SessionReject
	SessionTerminate
	SessionEnhancedInitiate // the private data of this and the next two begin with Enhanced
	SessionEnhancedAccept
	SessionEnhancedReject
)

// Session is a session control message of DDP over SCTP. Private data follow. That the function
// code has 16 bits is RFC 6580's word (section 3.5); the order of the fields has not been
// compared with another implementation, as there is none to be had.
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

// Decode reads a message. False: it is too short or long, or says nothing that is known.
// Private is part of b.
func (s *Session) Decode(b []byte) bool {
	if len(b) < SessionLen || len(b) > SessionLen+MaxPrivateData {
		return false
	}
	s.SSN, s.Function, s.Private = binary.BigEndian.Uint16(b), SessionFunction(binary.BigEndian.Uint16(b[SSNLen:])), b[SessionLen:]
	return s.Function >= SessionInitiate && s.Function <= SessionEnhancedReject
}

// Append appends the message.
func (s *Session) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, s.SSN)
	return append(binary.BigEndian.AppendUint16(b, uint16(s.Function)), s.Private...)
}

// Frame returns the set-up frame of MPA that says the same, without its private data, which
// are the message's. False: there is none.
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

// Session returns the message that says what the frame does, but for CRCs and markers, which
// SCTP has no use for.
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
