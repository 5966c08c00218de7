// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"encoding/binary"
	"fmt"

	"github.com/ramjet-rdma/ramjet/smbdirect/internal/smb2"
	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
)

// request is a plain READ or WRITE that can go through the channel.
type request struct {
	id     uint64
	write  bool
	length int
	data   []byte // of a WRITE
	at     int    // where Channel is
}

// decodeRequest returns the request in a client's message. false: it cannot go through the channel. most bounds the
// data.
func decodeRequest(b []byte, most int) (r request, ok bool) {
	var h smb2.Header
	if !h.Decode(b) || h.Next != 0 || h.Flags&smb2.FlagSigned != 0 {
		return r, false
	}
	at, ok := h.ChannelAt(b)
	if !ok {
		return r, false
	}
	le := binary.LittleEndian
	length := le.Uint32(b[smb2.LengthAt:])
	if channel := le.Uint32(b[at:]); channel != smb2.ChannelNone || length < threshold ||
		uint64(length) > uint64(most) {
		return r, false
	}
	r = request{id: h.ID, write: h.Command == smb2.Write, length: int(length), at: at}
	if r.write {
		off := int(le.Uint16(b[smb2.DataOffsetAt:]))
		if off < smb2.HeaderSize+smb2.BodySize || off+r.length > len(b) {
			return r, false
		}
		r.data = b[off:][:r.length]
	}
	return r, true
}

// append returns the request through the channel for a plain one.
func (r *request) append(plain []byte, d wire.Descriptor) []byte {
	le := binary.LittleEndian
	const fixed = smb2.HeaderSize + smb2.BodySize
	b := append(make([]byte, 0, fixed+wire.DescriptorSize), plain[:fixed]...)
	le.PutUint32(b[r.at:], smb2.ChannelV1Invalidate)
	le.PutUint16(b[r.at+smb2.ChannelOffset:], smb2.HeaderSize+smb2.BodySize)
	le.PutUint16(b[r.at+smb2.ChannelLength:], wire.DescriptorSize)
	if r.write {
		le.PutUint16(b[smb2.DataOffsetAt:], 0)
		le.PutUint32(b[smb2.LengthAt:], 0)
		le.PutUint32(b[r.at+smb2.ChannelRemaining:], uint32(r.length))
	}
	return d.Append(b)
}

// readLength returns how many bytes a response to a READ says were written to the client's memory. 0: the response
// passes as it is.
func readLength(h smb2.Header, b []byte, most int) (int, error) {
	if !h.HasData() || len(b) < smb2.HeaderSize+smb2.AnswerSize {
		return 0, nil
	}
	le := binary.LittleEndian
	inline, n := le.Uint32(b[smb2.LengthAt:]), le.Uint32(b[smb2.RemainingAt:])
	switch {
	case inline > 0 || n == 0:
		return 0, nil
	case int64(n) > int64(most) || h.Next != 0:
		return 0, fmt.Errorf("%w: %d bytes through the RDMA channel, %d were asked for", errAnswer, n, most)
	}
	return int(n), nil
}

// plainRead returns a response to a READ with data.
func plainRead(b, data []byte) []byte {
	le := binary.LittleEndian
	plain := append(make([]byte, 0, smb2.HeaderSize+smb2.AnswerSize+len(data)), b[:smb2.HeaderSize+smb2.AnswerSize]...)
	plain[smb2.DataOffsetAt] = smb2.HeaderSize + smb2.AnswerSize
	le.PutUint32(plain[smb2.LengthAt:], uint32(len(data)))
	le.PutUint32(plain[smb2.RemainingAt:], 0)
	return append(plain, data...)
}
