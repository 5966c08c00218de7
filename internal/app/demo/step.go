// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// step is one thing that the demo does: Count messages of Size bytes by one operation.
type step struct {
	Op     verbs.SendOp
	QP     verbs.QPType
	Size   int
	Count  int
	Stream bool    // all at once, for bandwidth; otherwise one after the other, for latency
	Shared bool    // over shared memory, on any devices
	Seed   pattern // of the first process's data; the second uses peerSeed
}

func (st *step) String() string {
	return fmt.Sprintf("%s over %v, %s", opName(st.Op), st.QP, units.Size(st.Size))
}

// peerSeed derives the second process's pattern from the first one's.
const peerSeed pattern = 0x5bd1e9955bd1e995

// role is which of the two processes this is.
type role bool

const (
	first  role = false // requests and measures
	second role = true
)

// seed is the pattern of r's data.
func (st *step) seed(r role) pattern {
	if r == second {
		return st.Seed ^ peerSeed
	}
	return st.Seed
}

func (st *step) total() int { return st.Size * st.Count }

func (st *step) atomic() bool { return st.Op == verbs.OpCompareSwap || st.Op == verbs.OpFetchAdd }

// echoed reports whether each message of the first process is answered by one of the second.
func (st *step) echoed() bool { return !st.Stream && st.Op != verbs.OpRead && !st.atomic() }

// sources reports whether data comes from r's memory, lands whether data arrives in it.
func (st *step) sources(r role) bool {
	return !st.atomic() && (st.echoed() || (st.Op == verbs.OpRead) == (r == second))
}
func (st *step) lands(r role) bool {
	return !st.atomic() && (st.echoed() || (st.Op == verbs.OpRead) == (r == first))
}

// receives reports whether r posts receives.
func (st *step) receives(r role) bool {
	switch st.Op {
	case verbs.OpSend, verbs.OpSendImm, verbs.OpWriteImm:
		return r == second || st.echoed()
	}
	return false
}

func (st *step) immediate() bool { return st.Op == verbs.OpSendImm || st.Op == verbs.OpWriteImm }

// imm returns the immediate data of message i from r.
func (st *step) imm(r role, i int) uint32 { return uint32(st.seed(r).word(i)) }

// atomicWant returns the value of an atomic step's word before operation i, and the operands.
// For CompareSwap these are compare and swap; the last operation compares with a wrong value and
// must change nothing. For FetchAdd it is the addend.
func (st *step) atomicWant() (before []uint64, compare, swap []uint64, after uint64) {
	after = st.Seed.word(0)
	for i := range st.Count {
		before = append(before, after)
		next := st.Seed.word(i + 1)
		if st.Op == verbs.OpFetchAdd {
			compare, swap = append(compare, 0), append(swap, next)
			after += next
			continue
		}
		if i == st.Count-1 {
			compare, swap = append(compare, ^after), append(swap, next)
			continue
		}
		compare, swap = append(compare, after), append(swap, next)
		after = next
	}
	return before, compare, swap, after
}

// opName returns the name of the operation for people.
func opName(op verbs.SendOp) string {
	switch op {
	case verbs.OpSend:
		return "SEND"
	case verbs.OpSendImm:
		return "SEND with immediate"
	case verbs.OpWrite:
		return "WRITE"
	case verbs.OpWriteImm:
		return "WRITE with immediate"
	case verbs.OpRead:
		return "READ"
	case verbs.OpCompareSwap:
		return "compare-and-swap"
	case verbs.OpFetchAdd:
		return "fetch-and-add"
	}
	return op.String()
}
