// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// io carries out a command of an I/O queue (base 6).
func (r *request) io(c *controller) wire.Status {
	switch r.cmd.Opcode {
	case wire.Flush, wire.Write, wire.Read, wire.Compare, wire.WriteZeroes, wire.DatasetManagement:
	default:
		return wire.InvalidOpcode
	}
	ns := r.ns
	if ns == nil {
		if ns = c.sub.namespace(r.cmd.NSID); ns == nil {
			return wire.InvalidNamespace
		}
	}
	if s := c.reach(ns); s != wire.Success {
		return s
	}
	if changes(r.cmd.Opcode) {
		if s := r.settled(c); s != wire.Success {
			return s
		}
	}
	switch r.cmd.Opcode {
	case wire.Flush:
		return r.done(ns, ns.sync(), wire.WriteFault)
	case wire.DatasetManagement:
		return r.manage(ns)
	}
	slba, blocks := r.cmd.LBA()
	r.note.lba = slba
	switch {
	case r.cmd.CDW12&wire.ProtectionInfo != 0:
		return wire.InvalidField
	case slba >= ns.blocks || uint64(blocks) > ns.blocks-slba:
		return wire.LBAOutOfRange
	case !ns.Writable && (r.cmd.Opcode == wire.Write || r.cmd.Opcode == wire.WriteZeroes):
		return wire.NamespaceWriteProtected
	}
	off, n := int64(slba)<<ns.shift, int64(blocks)<<ns.shift
	if r.cmd.Opcode == wire.WriteZeroes {
		return r.durable(ns, ns.writeZeroes(r.q.ctx, off, n))
	}
	if n > MaxData {
		return wire.InvalidField
	}
	switch r.cmd.Opcode {
	case wire.Read:
		return r.read(c, ns, off, int(n))
	case wire.Write:
		return r.write(c, ns, off, int(n))
	}
	return r.compare(ns, off, int(n))
}

// ready reports whether the command can be carried out without waiting: a disk that is Immediate is read, or written
// with data of the capsule. It then holds the memory and the credit that the response needs.
func (r *request) ready() bool {
	q, c := r.q, r.q.ctrl.Load()
	if q.req.QID == 0 || c == nil || q.locked.Load() {
		return false
	}
	ns := c.sub.namespace(r.cmd.NSID)
	if ns == nil || !ns.Immediate || r.cmd.CDW12&wire.ForceUnitAccess != 0 {
		return false
	}
	_, blocks := r.cmd.LBA()
	n := int64(blocks) << ns.shift
	var image *verbs.MR
	switch {
	case r.cmd.Opcode == wire.Read && n <= MaxData:
		if image = q.region(ns); image != nil {
			n = 0
		}
	case r.cmd.Opcode == wire.Write && r.cmd.SGL.Type() == wire.SGLInCapsule && c.lostBusy() == nil:
		n = 0
	default:
		return false
	}
	select {
	case q.credits <- struct{}{}:
	default:
		return false
	}
	if n > 0 {
		var ok bool
		if r.buf, ok = q.arena.tryGet(int(n)); !ok {
			<-q.credits
			return false
		}
	}
	r.ns, r.image = ns, image // a command that waits looks again: the namespace may be gone by then
	return true
}

// changes reports whether an I/O command changes data.
func changes(op wire.Opcode) bool {
	return op == wire.Write || op == wire.WriteZeroes || op == wire.DatasetManagement
}

func (r *request) read(c *controller, ns *namespace, off int64, n int) wire.Status {
	mr := r.image
	if mr == nil {
		mr = r.q.region(ns)
	}
	if mr != nil {
		if s := r.takes(n); s != wire.Success {
			return s
		}
		r.push = mr.SGE(int(off), n)
		c.count(false, n)
		return wire.Success
	}
	b, s := r.room(n)
	if s != wire.Success {
		return s
	}
	if s := r.fetch(ns, b, off); s != wire.Success {
		return s
	}
	c.count(false, n)
	return wire.Success
}

