// SPDX-License-Identifier: Apache-2.0

package check

import (
	"math"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// word is the length of memory that is written and read as a whole, if it is aligned.
const word = 8

// operation has the facts about an operation that rules ask for.
type operation struct {
	message bool         // it uses up a receive of the peer
	sends   bool         // its list goes to this receive, and no key ends with it
	results bool         // it writes to the memory of its list
	seen    verbs.SendOp // the operation that the target's device sees at its memory; 0: none
	changes bool         // it changes this memory
	word    bool         // which is one aligned word
}

// atomic reports whether it reads and changes a word at once (IBTA 9.4.5).
func (o *operation) atomic() bool { return o.word && o.results }

// stores reports whether it writes a word as a whole, and reads none (IBTA annex A19).
func (o *operation) stores() bool { return o.word && !o.results }

// writes reports whether it is a WRITE, of any length, that completes no receive.
func (o *operation) writes() bool { return o.changes && !o.word && !o.message }

// operations has no facts about numbers that are no operations: programs may post them.
var operations = [math.MaxUint8 + 1]operation{
	verbs.OpSend:        {message: true, sends: true},
	verbs.OpSendImm:     {message: true, sends: true},
	verbs.OpSendInv:     {message: true},
	verbs.OpWrite:       {seen: verbs.OpWrite, changes: true},
	verbs.OpWriteImm:    {message: true, seen: verbs.OpWrite, changes: true},
	verbs.OpRead:        {results: true, seen: verbs.OpRead},
	verbs.OpCompareSwap: {results: true, seen: verbs.OpCompareSwap, changes: true, word: true},
	verbs.OpFetchAdd:    {results: true, seen: verbs.OpFetchAdd, changes: true, word: true},
	verbs.OpAtomicWrite: {seen: verbs.OpAtomicWrite, changes: true, word: true},
}
