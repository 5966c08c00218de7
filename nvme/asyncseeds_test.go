// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// asyncProgram is a program on a host as persist is, with many commands in flight by an Async. A command in flight has
// its blocks for itself.
type asyncProgram struct {
	a      *nvme.Async
	r      *rand.Rand
	from   int64
	m      model
	steady bool // the target keeps its power: a block is the last one that was written

	last     uint64 // ID
	inFlight map[uint64]*asyncStep
	busy     []wire.Opcode // by block: Read, Write, or 0
	again    []bool        // by block: it is to be written again, its last version may be lost
	flushing bool
}

// asyncStep is a command of an asyncProgram.
type asyncStep struct {
	op      wire.Opcode
	first   int // block
	b       []byte
	covered []int // Flush: by block, the last version that has been written
}

// persistAsync has as many steps in flight as depth allows. The model is as that of persist, without the flush at the
// end.
func persistAsync(ctx context.Context, d *nvme.Disk, r *rand.Rand, from int64, m model, steps, depth int,
	steady bool) error {
	a, err := d.NewAsync(depth)
	if err != nil {
		return err
	}
	defer a.Close()
	p := &asyncProgram{a: a, r: r, from: from, m: m, steady: steady, inFlight: map[uint64]*asyncStep{},
		busy: make([]wire.Opcode, len(m)), again: make([]bool, len(m))}
	results := make([]nvme.Result, 4)
	for steps > 0 || len(p.inFlight) > 0 {
		for len(p.inFlight) < depth {
			s := p.rewrite()
			if s == nil && steps > 0 {
				steps--
				s = p.draw()
			}
			if s == nil {
				break
			}
			if err := p.begin(s); err != nil {
				return err
			}
		}
		if len(p.inFlight) == 0 {
			continue
		}
		n, err := a.Wait(ctx, results)
		switch {
		case err != nil:
			return err
		case n == 0:
			return fmt.Errorf("nothing is in flight, and %d commands have no result", len(p.inFlight))
		}
		for _, result := range results[:n] {
			if err := p.ended(result); err != nil {
				return err
			}
		}
	}
	return nil
}

// rewrite returns the write of a block whose last version may be lost; nil: there is none that can be written now.
func (p *asyncProgram) rewrite() *asyncStep {
	for i, again := range p.again {
		if again && p.busy[i] == 0 {
			return p.write(i, p.m[i][len(p.m[i])-1])
		}
	}
	return nil
}

// draw returns a command; nil: the one that was drawn cannot be in flight now.
func (p *asyncProgram) draw() *asyncStep {
	if p.r.IntN(12) == 0 {
		if p.flushing || slices.Contains(p.again, true) {
			return nil
		}
		s := &asyncStep{op: wire.Flush}
		for i, versions := range p.m {
			last := len(versions) - 1
			if p.busy[i] == wire.Write {
				last--
			}
			s.covered = append(s.covered, last)
		}
		return s
	}
	first := p.r.IntN(len(p.m))
	n := 1 + p.r.IntN(min(len(p.m)-first, 20))
	if slices.ContainsFunc(p.busy[first:first+n], func(op wire.Opcode) bool { return op != 0 }) {
		return nil
	}
	b := make([]byte, n*mediumBlock)
	if p.r.IntN(2) == 0 {
		return &asyncStep{op: wire.Read, first: first, b: b}
	}
	for i := range b {
		b[i] = byte(p.r.Uint32())
	}
	return p.write(first, b)
}

// write returns a write: its blocks may be there as soon as it is on its way.
func (p *asyncProgram) write(first int, b []byte) *asyncStep {
	for i := range len(b) / mediumBlock {
		p.m[first+i] = append(p.m[first+i], b[i*mediumBlock:][:mediumBlock])
	}
	return &asyncStep{op: wire.Write, first: first, b: b}
}

// begin begins a command.
func (p *asyncProgram) begin(s *asyncStep) error {
	p.last++
	p.inFlight[p.last] = s
	at := p.from + int64(s.first)*mediumBlock
	p.mark(s, s.op)
	switch s.op {
	case wire.Flush:
		p.flushing = true
		return p.a.Flush(p.last)
	case wire.Read:
		return p.a.Read(s.b, at, p.last)
	default:
		return p.a.Write(s.b, at, p.last)
	}
}

// mark says by which command the blocks of one are busy.
func (p *asyncProgram) mark(s *asyncStep, op wire.Opcode) {
	for i := range len(s.b) / mediumBlock {
		p.busy[s.first+i] = op
	}
}

// ended takes the result of a command.
func (p *asyncProgram) ended(result nvme.Result) error {
	s := p.inFlight[result.ID]
	if s == nil {
		return fmt.Errorf("command %d has ended, and was not in flight", result.ID)
	}
	delete(p.inFlight, result.ID)
	if errors.Is(result.Err, wire.WriteFault) || errors.Is(result.Err, wire.UnrecoveredReadError) {
		time.Sleep(time.Millisecond) // a disk whose power is gone may still say so
		return p.begin(s)
	}
	p.mark(s, 0)
	switch {
	case s.op == wire.Flush:
		return p.flushed(s, result.Err)
	case result.Err != nil:
		return result.Err
	case s.op == wire.Read:
		return p.check(s)
	}
	for i := range len(s.b) / mediumBlock {
		p.again[s.first+i] = false
	}
	return nil
}

// check checks blocks that were read.
func (p *asyncProgram) check(s *asyncStep) error {
	if err := p.m.check(s.first, s.b); err != nil || !p.steady {
		return err
	}
	for i := range len(s.b) / mediumBlock {
		versions := p.m[s.first+i]
		if !bytes.Equal(s.b[i*mediumBlock:][:mediumBlock], versions[len(versions)-1]) {
			return fmt.Errorf("block %d is not the one that was written last", s.first+i)
		}
	}
	return nil
}

// flushed takes the result of a flush.
func (p *asyncProgram) flushed(s *asyncStep, err error) error {
	p.flushing = false
	if err != nil && (p.steady || !errors.Is(err, nvme.ErrWriteCacheLost)) {
		return err
	}
	for i := range p.m {
		if err == nil {
			p.m[i] = p.m[i][s.covered[i]:]
		} else {
			p.again[i] = len(p.m[i]) > 1
		}
	}
	return nil
}
