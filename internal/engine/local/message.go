// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// kind is the type of a message, in the kind of its record: an opcode in the low 8 bits, and flags.
type kind uint32

// The messages. Both sides run on one host, so numbers are in its byte order. The payload follows the
// fields named here.
const (
	opSend kind = iota + 1 // immediate data or key (4 bytes), zero (4)
	// a SEND whose payload is in a region of the sender: as opSend, but key (4), address (8), length (8), address in
	// the sender's process (8; 0: it is in a segment), number of revocations (8)
	opRef
	opWrite  // key (4), length from here to the end of the WRITE (4), address (8)
	opImm    // immediate data (4), length of the WRITE that it belongs to (4)
	opRead   // key (4), length (4), address (8)
	opAtomic // key (4), verbs.SendOp (4), address (8), operands (8 each)
	opStore  // an ATOMIC WRITE: key (4), zero (4), address (8), the word (8)
	opFlush  // key (4), verbs.FlushLevel (1), verbs.FlushScope (1), zero (2), address (8), length (8)
	opFetch  // a READ of the payload that an opRef or opWriteRef names, as opRead
	// a WRITE whose payload is in a region of the sender: as opRef, but zero (4) in place of the first field; and then
	// key (4), zero (4), address (8)
	opWriteRef

	opData   // response: data of the oldest READ
	opResult // response: the result of the oldest atomic operation (8)
	// response: the oldest request that has not been done fails with a verbs.Status (4), for a verbs.Reason (4), which
	// may be left out
	opRefused
)

// Flags of messages.
const (
	// of a SEND's or WRITE's messages; opImm: the peer has carried out the WRITE by itself
	first      kind = 1 << (8 + iota)
	last            // of a SEND's, WRITE's or READ's
	solicited       // the receiver requested an event for these
	immediate       // a SEND has immediate data
	invalidate      // a SEND has a key that is to be invalidated
)

// A SEND's messages and opImm say how often the sender would try them again without a receive, as
// verbs.QPAttr.RNRRetry: 7 less that in 3 bits.
const (
	atRetries       = 16
	endless   uint8 = 7
)

func (k kind) retries() uint8     { return endless - uint8(k>>atRetries)&endless }
func (k kind) op() kind           { return k & 0xff }
func (k kind) has(flag kind) bool { return k&flag != 0 }

// Lengths of fields in bytes.
const (
	sendFields   = 8
	writeFields  = 16
	immFields    = 8
	refFields    = 40
	toFields     = refFields + 16 // of opWriteRef
	readFields   = 16
	atomicFields = 32
	storeFields  = 24
	flushFields  = 24
	resultFields = 8
	statusFields = 4 // and 4 more
)

// fieldsOf returns the least length of each message.
var fieldsOf = [...]int{opSend: sendFields, opRef: refFields, opWriteRef: toFields, opFetch: readFields,
	opWrite: writeFields, opImm: immFields, opRead: readFields, opAtomic: atomicFields,
	opStore: storeFields, opFlush: flushFields,
	opData: 0, opResult: resultFields, opRefused: statusFields}

// piece is how much payload goes into one message: four of them fill a ring, so that both sides copy
// at once.
const piece = requestBytes/4 - 64

// refFrom is the length from which a SEND, or a WRITE that the target carries out, only names its payload, where the
// receiver can read it. A shorter payload is copied twice, and the sender's memory is free again sooner.
const refFrom = piece + 1

func get32(b []byte, at int) uint32    { return binary.NativeEndian.Uint32(b[at:]) }
func get64(b []byte, at int) uint64    { return binary.NativeEndian.Uint64(b[at:]) }
func put32(b []byte, at int, v uint32) { binary.NativeEndian.PutUint32(b[at:], v) }
func put64(b []byte, at int, v uint64) { binary.NativeEndian.PutUint64(b[at:], v) }

// statuses are the statuses that a peer may name in opRefused.
var statuses = map[verbs.Status]bool{verbs.StatusRemoteAccessError: true, verbs.StatusRemoteInvalidRequestError: true,
	verbs.StatusRemoteOperationError: true, verbs.StatusRNRRetryExceeded: true}
