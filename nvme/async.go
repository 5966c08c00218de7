// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// ErrAsyncFull is the error of a command that an [Async] has no room for: take results by Wait.
var ErrAsyncFull = errors.New("nvme: as many commands are in flight as there may be")

// Async has many commands of a disk in flight without a goroutine for each, as io_submit and io_getevents do for files.
// One goroutine uses it: it begins commands by Read, Write and Flush, and takes the results of commands that have ended
// by Wait, in no order. The next Wait sends the commands that were begun, together, which is faster than one by one.
// Commands are repeated after a lost connection as a [Disk] repeats them.
type Async struct {
	d      *Disk
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wake   chan struct{} // one element: see done and ended

	commands []asyncCommand
	unused   []int // of commands
	begun    []int // that are to be sent, in order
	q        *hostQueue
	sent     int  // commands that are in flight on q
	leave    bool // begin no more on q, whose controller does not reach the disk now

	repeated sync.WaitGroup // commands that are carried out by goroutines

	mu    sync.Mutex
	done  []asyncResponse
	ended []asyncEnd // of commands that are not on q

	taken []asyncResponse // by takeResults
}

// asyncResponse is a response on a queue.
type asyncResponse struct {
	q    *hostQueue
	done wire.Completion
}

// asyncEnd is how a command has ended, by its index.
type asyncEnd struct {
	i      int
	before uint64 // of a write: how many associations there had been
	err    error
}

// asyncCommand is a command that was begun.
type asyncCommand struct {
	id      uint64
	op      wire.Opcode
	off     int64
	b       []byte
	slot    int    // of q
	before  uint64 // associations when it was sent
	onQueue bool   // it was sent on q, and has no result yet
}

// Result is a command that has ended.
type Result struct {
	ID  uint64 // that of Read, Write or Flush
	Err error  // nil: it was carried out
}

// NewAsync returns an Async that has at most depth commands in flight. It has them on one queue of the controller, and
// no more than that queue takes.
func (d *Disk) NewAsync(depth int) (*Async, error) {
	if depth < 1 || depth > 1<<16 {
		return nil, fmt.Errorf("nvme: %d commands in flight: take from 1 to 65536", depth)
	}
	a := &Async{d: d, wake: make(chan struct{}, 1), commands: make([]asyncCommand, depth)}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	for i := range depth {
		a.unused = append(a.unused, i)
	}
	return a, nil
}

// Read begins to read whole blocks into b, which is not to be used before Wait has returned the ID. If it returns an
// error, nothing has begun.
func (a *Async) Read(b []byte, off int64, id uint64) error { return a.begin(wire.Read, b, off, id) }

// Write begins to write whole blocks of b, which is not to be changed before Wait has returned the ID. If it returns an
// error, nothing has begun.
func (a *Async) Write(b []byte, off int64, id uint64) error { return a.begin(wire.Write, b, off, id) }

// Flush begins a [Disk.Flush]: it is about writes whose results Wait has returned before.
func (a *Async) Flush(id uint64) error { return a.begin(wire.Flush, nil, 0, id) }

var asyncNames = map[wire.Opcode]string{wire.Read: "read", wire.Write: "write", wire.Flush: "flush"}

func (a *Async) begin(op wire.Opcode, b []byte, off int64, id uint64) error {
	if a.ctx.Err() != nil {
		return fmt.Errorf("nvme: %s: the Async is closed", asyncNames[op])
	}
	if err := a.d.aligned(asyncNames[op], off, int64(len(b))); err != nil {
		return err
	}
	k := len(a.unused)
	if k == 0 {
		return ErrAsyncFull
	}
	i := a.unused[k-1]
	a.unused = a.unused[:k-1]
	a.commands[i] = asyncCommand{id: id, op: op, off: off, b: b}
	if op == wire.Flush || len(b) == 0 || len(b) > a.d.maxData { // none, or several commands
		a.repeat(i, nil)
		return nil
	}
	a.begun = append(a.begun, i)
	return nil
}