// fetch reads from the disk. The data that it reads is on the medium before, if the host says so.
func (r *request) fetch(ns *namespace, b []byte, off int64) wire.Status {
	if r.cmd.CDW12&wire.ForceUnitAccess != 0 {
		if s := r.done(ns, ns.sync(), wire.WriteFault); s != wire.Success {
			return s
		}
	}
	return r.done(ns, ns.readAt(b, off), wire.UnrecoveredReadError)
}

func (r *request) write(c *controller, ns *namespace, off int64, n int) wire.Status {
	b, s := r.pull(n, 0)
	if s != wire.Success {
		return s
	}
	_, err := ns.w.WriteAt(b, off)
	if s := r.durable(ns, err); s != wire.Success {
		return s
	}
	c.count(true, n)
	return wire.Success
}

// durable returns the status of something that was written, and is to be on the medium if the host says so.
func (r *request) durable(ns *namespace, err error) wire.Status {
	if err == nil && r.cmd.CDW12&wire.ForceUnitAccess != 0 {
		err = ns.sync()
	}
	return r.done(ns, err, wire.WriteFault)
}

func (r *request) compare(ns *namespace, off int64, n int) wire.Status {
	want, s := r.pull(n, n)
	if s != wire.Success {
		return s
	}
	all := r.bytes()
	got := all[len(all)-n:] // behind the data that was pulled, if there is some
	if s := r.fetch(ns, got, off); s != wire.Success {
		return s
	}
	if !bytes.Equal(got, want) {
		return wire.CompareFailure
	}
	return wire.Success
}

// manage carries out Dataset Management (base 6.7).
func (r *request) manage(ns *namespace) wire.Status {
	n := int(r.cmd.CDW10&0xff) + 1
	length := r.length() // Linux describes memory for as many ranges as there may be
	if length < n*wire.RangeSize || length > wire.MaxRanges*wire.RangeSize {
		return wire.SGLLengthInvalid
	}
	b, s := r.pull(length, 0)
	if s != wire.Success {
		return s
	}
	ranges := make([]wire.Range, n)
	for i := range ranges {
		ranges[i].Decode(b[i*wire.RangeSize:])
		if g := &ranges[i]; g.Start > ns.blocks || uint64(g.Blocks) > ns.blocks-g.Start {
			r.note.lba = g.Start
			return wire.LBAOutOfRange
		}
	}
	switch {
	case r.cmd.CDW11&wire.DeallocateRanges == 0: // hints that have no use here
		return wire.Success
	case !ns.Writable:
		return wire.NamespaceWriteProtected
	case ns.dealloc == nil: // a hint as well
		return wire.Success
	}
	for _, g := range ranges {
		if g.Blocks == 0 {
			continue
		}
		if r.q.ctx.Err() != nil {
			return errEnded
		}
		if s := r.done(ns, ns.dealloc.Deallocate(int64(g.Start)<<ns.shift, int64(g.Blocks)<<ns.shift),
			wire.WriteFault); s != wire.Success {
			return s
		}
	}
	return wire.Success
}

// done returns the status of a disk's operation; otherwise is the status of errors that name none.
func (r *request) done(ns *namespace, err error, otherwise wire.Status) wire.Status {
	switch {
	case err == nil:
		return wire.Success
	case r.q.ctx.Err() != nil && errors.Is(err, context.Canceled):
		return errEnded
	}
	r.q.t.log.Error("a disk has failed", "subsystem", r.q.ctrl.Load().sub.opt.NQN, "namespace", ns.ID, "peer", r.q.peer,
		"opcode", r.cmd.Opcode, "block", r.note.lba, "error", err)
	switch {
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return wire.CapacityExceeded
	case errors.Is(err, syscall.EROFS):
		return wire.NamespaceWriteProtected
	case errors.Is(err, fs.ErrPermission):
		return wire.AccessDenied
	}
	return otherwise
}
