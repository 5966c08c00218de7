// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

const (
	ppidSegment = iwarp.PPIDSegment
	ppidSession = iwarp.PPIDSession
)

// sctpWriter converts a stream of MPA, the set-up frame followed by FPDUs, to user messages of SCTP
// (RFC 5043 section 5.2).
type sctpWriter struct {
	ssn         uint16
	established bool   // the set-up frame is complete
	buf         []byte // the current frame or FPDU
	want        int    // its length, as far as it is known
}

// between reports whether the stream is between two frames or FPDUs.
func (w *sctpWriter) between() bool { return len(w.buf) == 0 }

// take takes bytes of b. It returns how many, and the message that they complete, which is valid
// until the next call.
func (w *sctpWriter) take(b []byte) (n int, msg []byte, ppid uint32) {
	head := iwarp.LengthLen
	if !w.established {
		head = iwarp.FrameHeaderLen
	}
	if len(w.buf) == 0 {
		w.want = head
	}
	n = min(len(b), w.want-len(w.buf))
	w.buf = append(w.buf, b[:n]...)
	if len(w.buf) == head && w.want == head {
		w.want = w.length()
	}
	if len(w.buf) < w.want {
		return n, nil, 0
	}
	msg, ppid = w.message()
	w.buf = w.buf[:0]
	w.ssn++
	return n, msg, ppid
}

// length returns the length of the frame that buf begins with.
func (w *sctpWriter) length() int {
	if w.established {
		return iwarp.FPDULen(int(binary.BigEndian.Uint16(w.buf)))
	}
	var f iwarp.Frame
	f.Decode(w.buf) // never fails: the device made it
	return iwarp.FrameHeaderLen + int(f.PrivateLen)
}

// message converts buf to a message.
func (w *sctpWriter) message() ([]byte, uint32) {
	if w.established {
		ulen := int(binary.BigEndian.Uint16(w.buf))
		binary.BigEndian.PutUint16(w.buf, w.ssn) // in place of the length
		return w.buf[:iwarp.SSNLen+ulen], ppidSegment
	}
	w.established = true
	var f iwarp.Frame
	f.Decode(w.buf)
	s := iwarp.Session{SSN: w.ssn, Function: f.Session(), Private: w.buf[iwarp.FrameHeaderLen:]}
	return s.Append(nil), ppidSession
}

// end returns the message that ends the session.
func (w *sctpWriter) end() []byte {
	s := iwarp.Session{SSN: w.ssn, Function: iwarp.SessionTerminate}
	w.ssn++
	return s.Append(nil)
}

var (
	errSSN     = errors.New("a message of SCTP is out of order")
	errSession = errors.New("what the peer sends is no DDP over SCTP: it does not speak iWARP there")
)

// sctpReader converts user messages of SCTP to a stream of MPA.
type sctpReader struct {
	ssn         uint16
	established bool // the set-up is complete
}

// next returns the bytes that a message stands for. They may be in the message's memory, which must
// have 8 spare bytes after it. io.EOF means that the peer has ended the session.
func (r *sctpReader) next(msg []byte, ppid uint32) ([]byte, error) {
	if len(msg) < iwarp.SSNLen || binary.BigEndian.Uint16(msg) != r.ssn {
		return nil, errSSN
	}
	r.ssn++
	if ppid == ppidSegment && r.established {
		n := len(msg) - iwarp.SSNLen
		binary.BigEndian.PutUint16(msg, uint16(n))
		all := iwarp.FPDULen(n)
		b := msg[:all]
		clear(b[iwarp.LengthLen+n:]) // pad and CRC, which is not checked
		return b, nil
	}
	var s iwarp.Session
	if ppid != ppidSession || !s.Decode(msg) {
		return nil, errSession
	}
	if s.Function == iwarp.SessionTerminate {
		return nil, io.EOF
	}
	f, ok := s.Frame()
	if !ok || r.established {
		return nil, errSession
	}
	r.established = true
	return append(f.Append(nil), s.Private...), nil
}
