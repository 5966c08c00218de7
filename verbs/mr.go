// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"encoding/binary"
	"runtime"
	"time"
)

// MR is a memory region (IBTA 10.6).
type MR struct {
	object
	pd  *PD
	drv mrDriver
}

// Addr returns the address that stands for the region's first byte in SGEs and at peers:
// the memory's own, or 0 for a zero-based region.
func (mr *MR) Addr() uint64 { return mr.drv.Addr() }

// LKey returns the key for SGEs.
func (mr *MR) LKey() Key { return mr.drv.LKey() }

// RKey returns the key that peers need.
func (mr *MR) RKey() Key { return mr.drv.RKey() }

// Bytes returns the memory itself.
func (mr *MR) Bytes() []byte { return mr.drv.Bytes() }

// Len returns the length in bytes.
func (mr *MR) Len() int { return len(mr.drv.Bytes()) }

// SGE returns the n bytes from off on. It does not check the bounds: the work request does.
func (mr *MR) SGE(off, n int) SGE {
	return SGE{Addr: mr.drv.Addr() + uint64(off), Length: uint32(n), LKey: mr.drv.LKey()}
}

// Remote returns the address and rkey that a peer needs for one-sided operations on the region.
func (mr *MR) Remote() Remote { return Remote{Addr: mr.drv.Addr(), Key: mr.drv.RKey()} }

// ReregFlags select the properties of a region that Rereg changes.
type ReregFlags uint8

const (
	ReregTranslation ReregFlags = 1 << iota // the memory
	ReregPD                                 // the protection domain
	ReregAccess                             // the access flags
)

// Rereg changes the memory, protection domain or access of the region, as flags say (IBTA
// 11.2.8.5). Keys change when the memory does. The region must not be used during the call.
func (mr *MR) Rereg(flags ReregFlags, pd *PD, buf []byte, access Access) error {
	if mr.pd.dev.calls == nil {
		return mr.rereg(flags, pd, buf, access)
	}
	end := mr.pd.dev.calls.Begin("ibv_rereg_mr", callArg{"mr", mr}, callArg{"flags", flags}, callArg{"pd", pd},
		callArg{"addr", address(buf)},
		callArg{"length", len(buf)}, callArg{"access", access})
	err := mr.rereg(flags, pd, buf, access)
	end(nil, err)
	return err
}

func (mr *MR) rereg(flags ReregFlags, pd *PD, buf []byte, access Access) error {
	const op = "rereg_mr"
	if flags == 0 || flags > ReregTranslation|ReregPD|ReregAccess {
		return opErr(op, ErrInvalid, "flags name nothing to change")
	}
	if flags&ReregAccess != 0 {
		if err := checkAccess(op, access); err != nil {
			return err
		}
	}
	if flags&ReregPD == 0 {
		mr.mu.Lock()
		same := mr.pd.drv
		mr.mu.Unlock()
		return wrap(op, same.ReregMR(mr.drv, flags, buf, access))
	}
	if pd == nil || pd.dev != mr.pd.dev {
		return opErr(op, ErrInvalid, "the new protection domain is not of this device")
	}
	mr.mu.Lock()
	defer mr.mu.Unlock()
	if mr.closed {
		return opErr(op, ErrClosed, "")
	}
	old := mr.deps
	mr.deps = nil
	if err := mr.use(op, &pd.object); err != nil {
		mr.deps = old
		return err
	}
	if err := pd.drv.ReregMR(mr.drv, flags, buf, access); err != nil {
		mr.unuse()
		mr.deps = old
		return wrap(op, err)
	}
	release(old)
	mr.pd = pd
	return nil
}

// Do runs f while the device touches no memory of the region: the reads and writes of f are ordered
// with respect to all remote accesses. f must be short and must not call into the device, nor into another
// one. A device without [CapExclude], such as hardware, does not stop.
func (mr *MR) Do(f func(b []byte)) {
	if d, ok := mr.drv.(watcher); ok {
		d.Do(f)
		return
	}
	f(mr.drv.Bytes())
}

// WaitFor waits until cond is true of the region's bytes. It is the way to learn that a one-sided
// WRITE or atomic has arrived. cond runs as in [MR.Do].
//
// The guarantee: all WRITEs that the peer posted before the one whose bytes cond saw, on the same queue
// pair, are visible when WaitFor returns. The bytes of one WRITE appear in no particular order,
// except that a WRITE of at most 8 bytes that does not cross an 8-byte boundary appears as a whole.
// A program that wants to learn of a long WRITE sends a short one after it, or writes with
// immediate. Devices in software keep this. The specification promises it only after immediate
// data, a SEND or an atomic (IBTA 9.5, o9-20); NICs keep it between WRITEs unless the region has
// [RelaxedOrdering].
//
// WaitFor polls the device for a while and then sleeps. On a device without [CapWatch] it polls the
// memory, at growing intervals. It returns ErrClosed if the region is deregistered.
func (mr *MR) WaitFor(ctx context.Context, cond func(b []byte) bool) error {
	return mr.waitAt(ctx, 0, mr.Len(), cond)
}

// wait is WaitFor for a condition that is checked already.
func (mr *MR) wait(ctx context.Context, cond func(b []byte) bool) error {
	if w, ok := mr.drv.(watcher); ok {
		return w.WaitFor(ctx, cond)
	}
	return mr.pollFor(ctx, cond)
}

// Intervals between polls of memory, on devices without CapWatch.
const (
	pollFirst = 10 * time.Microsecond
	pollLast  = time.Millisecond
)

// pollFor polls the memory until cond is true: without a pause for [DefaultSpin], then with growing
// pauses.
func (mr *MR) pollFor(ctx context.Context, cond func(b []byte) bool) (err error) {
	spin, pause := time.Now().Add(DefaultSpin), pollFirst
	for {
		done := false
		mr.Do(func(b []byte) {
			if b == nil {
				err = ErrClosed
				return
			}
			done = cond(b)
		})
		if done || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Now().Before(spin) {
			runtime.Gosched()
			continue
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, pollLast)
	}
}

// WaitByte waits until the byte at off differs from old and returns it.
func (mr *MR) WaitByte(ctx context.Context, off int, old byte) (v byte, err error) {
	err = mr.waitAt(ctx, off, 1, func(b []byte) bool {
		v = b[off]
		return v != old
	})
	return v, err
}

// WaitUint64 waits until the 8 bytes at off, in the host's byte order, differ from old
// and returns them.
func (mr *MR) WaitUint64(ctx context.Context, off int, old uint64) (v uint64, err error) {
	err = mr.waitAt(ctx, off, 8, func(b []byte) bool {
		v = binary.NativeEndian.Uint64(b[off:])
		return v != old
	})
	return v, err
}

// waitAt is WaitFor with a condition that looks at n bytes at off.
func (mr *MR) waitAt(ctx context.Context, off, n int, cond func(b []byte) bool) error {
	c := mr.pd.dev.checks
	if c == nil {
		return mr.wait(ctx, cond)
	}
	cond, seen := c.Look(mr, off, n, cond)
	err := mr.wait(ctx, cond)
	if err == nil {
		seen()
	}
	return err
}

// Close deregisters the region. After it returns the device touches no byte of it. Work requests that still name the
// region complete with [StatusLocalProtectionError], work requests of peers with [StatusRemoteAccessError]. Close
// returns [ErrBusy] while a memory window is bound to it.
func (mr *MR) Close() error {
	return mr.pd.dev.logClose("ibv_dereg_mr", "mr", mr, func() error {
		return mr.close("dereg_mr", func() error { return wrap("dereg_mr", mr.drv.Dereg()) })
	})
}
