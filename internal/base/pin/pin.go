// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// process counts the pins of this process.
var process struct {
	mu   sync.Mutex
	pins ranges
}

// background is held while a chunk is pinned in the background.
var background sync.Mutex

// Held returns how many bytes of this process regions pin, each page counted once.
func Held() int {
	process.mu.Lock()
	defer process.mu.Unlock()
	return int(process.pins.bytes)
}

// Pages is the memory of a region that is pinned, or is being pinned.
type Pages struct {
	mem      []byte // keeps it alive
	from, to uintptr
	stop     atomic.Bool
	done     chan struct{} // closed when nothing is pinned any more; nil: nothing is to be waited for
	err      error         // why not all is pinned; read after done
	whole    bool          // all is pinned, unless err says otherwise
}

// pages returns the range of whole pages that b is in.
func pages(b []byte) (from, to uintptr) {
	if len(b) == 0 {
		return 0, 0
	}
	page := uintptr(os.Getpagesize())
	from = uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	to = (from + uintptr(len(b)) + page - 1) &^ (page - 1)
	return from &^ (page - 1), to
}

// Now pins b before it returns.
func Now(b []byte) (*Pages, error) {
	p, err := reserve(b)
	if err == nil {
		err = p.fill(p.from, p.to)
	}
	return p.orUnpin(err)
}

// OnUse pins each page of b when it is used for the first time.
func OnUse(b []byte) (*Pages, error) {
	if err := canWait(); err != nil {
		return nil, err
	}
	p, err := reserve(b)
	if p != nil {
		p.whole = false
	}
	return p.orUnpin(err)
}

// InBackground pins the first chunk bytes of b before it returns, and the rest afterwards.
func InBackground(b []byte, chunk int) (*Pages, error) {
	p, err := reserve(b)
	if err != nil {
		return p.orUnpin(err)
	}
	page := uintptr(os.Getpagesize())
	step := (max(uintptr(chunk), 1) + page - 1) &^ (page - 1)
	next := p.to
	if step > 0 && step < p.to-p.from { // 0: the chunk is almost the whole address space
		next = p.from + step
	}
	if err := p.fill(p.from, next); err != nil || next == p.to {
		return p.orUnpin(err)
	}
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		for at := next; at < p.to && p.err == nil; {
			end := p.to
			if step < end-at {
				end = at + step
			}
			background.Lock()
			if p.stop.Load() {
				background.Unlock()
				p.err = verbs.ErrClosed
				return
			}
			p.err = p.fill(at, end)
			background.Unlock()
			at = end
		}
	}()
	return p, nil
}

// orUnpin returns p, or the error after unpinning.
func (p *Pages) orUnpin(err error) (*Pages, error) {
	if err == nil {
		return p, nil
	}
	if p != nil {
		p.Unpin()
	}
	return nil, err
}

// reserve counts the pages of b, and has the system count them.
func reserve(b []byte) (*Pages, error) {
	p := &Pages{mem: b, whole: true}
	if p.from, p.to = pages(b); p.from == p.to {
		return p, nil
	}
	process.mu.Lock()
	defer process.mu.Unlock()
	held := process.pins.bytes
	process.pins.add(p.from, p.to)
	if err := lockOnFault(p.from, p.to); err != nil {
		process.pins.remove(p.from, p.to, unlock)
		return nil, refused(err, p.from, p.to, held)
	}
	return p, nil
}

// fill pins a part of the pages. They are counted already, so no other call unpins them meanwhile.
func (p *Pages) fill(from, to uintptr) error {
	if from == to {
		return nil
	}
	err := lock(from, to)
	if err == nil {
		return nil
	}
	held := uintptr(Held())
	return refused(err, from, to, held-min(held, p.to-p.from))
}

// Wait waits until all pages are pinned.
func (p *Pages) Wait(ctx context.Context) error {
	if !p.whole {
		return &verbs.OpError{Op: "reg_mr", Err: verbs.ErrInvalid,
			Detail: "pages of this region are pinned when they are used"}
	}
	if p.done == nil {
		return nil
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unpin ends the pinning, and unpins each page that no other region pins. A second call does nothing.
func (p *Pages) Unpin() {
	p.stop.Store(true)
	if p.done != nil {
		<-p.done
	}
	process.mu.Lock()
	defer process.mu.Unlock()
	process.pins.remove(p.from, p.to, unlock)
	p.from, p.to, p.mem = 0, 0, nil
}

// limited is the error for more memory than the process may pin.
func limited(n, held, limit uint64) error {
	return &verbs.OpError{Op: "reg_mr", Err: verbs.ErrPinLimit, Detail: fmt.Sprintf(
		"pinning %d bytes: RLIMIT_MEMLOCK is %d bytes, of which %d are in use. Raise it with ulimit -l in the shell, memlock in "+
			"/etc/security/limits.d/ or LimitMEMLOCK= of a systemd unit, or give the program CAP_IPC_LOCK", n, limit,
		held)}
}