// Wait sends the commands that were begun, waits until one has ended, and returns the results of up to len(results). It
// returns 0 at once if nothing is in flight, and after Close. The error is that of ctx: commands are in flight still,
// and another Wait returns them.
func (a *Async) Wait(ctx context.Context, results []Result) (int, error) {
	for len(results) > 0 && a.ctx.Err() == nil {
		if err := a.send(ctx); err != nil {
			return 0, err
		}
		if n := a.takeResults(results); n > 0 {
			return n, nil
		}
		var err error
		switch {
		case len(a.unused) == len(a.commands):
			return 0, nil
		case a.sent > 0:
			q := a.q
			if !q.enter() {
				continue // and the commands are repeated
			}
			_, err = until(ctx, q, a.wake, false)
			q.users.Done()
			if err != nil && q.a.ctx.Err() != nil {
				continue
			}
		default:
			select {
			case <-a.wake:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if err != nil {
			return 0, fmt.Errorf("nvme: waiting for commands: %w", err)
		}
	}
	return 0, nil
}

// Close gives up the commands that are in flight. Their memory is not touched afterwards; their data may still be
// written.
func (a *Async) Close() error {
	a.cancel()
	a.repeated.Wait()
	for i := range a.commands {
		if c := &a.commands[i]; c.onQueue {
			a.give(c)
		}
	}
	a.sent, a.begun, a.unused = 0, nil, nil
	return nil
}

// give gives up the slot of a command.
func (a *Async) give(c *asyncCommand) {
	if a.q.enter() {
		a.giveSlot(c)
		a.q.users.Done()
		return
	}
	c.onQueue = false
	a.sent--
}

// giveSlot is give on a queue that one has entered.
func (a *Async) giveSlot(c *asyncCommand) {
	c.onQueue = false
	a.sent--
	a.q.slots[c.slot].async.Store(nil)
	a.q.release(c.slot)
}

// send sends the commands that were begun, as far as the queue takes them. The error is that of ctx.
func (a *Async) send(ctx context.Context) error {
	if a.sent > 0 && a.q.a.ctx.Err() != nil {
		a.lost()
	}
	if len(a.begun) == 0 || a.leave && a.sent > 0 {
		return nil
	}
	if a.sent > 0 {
		a.sendOn(ctx, a.q, false) // an error is the end of the association
		return nil
	}
	a.leave = false
	_, err := a.d.retry(ctx, "begin commands", false, func(as *association) error {
		a.q = as.io[int(as.next.Add(1))%len(as.io)]
		return a.sendOn(ctx, a.q, true)
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	for _, i := range a.begun {
		a.end(i, 0, err)
	}
	a.begun = a.begun[:0]
	return nil
}

// sendOn sends the commands that were begun on a queue; wait: it waits for a slot for the first command.
func (a *Async) sendOn(ctx context.Context, q *hostQueue, wait bool) error {
	if err := a.d.ns.usable(); err != nil {
		return err
	}
	if !q.enter() {
		return q.ended("begin commands", false)
	}
	defer q.users.Done()
	count, due := 0, q.due(q.a.c.opt.Timeout)
	for _, i := range a.begun {
		slot, capsule, ok := q.tryGet()
		if !ok {
			if count > 0 || !wait {
				break
			}
			var err error
			if slot, err = until(ctx, q, q.unused, true); err != nil {
				return q.notWaited(ctx, "begin commands", false)
			}
			if capsule, err = until(ctx, q, q.spare, false); err != nil {
				q.unused <- slot
				return q.notWaited(ctx, "begin commands", false)
			}
			due = q.due(q.a.c.opt.Timeout)
		}
		if err := a.sendCommand(q, i, slot, capsule, due); err != nil {
			q.spare <- capsule
			q.unused <- slot
			a.end(i, 0, err)
		}
		count++
	}
	a.begun = a.begun[:copy(a.begun, a.begun[count:])]
	q.posting.Lock()
	defer q.posting.Unlock()
	if q.delayed {
		return nil
	}
	if err := q.flush(); err != nil {
		q.fail(err) // and the commands are repeated
	}
	return nil
}

// sendCommand hands a command to the queue.
func (a *Async) sendCommand(q *hostQueue, i, slot, capsule int, due time.Duration) error {
	c := &a.commands[i]
	cmd := wire.Command{Opcode: c.op, NSID: a.d.id}
	cmd.SetLBA(uint64(c.off)/uint64(a.d.block), uint32(len(c.b)/a.d.block))
	var out, in []byte
	if c.op == wire.Write {
		out = c.b
	} else {
		in = c.b
	}
	n, err := q.prepare(slot, capsule, &cmd, out, in)
	if err != nil {
		return fmt.Errorf("nvme: %s: %w", asyncNames[c.op], err)
	}
	c.slot, c.onQueue, c.before = slot, true, a.d.born.Load()
	a.sent++
	q.slots[slot].index = i
	q.slots[slot].begin(due, a)
	return q.send(capsule, n, true)
}

// tryGet takes a slot and a capsule.
func (q *hostQueue) tryGet() (slot, capsule int, ok bool) {
	select {
	case slot = <-q.unused:
	default:
		return 0, 0, false
	}
	select {
	case capsule = <-q.spare:
		return slot, capsule, true
	default:
		q.unused <- slot
		return 0, 0, false
	}
}

// responded takes note of a response, in whichever goroutine takes completions.
func (a *Async) responded(q *hostQueue, done wire.Completion) {
	a.mu.Lock()
	a.done = append(a.done, asyncResponse{q, done})
	a.mu.Unlock()
	a.signal()
}

func (a *Async) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// end makes the result of a command, which is not on the queue.
func (a *Async) end(i int, before uint64, err error) {
	a.mu.Lock()
	a.ended = append(a.ended, asyncEnd{i, before, err})
	a.mu.Unlock()
	a.signal()
}

// takeResults moves the results of commands that have ended into results, and returns how many.
func (a *Async) takeResults(results []Result) (n int) {
	a.mu.Lock()
	for n < min(len(a.ended), len(results)) {
		e := &a.ended[n]
		c := &a.commands[e.i]
		if c.op == wire.Write && e.err == nil {
			a.d.noteWrite(e.before)
		}
		results[n] = Result{c.id, e.err}
		a.unused = append(a.unused, e.i)
		n++
	}
	a.ended = slices.Delete(a.ended, 0, n)
	a.mu.Unlock()
	for n < len(results) && a.take(len(results)-n) {
		n += a.finishTaken(results[n:])
	}
	return n
}

// take takes up to n responses; false: there are none.
func (a *Async) take(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := min(len(a.done), n)
	a.taken = append(a.taken[:0], a.done[:k]...)
	a.done = slices.Delete(a.done, 0, k)
	return k > 0
}

// finishTaken returns the results of the responses that were taken.
func (a *Async) finishTaken(results []Result) (n int) {
	if a.q == nil || !a.q.enter() {
		return 0 // the commands are repeated
	}
	defer a.q.users.Done()
	for i := range a.taken {
		if r, ok := a.finish(&a.taken[i]); ok {
			results[n] = r
			n++
		}
	}
	return n
}

// finish ends a command that has a response; false: it is repeated, or was before.
func (a *Async) finish(r *asyncResponse) (Result, bool) {
	if r.q != a.q {
		return Result{}, false
	}
	done, s := &r.done, &a.q.slots[r.done.CID]
	i := s.index
	c := &a.commands[i]
	var err error
	switch {
	case done.Status != wire.Success:
		err = &CommandError{Op: asyncNames[c.op], Status: done.Status, Retry: !done.DNR}
	case c.op == wire.Read:
		copy(c.b, s.data.Bytes())
	case c.op == wire.Write:
		a.d.noteWrite(c.before)
	}
	a.giveSlot(c)
	if pathRelated(err) {
		a.leave = true
		a.repeat(i, nil)
		return Result{}, false
	}
	a.unused = append(a.unused, i)
	return Result{c.id, err}, true
}

// lost has the commands on a queue whose association has ended repeated.
func (a *Async) lost() {
	for i := range a.commands {
		c := &a.commands[i]
		if !c.onQueue {
			continue
		}
		a.give(c)
		a.repeat(i, a.q.ended(asyncNames[c.op], true))
	}
	a.q = nil // later completions are not taken
}

// repeat carries out a command by a goroutine, as [Disk] does; lost: how it was lost, nil: it was not.
func (a *Async) repeat(i int, lost error) {
	a.repeated.Go(func() {
		c := &a.commands[i]
		var before uint64
		var err error
		switch c.op {
		case wire.Flush:
			err = a.d.Flush(a.ctx)
		case wire.Read:
			_, err = a.d.Read(a.ctx, c.b, c.off)
		case wire.Write:
			if lost == nil {
				before, err = a.d.writeUnnoted(a.ctx, "write", wire.Write, c.b, c.off, 0)
			} else {
				before, err = a.d.writeAgain(a.ctx, c.b, c.off, lost)
			}
		}
		a.end(i, before, err)
	})
}
