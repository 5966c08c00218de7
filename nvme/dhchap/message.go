// SPDX-License-Identifier: Apache-2.0

package dhchap

import (
	"encoding/binary"
	"fmt"
	"slices"
)

var le = binary.LittleEndian

// MaxMessage is the length of the longest message in bytes: a Reply with SHA-512 and ffdhe8192.
const MaxMessage = 16 + 2*64 + 1024

// message is the type and the identifier of a message.
type message uint16

// Messages (base 2.0, 8.13.5.3 to 8.13.5.7).
const (
	negotiate message = 0x0000
	failure2  message = 0x00f0
	failure1  message = 0x00f1
	challenge message = 0x0101
	reply     message = 0x0102
	success1  message = 0x0103
	success2  message = 0x0104
)

// header is the header of messages.
type header struct {
	kind        message
	transaction uint16
}

const headerSize = 6

func (h *header) decode(b []byte) bool {
	if len(b) < headerSize {
		return false
	}
	*h = header{message(b[0])<<8 | message(b[1]), le.Uint16(b[4:])}
	return true
}

func (h *header) append(b []byte) []byte {
	return le.AppendUint16(append(b, byte(h.kind>>8), byte(h.kind), 0, 0), h.transaction)
}

// Explanation is why an authentication has failed (base 2.0, figure 431).
type Explanation uint8

// Explanations.
const (
	Failed              Explanation = 1
	ProtocolNotUsable   Explanation = 2
	ConcatenationDiffer Explanation = 3
	HashNotUsable       Explanation = 4
	GroupNotUsable      Explanation = 5
	IncorrectPayload    Explanation = 6
	IncorrectMessage    Explanation = 7
)

// String returns the explanation in the words of the specification.
func (e Explanation) String() string {
	names := [...]string{Failed: "authentication failed", ProtocolNotUsable: "authentication protocol not usable",
		ConcatenationDiffer: "secure channel concatenation mismatch", HashNotUsable: "hash function not usable",
		GroupNotUsable: "DH group not usable", IncorrectPayload: "incorrect payload",
		IncorrectMessage: "incorrect protocol message"}
	if int(e) < len(names) && names[e] != "" {
		return names[e]
	}
	return fmt.Sprintf("explanation %d", uint8(e))
}

// Error makes an Explanation an error, for errors.Is.
func (e Explanation) Error() string { return e.String() }

// appendFailure appends a Failure1 or Failure2.
func appendFailure(b []byte, kind message, transaction uint16, e Explanation) []byte {
	const reason = 1
	return append((&header{kind, transaction}).append(b), reason, byte(e))
}

// offer is a Negotiate: the hashes and groups that a host has.
type offer struct {
	transaction uint16
	concatenate uint8 // asks for a secure channel
	hashes      []Hash
	groups      []Group
}

const (
	descriptorSize = 64
	protocolID     = 1 // of DH-HMAC-CHAP
	listSize       = 30
)

func (o *offer) append(b []byte) []byte {
	b = append((&header{negotiate, o.transaction}).append(b), o.concatenate, 1)
	d := make([]byte, descriptorSize)
	d[0], d[2], d[3] = protocolID, byte(len(o.hashes)), byte(len(o.groups))
	for i, h := range o.hashes {
		d[4+i] = byte(h)
	}
	for i, g := range o.groups {
		d[4+listSize+i] = byte(g)
	}
	return append(b, d...)
}

// decode decodes a Negotiate; 0: it is one.
func (o *offer) decode(b []byte) Explanation {
	var h header
	if !h.decode(b) || len(b) < headerSize+2 {
		return IncorrectPayload
	}
	*o = offer{transaction: h.transaction, concatenate: b[6]}
	n := int(b[7])
	b = b[8:]
	if n == 0 || len(b) < n*descriptorSize {
		return IncorrectPayload
	}
	for ; n > 0; n, b = n-1, b[descriptorSize:] {
		if b[0] != protocolID {
			continue
		}
		hashes, groups := int(b[2]), int(b[3])
		if hashes == 0 || hashes > listSize || groups == 0 || groups > listSize {
			return IncorrectPayload
		}
		for _, v := range b[4:][:hashes] {
			o.hashes = append(o.hashes, Hash(v))
		}
		for _, v := range b[4+listSize:][:groups] {
			o.groups = append(o.groups, Group(v))
		}
		return 0
	}
	return ProtocolNotUsable
}

