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

// sctpWriter makes user messages of SCTP (RFC 5043 section 5.2) from a stream of MPA: the
// set-up frame first, and then FPDUs.
type sctpWriter struct {
	ssn  uint16
	past bool   // the set-up frame is through
	buf  []byte // the frame or FPDU under way
	want int    // bytes of it, as far as is known
}

// between says whether no frame or FPDU is under way.
func (w *sctpWriter) between() bool { return len(w.buf) == 0 }

// take takes bytes of b, and returns how many with the message that they complete. The
// message is the caller's until the next call.
func (w *sctpWriter) take(b []byte) (n int, msg []byte, ppid uint32) {
	head := iwarp.LengthLen
	if !w.past {
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

// length returns how long what buf begins with is.
func (w *sctpWriter) length() int {
	if w.past {
		return iwarp.FPDULen(int(binary.BigEndian.Uint16(w.buf)))
	}
	var f iwarp.Frame
	f.Decode(w.buf) // the device made it
	return iwarp.FrameHeaderLen + int(f.PrivateLen)
}

// message makes a message of buf.
func (w *sctpWriter) message() ([]byte, uint32) {
	if w.past {
		ulen := int(binary.BigEndian.Uint16(w.buf))
		binary.BigEndian.PutUint16(w.buf, w.ssn) // in the place of the length
		return w.buf[:iwarp.SSNLen+ulen], ppidSegment
	}
	w.past = true
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

// sctpReader makes a stream of MPA from user messages of SCTP.
type sctpReader struct {
	ssn  uint16
	past bool // the set-up is through
}

// next returns the bytes that a message stands for. It may have them in the message's
// memory, behind which there have to be 8 bytes. io.EOF: the peer has ended the session.
func (r *sctpReader) next(msg []byte, ppid uint32) ([]byte, error) {
	if len(msg) < iwarp.SSNLen || binary.BigEndian.Uint16(msg) != r.ssn {
		return nil, errSSN
	}
	r.ssn++
	if ppid == ppidSegment && r.past {
		n := len(msg) - iwarp.SSNLen
		binary.BigEndian.PutUint16(msg, uint16(n))
		all := iwarp.FPDULen(n)
		b := msg[:all]
		clear(b[iwarp.LengthLen+n:]) // pad and CRC, which is not used
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
	if !ok || r.past {
		return nil, errSession
	}
	r.past = true
	return append(f.Append(nil), s.Private...), nil
}
