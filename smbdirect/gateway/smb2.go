// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
)

// The header of SMB2 (MS-SMB2 2.2.1), and the fixed parts of READ and WRITE behind it.
const (
	headerSize = 64
	bodySize   = 48 // of both requests, without what is behind the fixed part
	answerSize = 16 // of the READ response, without data

	commandRead  = 8
	commandWrite = 9

	flagResponse = 0x1
	flagSigned   = 0x8

	statusSuccess        = 0
	statusPending        = 0x103
	statusBufferOverflow = 0x80000005
)

// Values of Channel (MS-SMB2 2.2.19).
const (
	channelNone = iota
	channelV1
	channelV1Invalidate
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

// header is what the gateway looks at in an SMB2 header.
type header struct {
	status, flags, next uint32
	command             uint16
	id                  uint64
}

// decodeHeader reads a header. false: what b has is something else, such as an encrypted message.
func decodeHeader(b []byte) (h header, ok bool) {
	le := binary.LittleEndian
	if len(b) < headerSize || string(b[:4]) != "\xfeSMB" || le.Uint16(b[4:]) != headerSize {
		return h, false
	}
	return header{status: le.Uint32(b[8:]), command: le.Uint16(b[12:]), flags: le.Uint32(b[16:]), next: le.Uint32(b[20:]),
		id: le.Uint64(b[24:])}, true
}

// channelOf returns a request's Channel, and where the fields about the channel begin behind it: RemainingBytes and the
// place of descriptors.
func channelOf(h header, b []byte) (channel uint32, at int) {
	switch {
	case len(b) < headerSize+bodySize:
		return channelNone, 0
	case h.command == commandRead:
		at = headerSize + 36
	case h.command == commandWrite:
		at = headerSize + 32
	default:
		return channelNone, 0
	}
	return binary.LittleEndian.Uint32(b[at:]), at
}

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
	h, ok := decodeHeader(b)
	if !ok {
		return nil, nil, nil
	}
	if h.next != 0 {
		return nil, nil, checkCompound(b)
	}
	channel, at := channelOf(h, b)
	switch {
	case channel == channelNone:
		return nil, nil, nil
	case channel != channelV1 && channel != channelV1Invalidate:
		return nil, nil, fmt.Errorf("%w: channel %d", errRequest, channel)
	case h.flags&flagSigned != 0:
		return nil, nil, errSigned
	}
	le := binary.LittleEndian
	remaining, off, n := le.Uint32(b[at+4:]), int(le.Uint16(b[at+8:])), int(le.Uint16(b[at+10:]))
	if off < headerSize+bodySize || off+n > len(b) {
		return nil, nil, fmt.Errorf("%w: descriptors of %d bytes at %d, in %d bytes", errRequest, n, off, len(b))
	}
	ds, total, err := wire.DecodeDescriptors(b[off:off+n], maxDescriptors)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	length := le.Uint32(b[headerSize+4:]) // of a READ; of a WRITE the data in the message
	if h.command == commandWrite {
		if length != 0 {
			return nil, nil, fmt.Errorf("%w: a WRITE with %d bytes in the message, besides", errRequest, length)
		}
		length = remaining
	}
	if uint64(length) > min(total, uint64(most)) {
		return nil, nil, fmt.Errorf("%w: %d bytes, where descriptors have %d and at most %d are moved", errRequest, length,
			total, most)
	}
	c := &call{id: h.id, write: h.command == commandWrite, length: int(length), descriptors: ds,
		invalidate: channel == channelV1Invalidate}
	plain := append(make([]byte, 0, headerSize+bodySize+max(1, int(length))), b[:headerSize+bodySize]...)
	clear(plain[at : at+12])
	if c.write {
		le.PutUint16(plain[headerSize+2:], headerSize+bodySize)
		le.PutUint32(plain[headerSize+4:], length)
	}
	if !c.write || length == 0 {
		plain = append(plain, 0) // the variable part has a byte at least
	}
	return c, plain, nil
}

// checkCompound returns an error if one of the requests in a compound uses the channel.
func checkCompound(b []byte) error {
	for {
		h, ok := decodeHeader(b)
		if !ok {
			return nil
		}
		if channel, _ := channelOf(h, b); channel != channelNone {
			return errCompound
		}
		if h.next == 0 || uint64(h.next) >= uint64(len(b)) {
			return nil
		}
		b = b[h.next:]
	}
}

// handleResponse returns the data of a response to a READ, and what the client gets instead: the response without them.
// nil: the response has none, and passes as it is.
func (c *call) handleResponse(h header, b []byte) (data, answer []byte, err error) {
	if c.write || h.status != statusSuccess && h.status != statusBufferOverflow {
		return nil, nil, nil
	}
	le := binary.LittleEndian
	if len(b) < headerSize+answerSize || h.next != 0 {
		return nil, nil, fmt.Errorf("%w: %d bytes", errAnswer, len(b))
	}
	off, n := int(b[headerSize+2]), le.Uint32(b[headerSize+4:])
	switch {
	case n == 0:
		return nil, nil, nil
	case h.flags&flagSigned != 0:
		return nil, nil, fmt.Errorf("%w: it is signed, and the request was not", errAnswer)
	case off < headerSize+answerSize || uint64(off)+uint64(n) > uint64(len(b)) || int64(n) > int64(c.length):
		return nil, nil, fmt.Errorf("%w: %d bytes at %d of %d, %d were asked for", errAnswer, n, off, len(b), c.length)
	}
	answer = append([]byte(nil), b[:headerSize+answerSize]...)
	answer[headerSize+2] = headerSize + answerSize
	le.PutUint32(answer[headerSize+4:], 0) // DataLength
	le.PutUint32(answer[headerSize+8:], n) // DataRemaining: bytes through the channel (MS-SMB2 3.3.5.12)
	return b[off:][:n], answer, nil
}
