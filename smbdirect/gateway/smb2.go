// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ramjet-rdma/ramjet/smbdirect/internal/smb2"
	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
)

// maxDescriptors bounds how many descriptors a request has.
const maxDescriptors = 16

var (
	errSigned = errors.New("a signed request uses the RDMA channel: the gateway cannot sign what it changes; " +
		"have client and server not require signing, or the client not use the channel")
	errCompound = errors.New("a compound request uses the RDMA channel, which the gateway does not take apart")
	errRequest  = errors.New("a malformed request for the RDMA channel")
	errAnswer   = errors.New("the server's response to a READ is malformed")
)

// call is a request whose data goes through the RDMA channel.
type call struct {
	id          uint64
	write       bool
	length      int // bytes
	descriptors []wire.Descriptor
	invalidate  bool // the exposure of the first descriptor with the response
}

// handleRequest returns the call that a client's message is, and the plain request for it, without the data of a WRITE.
// nil: the message passes as it is. most bounds the data.
func handleRequest(b []byte, most int) (*call, []byte, error) {
	var h smb2.Header
	if !h.Decode(b) {
		return nil, nil, nil
	}
	if h.Next != 0 {
		return nil, nil, checkCompound(b)
	}
	channel, at := h.Channel(b)
	switch {
	case channel == smb2.ChannelNone:
		return nil, nil, nil
	case channel != smb2.ChannelV1 && channel != smb2.ChannelV1Invalidate:
		return nil, nil, fmt.Errorf("%w: channel %d", errRequest, channel)
	case h.Flags&smb2.FlagSigned != 0:
		return nil, nil, errSigned
	}
	le := binary.LittleEndian
	remaining, off, n := le.Uint32(b[at+smb2.ChannelRemaining:]), int(le.Uint16(b[at+smb2.ChannelOffset:])),
		int(le.Uint16(b[at+smb2.ChannelLength:]))
	if off < smb2.HeaderSize+smb2.BodySize || off+n > len(b) {
		return nil, nil, fmt.Errorf("%w: descriptors of %d bytes at %d, in %d bytes", errRequest, n, off, len(b))
	}
	ds, total, err := wire.DecodeDescriptors(b[off:off+n], maxDescriptors)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	length := le.Uint32(b[smb2.LengthAt:]) // of a READ; of a WRITE the data in the message
	if h.Command == smb2.Write {
		if length != 0 {
			return nil, nil, fmt.Errorf("%w: a WRITE with %d bytes in the message, besides", errRequest, length)
		}
		length = remaining
	}
	if uint64(length) > min(total, uint64(most)) {
		return nil, nil, fmt.Errorf("%w: %d bytes, where descriptors have %d and at most %d are moved", errRequest,
			length, total, most)
	}
	c := &call{id: h.ID, write: h.Command == smb2.Write, length: int(length), descriptors: ds,
		invalidate: channel == smb2.ChannelV1Invalidate}
	room := smb2.HeaderSize + smb2.BodySize + 1
	if c.write {
		room += c.length
	}
	plain := append(make([]byte, 0, room), b[:smb2.HeaderSize+smb2.BodySize]...)
	clear(plain[at : at+smb2.ChannelSize])
	if c.write {
		le.PutUint16(plain[smb2.DataOffsetAt:], smb2.HeaderSize+smb2.BodySize)
		le.PutUint32(plain[smb2.LengthAt:], length)
	}
	if !c.write || length == 0 {
		plain = append(plain, 0) // the variable part has a byte at least
	}
	return c, plain, nil
}

// checkCompound returns an error if one of the requests in a compound uses the channel.
func checkCompound(b []byte) error {
	for {
		var h smb2.Header
		if !h.Decode(b) {
			return nil
		}
		if channel, _ := h.Channel(b); channel != smb2.ChannelNone {
			return errCompound
		}
		if h.Next == 0 || uint64(h.Next) >= uint64(len(b)) {
			return nil
		}
		b = b[h.Next:]
	}
}

// handleResponse returns the data of a response to a READ, and the message that the client gets instead: the response
// without them. nil: the response has none, and passes as it is.
func (c *call) handleResponse(h smb2.Header, b []byte) (data, answer []byte, err error) {
	if c.write || !h.HasData() {
		return nil, nil, nil
	}
	le := binary.LittleEndian
	if len(b) < smb2.HeaderSize+smb2.AnswerSize || h.Next != 0 {
		return nil, nil, fmt.Errorf("%w: %d bytes", errAnswer, len(b))
	}
	off, n := int(b[smb2.DataOffsetAt]), le.Uint32(b[smb2.LengthAt:])
	switch {
	case n == 0:
		return nil, nil, nil
	case h.Flags&smb2.FlagSigned != 0:
		return nil, nil, fmt.Errorf("%w: it is signed, and the request was not", errAnswer)
	case off < smb2.HeaderSize+smb2.AnswerSize || uint64(off)+uint64(n) > uint64(len(b)) || int64(n) > int64(c.length):
		return nil, nil, fmt.Errorf("%w: %d bytes at %d of %d, %d were asked for", errAnswer, n, off, len(b), c.length)
	}
	answer = append([]byte(nil), b[:smb2.HeaderSize+smb2.AnswerSize]...)
	answer[smb2.DataOffsetAt] = smb2.HeaderSize + smb2.AnswerSize
	le.PutUint32(answer[smb2.LengthAt:], 0)    // DataLength
	le.PutUint32(answer[smb2.RemainingAt:], n) // DataRemaining: bytes through the channel (MS-SMB2 3.3.5.12)
	return b[off:][:n], answer, nil
}