// question is a Challenge.
type question struct {
	transaction uint16
	hash        Hash
	group       Group
	sequence    uint32
	value       []byte
	public      []byte
}

func (q *question) append(b []byte) []byte {
	b = append((&header{challenge, q.transaction}).append(b), byte(len(q.value)), 0, byte(q.hash), byte(q.group))
	b = le.AppendUint16(b, uint16(len(q.public)))
	b = le.AppendUint32(b, q.sequence)
	return append(append(b, q.value...), q.public...)
}

// decode decodes a Challenge; 0: it is one.
func (q *question) decode(b []byte) Explanation {
	var h header
	if !h.decode(b) || len(b) < 16 {
		return IncorrectPayload
	}
	*q = question{transaction: h.transaction, hash: Hash(b[8]), group: Group(b[9]), sequence: le.Uint32(b[12:])}
	hl, dl := int(b[6]), int(le.Uint16(b[10:]))
	switch {
	case q.hash.Size() == 0 || hl != q.hash.Size():
		return HashNotUsable
	case !q.group.Known():
		return GroupNotUsable
	case dl != q.group.Size() || len(b) < 16+hl+dl || q.sequence == 0:
		return IncorrectPayload
	}
	q.value, q.public = slices.Clone(b[16:][:hl]), slices.Clone(b[16+hl:][:dl])
	return 0
}

// answer is a Reply.
type answer struct {
	transaction uint16
	sequence    uint32
	response    []byte
	challenge   []byte // empty: the controller need prove nothing
	public      []byte
}

func (a *answer) append(b []byte) []byte {
	hl := len(a.response)
	b = append((&header{reply, a.transaction}).append(b), byte(hl), 0, 0, 0)
	if len(a.challenge) > 0 {
		b[len(b)-2] = 1
	}
	b = le.AppendUint16(b, uint16(len(a.public)))
	b = le.AppendUint32(b, a.sequence)
	b = append(append(b, a.response...), a.challenge...)
	if len(a.challenge) == 0 {
		b = append(b, make([]byte, hl)...)
	}
	return append(b, a.public...)
}

// decode decodes a Reply with a hash and a group; 0: it is one.
func (a *answer) decode(b []byte, hash Hash, group Group) Explanation {
	var h header
	hl, dl := hash.Size(), group.Size()
	if !h.decode(b) || len(b) < 16+2*hl+dl || int(b[6]) != hl || int(le.Uint16(b[10:])) != dl {
		return IncorrectPayload
	}
	*a = answer{transaction: h.transaction, sequence: le.Uint32(b[12:]), response: slices.Clone(b[16:][:hl]),
		public: slices.Clone(b[16+2*hl:][:dl])}
	if b[8]&1 != 0 {
		if a.sequence == 0 {
			return IncorrectPayload
		}
		a.challenge = slices.Clone(b[16+hl:][:hl])
	}
	return 0
}

// appendSuccess1 appends a Success1 with the controller's response; empty: the host has not asked for one.
func appendSuccess1(b []byte, transaction uint16, hash Hash, response []byte) []byte {
	b = append((&header{success1, transaction}).append(b), byte(hash.Size()), 0, 0)
	if len(response) > 0 {
		b[len(b)-1] = 1
	}
	return append(append(b, make([]byte, 7)...), response...)
}

// decodeSuccess1 returns the controller's response, of hl bytes; none: it has not given one.
func decodeSuccess1(b []byte, hl int) ([]byte, Explanation) {
	switch {
	case len(b) < 16 || int(b[6]) != hl:
		return nil, IncorrectPayload
	case b[8]&1 == 0:
		return nil, 0
	case len(b) < 16+hl:
		return nil, IncorrectPayload
	}
	return slices.Clone(b[16:][:hl]), 0
}

// appendSuccess2 appends a Success2.
func appendSuccess2(b []byte, transaction uint16) []byte {
	return append((&header{success2, transaction}).append(b), make([]byte, 10)...)
}
