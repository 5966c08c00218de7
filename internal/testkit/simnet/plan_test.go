// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// piece is a part of a region.
type piece struct{ off, n int }

// step is one operation of a conversation, and its expected result.
type step struct {
	op      verbs.SendOp
	flags   verbs.SendFlags
	inline  bool
	pieces  []piece // of the source, or of the landing place
	length  int
	off     int // in the target
	imm     uint32
	compare uint64
	swap    uint64
	scope   verbs.FlushScope

	data []byte // the message, or the data that a READ or an atomic must bring
}

func (s *step) receives() bool {
	switch s.op {
	case verbs.OpSend, verbs.OpSendImm, verbs.OpWriteImm:
		return true
	}
	return false
}

// Sizes of the regions of a plan.
const (
	targetLen = 320 << 10
	wordsLen  = 8 * 8
	sourceLen = 512 << 10
)

// plan is the list of operations that one side asks of the other, in order, and the model of the other side's
// memory. The source is never written to, and every READ has a landing place of its own.
type plan struct {
	steps   []step
	source  []byte
	target  []byte // after all steps
	words   []byte // after all steps; the target of atomics
	landing int    // bytes
}

type planner struct {
	*rand.Rand
	typ     verbs.QPType
	mtu     int
	maxLen  int
	reading bool // READs since the last fence
	plan
}

// newPlan makes up n operations of queue pairs of type typ.
func newPlan(r *rand.Rand, typ verbs.QPType, n, mtu, maxLen int) *plan {
	p := &planner{Rand: r, typ: typ, mtu: mtu, maxLen: maxLen}
	p.source, p.target, p.words = make([]byte, sourceLen), make([]byte, targetLen), make([]byte, wordsLen)
	for i := 0; i < len(p.source); i += 8 { // no byte is 0, as unwritten memory is
		binary.LittleEndian.PutUint64(p.source[i:], r.Uint64()|0x0101010101010101)
	}
	for range n {
		p.add()
	}
	p.steps[n-1].flags |= verbs.Signaled // then all have completed
	return &p.plan
}

// length makes up the length of a message; the interesting ones are around multiples of
// the MTU.
func (p *planner) length() int {
	m := p.mtu
	edges := []int{0, 1, 3, 4, 5, m - 1, m, m + 1, 2*m - 1, 2 * m, 2*m + 1, 7 * m, 16*m + 3}
	n := edges[p.IntN(len(edges))]
	if p.IntN(4) == 0 {
		n = p.IntN(24*m + 1)
	}
	if p.IntN(16) == 0 {
		n = p.IntN(p.maxLen + 1)
	}
	return min(n, p.maxLen)
}

// split cuts n bytes into pieces of a region.
func (p *planner) split(n, regionLen int) []piece {
	var list []piece
	for len(list) < 3 && p.IntN(2) == 0 {
		k := p.IntN(n + 1)
		list = append(list, piece{p.IntN(regionLen - k + 1), k})
		n -= k
	}
	return append(list, piece{p.IntN(regionLen - n + 1), n})
}

func (p *planner) gather(s *step) {
	s.pieces = p.split(s.length, len(p.source))
	for _, c := range s.pieces {
		s.data = append(s.data, p.source[c.off:c.off+c.n]...)
	}
}

// land gives a step landing places of its own.
func (p *planner) land(s *step) {
	for _, c := range p.split(s.length, s.length) {
		s.pieces = append(s.pieces, piece{p.landing, c.n})
		p.landing += c.n
	}
}

var operations = map[verbs.QPType][]verbs.SendOp{
	verbs.RC: {verbs.OpSend, verbs.OpSendImm, verbs.OpWrite, verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead,
		verbs.OpRead, verbs.OpCompareSwap, verbs.OpFetchAdd, verbs.OpAtomicWrite, verbs.OpFlush},
	verbs.XRCIni: {verbs.OpSend, verbs.OpSendImm, verbs.OpWrite, verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead,
		verbs.OpRead, verbs.OpCompareSwap, verbs.OpFetchAdd},
	verbs.UC: {verbs.OpSend, verbs.OpSendImm, verbs.OpWrite, verbs.OpWriteImm},
	verbs.UD: {verbs.OpSend, verbs.OpSendImm},
}

func (p *planner) add() {
	ops := operations[p.typ]
	s := step{op: ops[p.IntN(len(ops))], imm: p.Uint32(), length: p.length()}
	if p.IntN(3) > 0 {
		s.flags |= verbs.Signaled
	}
	if p.IntN(8) == 0 {
		s.flags |= verbs.Fence
	}
	if p.IntN(8) == 0 {
		s.flags |= verbs.Solicited
	}
	if s.op == verbs.OpWrite && p.IntN(4) == 0 {
		s.flags |= verbs.Divisible
	}
	s.inline = s.length <= maxInline && p.IntN(2) == 0
	switch s.op {
	case verbs.OpSend, verbs.OpSendImm:
		p.gather(&s)
	case verbs.OpWrite, verbs.OpWriteImm:
		p.write(&s)
	case verbs.OpRead:
		s.inline = false
		s.off = p.IntN(targetLen - s.length + 1)
		s.data = append(s.data, p.target[s.off:s.off+s.length]...)
		p.reading = true
		p.land(&s)
	case verbs.OpFlush:
		s.inline, s.length = false, p.IntN(targetLen)
		s.scope = verbs.FlushScope(p.IntN(2))
	default:
		p.atomic(&s)
	}
	p.steps = append(p.steps, s)
}

// write plans a WRITE. A READ may be answered again as long as it has not completed, so a
// WRITE after it waits for that (IBTA 10.8.3.3).
func (p *planner) write(s *step) {
	p.gather(s)
	if p.reading {
		s.flags |= verbs.Fence
		p.reading = false
	}
	s.off = p.IntN(targetLen - s.length + 1)
	if p.typ == verbs.UC { // any part of any message may be missing: each has its own place
		s.off = p.landing
		p.landing += s.length
		if p.landing > targetLen {
			s.off, s.length, s.data, s.pieces = 0, 0, nil, nil
		}
	}
	copy(p.target[s.off:], s.data)
}

func (p *planner) atomic(s *step) {
	s.off, s.length = 8*p.IntN(wordsLen/8), 8
	word := p.words[s.off : s.off+8]
	old := binary.NativeEndian.Uint64(word)
	s.compare, s.swap = p.Uint64N(3), p.Uint64N(3)
	switch s.op {
	case verbs.OpAtomicWrite:
		p.gather(s)
		copy(word, s.data)
		return
	case verbs.OpFetchAdd:
		binary.NativeEndian.PutUint64(word, old+s.swap)
	case verbs.OpCompareSwap:
		if p.IntN(2) == 0 {
			s.compare = old
		}
		if s.compare == old {
			binary.NativeEndian.PutUint64(word, s.swap)
		}
	}
	s.inline = false
	s.data = binary.NativeEndian.AppendUint64(nil, old)
	p.land(s)
}
