// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/nvme/dhchap"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Disk is a namespace of a controller, as its host sees it: an io.ReaderAt and io.WriterAt, with contexts as well.
// Calls from several goroutines are in flight together, in no order. Parts of a program that write and flush for
// themselves open a Disk each: [Disk.Flush] is about the writes of this one.
type Disk struct {
	ns       *openNamespace
	maxData  int            // of a command in bytes
	depth    int            // commands of a call in flight
	born     *atomic.Uint64 // associations so far
	retry    retrier
	id       uint32
	size     int64
	block    int
	readOnly bool
	cached   bool // writes are in a cache until they are flushed

	unflushed unflushed
}

// retrier carries out a command by f, perhaps on several associations, and returns the generation of the last one: see
// [Controller.retry].
type retrier func(ctx context.Context, op string, changes bool, f func(*association) error) (uint64, error)

// Namespaces returns the numbers of the namespaces.
func (c *Controller) Namespaces(ctx context.Context) (ids []uint32, err error) {
	for last := uint32(0); ; {
		b, err := c.identify(ctx, "list namespaces", wire.IdentifyActive, last)
		if err != nil {
			return nil, err
		}
		list := wire.DecodeActive(b)
		for _, id := range list {
			if id <= last {
				return nil, fmt.Errorf("nvme: the controller lists namespace %d after %d", id, last)
			}
			last = id
		}
		if ids = append(ids, list...); len(list) < wire.IdentifySize/4 || len(ids) >= 1<<20 {
			return ids, nil
		}
	}
}

// Open returns a namespace, with the size that it has now.
func (c *Controller) Open(ctx context.Context, id uint32) (*Disk, error) {
	b, err := c.identify(ctx, "identify namespace", wire.IdentifyNamespace, id)
	if err != nil {
		return nil, err
	}
	return c.disk(id, b)
}

// disk makes a Disk of the controller's description of a namespace.
func (c *Controller) disk(id uint32, b []byte) (*Disk, error) {
	var n wire.Namespace
	switch {
	case allZero(b):
		return nil, fmt.Errorf("nvme: %s has no namespace %d: %w", c.nqn, id, wire.InvalidNamespace)
	case !n.Decode(b) || n.Blocks == 0:
		return nil, fmt.Errorf("nvme: namespace %d has no format that can be read", id)
	case n.Metadata != 0:
		return nil, fmt.Errorf("nvme: namespace %d has %d bytes of metadata in each block, which Ramjet does not read",
			id, n.Metadata)
	case int64(n.BlockSize) > int64(c.maxData):
		return nil, fmt.Errorf("nvme: namespace %d has blocks of %d bytes, and a command has at most %d", id,
			n.BlockSize, c.maxData)
	}
	return &Disk{ns: c.opened.remember(id, &n), maxData: c.maxData, depth: c.opt.QueueDepth, born: c.born,
		retry: c.retry, id: id, size: int64(n.Blocks) * int64(n.BlockSize), block: int(n.BlockSize),
		readOnly: n.ReadOnly, cached: c.Identity().WriteCache}, nil
}

func allZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// ID returns the namespace's number.
func (d *Disk) ID() uint32 { return d.id }

// Size returns the size in bytes.
func (d *Disk) Size() int64 { return d.size }

// BlockSize returns the size of a block in bytes.
func (d *Disk) BlockSize() int { return d.block }

// ReadOnly reports whether writes are refused.
func (d *Disk) ReadOnly() bool { return d.readOnly }

// ReadAt is Read without a context.
func (d *Disk) ReadAt(b []byte, off int64) (int, error) { return d.Read(context.Background(), b, off) }

// WriteAt is Write without a context.
func (d *Disk) WriteAt(b []byte, off int64) (int, error) {
	return d.Write(context.Background(), b, off)
}

// Read reads bytes, at any offset. At the end of the disk the error is io.EOF.
func (d *Disk) Read(ctx context.Context, b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("nvme: read at %d", off)
	}
	if off >= d.size {
		return 0, io.EOF
	}
	want := b[:min(int64(len(b)), d.size-off)]
	err := d.split(len(want), off, func(i, n int) error {
		at := off + int64(i)
		first, to := at&^int64(d.block-1), want[i:i+n]
		if skip := int(at - first); skip > 0 || n%d.block != 0 {
			whole := make([]byte, (skip+n+d.block-1)&^(d.block-1))
			_, err := d.data(ctx, "read", wire.Read, first, nil, whole, 0)
			copy(to, whole[skip:])
			return err
		}
		_, err := d.data(ctx, "read", wire.Read, first, nil, to, 0)
		return err
	})
	if err != nil {
		return 0, err
	}
	if len(want) < len(b) {
		return len(want), io.EOF
	}
	return len(want), nil
}

// Write writes whole blocks. They are on the medium after a Flush. If it fails, any of them may have been written.
func (d *Disk) Write(ctx context.Context, b []byte, off int64) (int, error) {
	return d.write(ctx, "write", wire.Write, b, off, 0)
}

// WriteThrough writes whole blocks, which are on the medium when it returns.
func (d *Disk) WriteThrough(ctx context.Context, b []byte, off int64) (int, error) {
	return d.write(ctx, "write", wire.Write, b, off, wire.ForceUnitAccess)
}

// Compare compares whole blocks. If they differ, the error is a CommandError with wire.CompareFailure.
func (d *Disk) Compare(ctx context.Context, b []byte, off int64) error {
	_, err := d.write(ctx, "compare", wire.Compare, b, off, 0)
	return err
}

func (d *Disk) write(ctx context.Context, name string, op wire.Opcode, b []byte, off int64, flags uint32) (int, error) {
	before, err := d.writeUnnoted(ctx, name, op, b, off, flags)
	if err != nil {
		return 0, err
	}
	if changes(op) && flags&wire.ForceUnitAccess == 0 {
		d.noteWrite(before)
	}
	return len(b), nil
}

// writeUnnoted writes without a note that a flush is to cover the write: see noteWrite.
func (d *Disk) writeUnnoted(ctx context.Context, name string, op wire.Opcode, b []byte, off int64,
	flags uint32) (before uint64, err error) {
	if err := d.aligned(name, off, int64(len(b))); err != nil {
		return 0, err
	}
	var mu sync.Mutex
	before = math.MaxUint64
	err = d.split(len(b), off, func(i, n int) error {
		k, err := d.data(ctx, name, op, off+int64(i), b[i:i+n], nil, flags)
		mu.Lock()
		before = min(before, k)
		mu.Unlock()
		return err
	})
	return before, err
}

// noteWrite takes note of a write that the program hears of now, however many commands it took; before: how many
// associations there had been before the first of them. A Flush until now was not about it: if one has said that the
// cache may be lost, another one has to say so.
func (d *Disk) noteWrite(before uint64) {
	if d.cached {
		d.unflushed.wrote(before)
	}
}

// aligned checks that a range is whole blocks within the disk.
func (d *Disk) aligned(name string, off, n int64) error {
	switch mask := int64(d.block - 1); {
	case off < 0 || n < 0 || off&mask != 0 || n&mask != 0:
		return fmt.Errorf("nvme: %s: %d bytes at %d: blocks have %d, and only whole ones can be written", name, n, off,
			d.block)
	case off > d.size || n > d.size-off:
		return fmt.Errorf("nvme: %s: %d bytes at %d: the disk has %d", name, n, off, d.size)
	}
	return nil
}

// split calls f for each part of n bytes from off on that a command can carry. The parts are in flight together.
func (d *Disk) split(n int, off int64, f func(i, n int) error) error {
	// A part ends at a block boundary, so that the first one of an unaligned read is shorter.
	part := func(i int) int { return min(n-i, d.maxData&^(d.block-1)-int((off+int64(i))&int64(d.block-1))) }
	if n == 0 {
		return nil
	}
	if part(0) == n {
		return f(0, n)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var first error
	inFlight := make(chan struct{}, d.depth)
	for i := 0; i < n; {
		k, at := part(i), i
		inFlight <- struct{}{}
		all.Go(func() {
			if err := f(at, k); err != nil {
				mu.Lock()
				if first == nil {
					first = err
				}
				mu.Unlock()
			}
			<-inFlight
		})
		i += k
	}
	all.Wait()
	return first
}

// data carries out a command with data of whole blocks. It returns how many associations there had been before.
func (d *Disk) data(ctx context.Context, name string, op wire.Opcode, off int64, out, in []byte,
	flags uint32) (before uint64, err error) {
	cmd := wire.Command{Opcode: op, NSID: d.id, CDW12: flags}
	cmd.SetLBA(uint64(off)/uint64(d.block), uint32(max(len(out), len(in))/d.block))
	before, _, err = d.on(ctx, name, changes(op), &cmd, out, in, nil)
	return before, err
}

// writeAgain writes blocks, of one command, whose write was lost with its association. It returns how many there had
// been before.
func (d *Disk) writeAgain(ctx context.Context, b []byte, off int64, lost error) (before uint64, err error) {
	cmd := wire.Command{Opcode: wire.Write, NSID: d.id}
	cmd.SetLBA(uint64(off)/uint64(d.block), uint32(len(b)/d.block))
	before, _, err = d.on(ctx, "write", true, &cmd, b, nil, lost)
	return before, err
}

// on carries out a command, on the next association if one is lost; lost: how one was before, nil: it was not. It
// returns how many associations there had been before the command was sent, and the generation of the one that has
// carried it out. A flush on one that was there before a write, on whichever path, is of the same life of the target:
// the cache has the write.
func (d *Disk) on(ctx context.Context, name string, changes bool, cmd *wire.Command, out, in []byte,
	lost error) (before, generation uint64, err error) {
	generation, err = d.retry(ctx, name, changes, func(a *association) error {
		if lost != nil {
			err := lost
			lost = nil
			return err
		}
		if err := d.ns.usable(); err != nil {
			return err
		}
		before = d.born.Load()
		q := a.io[int(a.next.Add(1))%len(a.io)]
		_, err := q.do(ctx, name, cmd, out, in)
		return err
	})
	return before, generation, err
}

// Flush returns when all writes that have returned before are on the medium. If the connection was lost since one of
// them, the error is [ErrWriteCacheLost], once: the next Flush is about the writes since then.
func (d *Disk) Flush(ctx context.Context) error {
	last, oldest := d.unflushed.covers()
	_, generation, err := d.on(ctx, "flush", false, &wire.Command{Opcode: wire.Flush, NSID: d.id}, nil, nil, nil)
	if err != nil {
		return err
	}
	d.unflushed.flushed(last)
	if oldest != 0 && oldest < generation {
		return fmt.Errorf("nvme: namespace %d: %w", d.id, ErrWriteCacheLost)
	}
	return nil
}

// Sync is Flush without a context.
func (d *Disk) Sync() error { return d.Flush(context.Background()) }

// WriteZeroes writes n zeros, without sending them.
func (d *Disk) WriteZeroes(ctx context.Context, off, n int64) error {
	if err := d.aligned("write zeroes", off, n); err != nil {
		return err
	}
	first := uint64(math.MaxUint64)
	for n > 0 {
		k := min(n, int64(d.block)<<16)
		cmd := wire.Command{Opcode: wire.WriteZeroes, NSID: d.id}
		cmd.SetLBA(uint64(off)/uint64(d.block), uint32(k/int64(d.block)))
		before, _, err := d.on(ctx, "write zeroes", true, &cmd, nil, nil, nil)
		if err != nil {
			return err
		}
		first, off, n = min(first, before), off+k, n-k
	}
	d.noteWrite(first)
	return nil
}

// Deallocate tells the controller that nobody needs n bytes any more. The controller decides which bytes they read as
// afterwards.
func (d *Disk) Deallocate(ctx context.Context, off, n int64) error {
	if err := d.aligned("deallocate", off, n); err != nil {
		return err
	}
	first := uint64(math.MaxUint64)
	for n > 0 {
		k := min(n, math.MaxUint32&^0xffff*int64(d.block))
		r := wire.Range{Start: uint64(off) / uint64(d.block), Blocks: uint32(k / int64(d.block))}
		cmd := wire.Command{Opcode: wire.DatasetManagement, NSID: d.id, CDW11: wire.DeallocateRanges}
		before, _, err := d.on(ctx, "deallocate", true, &cmd, r.Append(nil), nil, nil)
		if err != nil {
			return err
		}
		first, off, n = min(first, before), off+k, n-k
	}
	d.noteWrite(first)
	return nil
}

// maxEntries bounds the discovery log that a host reads: the peer chooses its length.
const maxEntries = 4096

// Discover asks the discovery service at "host:port" which subsystems there are for this host. Entries of type
// [wire.EntryReferral] name other discovery services, which are not asked.
func Discover(ctx context.Context, dev *verbs.Device, address string, o HostOptions) ([]wire.DiscoveryEntry, error) {
	o.KeepAlive, o.LossTimeout = -1, -1
	o.ControllerSecret = dhchap.Secret{} // discovery services prove nothing
	c, err := dial(ctx, dev, address, wire.DiscoveryNQN, o)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for range 8 { // the log may change meanwhile
		list, err := c.discover(ctx)
		if !errors.Is(err, errChanged) {
			return list, err
		}
	}
	return nil, errChanged
}

var errChanged = errors.New("nvme: a log page changes all the time")

// discover reads the log once.
func (c *Controller) discover(ctx context.Context) (list []wire.DiscoveryEntry, err error) {
	before, err := c.discoveryHead(ctx)
	if err != nil {
		return nil, err
	}
	if before.Format != 0 || before.Records > maxEntries {
		return nil, fmt.Errorf("nvme: %s: a discovery log of format %d with %d entries", c.addr, before.Format,
			before.Records)
	}
	b := make([]byte, wire.DiscoveryEntrySize)
	for i := range before.Records {
		if err := c.log(ctx, wire.LogDiscovery, wire.DiscoveryHeadSize+i*wire.DiscoveryEntrySize, b); err != nil {
			return nil, err
		}
		var e wire.DiscoveryEntry
		if e.Decode(b) {
			list = append(list, e)
		}
	}
	after, err := c.discoveryHead(ctx)
	if err == nil && after.Generation != before.Generation {
		err = errChanged
	}
	return list, err
}

func (c *Controller) discoveryHead(ctx context.Context) (h wire.DiscoveryHead, err error) {
	b := make([]byte, wire.DiscoveryHeadSize)
	err = c.log(ctx, wire.LogDiscovery, 0, b)
	h.Decode(b)
	return h, err
}

// log reads a part of a log page.
func (c *Controller) log(ctx context.Context, id wire.LogID, off uint64, b []byte) error {
	cmd := wire.Command{NSID: 0xffffffff}
	cmd.SetLogPage(id, off, len(b))
	_, err := c.retry(ctx, "get log page", false, func(a *association) error {
		_, err := a.admin.do(ctx, "get log page", &cmd, nil, b)
		return err
	})
	return err
}

// identify returns a structure that the controller has of itself or of a namespace.
func (c *Controller) identify(ctx context.Context, op string, which wire.CNS, namespace uint32) (b []byte, err error) {
	_, err = c.retry(ctx, op, false, func(a *association) error {
		b, err = a.identify(ctx, op, which, namespace)
		return err
	})
	return b, err
}

// EntryAddress returns the address of an entry for Dial.
func EntryAddress(e *wire.DiscoveryEntry) string { return net.JoinHostPort(e.Address, e.Service) }

// logParts reads the beginning of a log page, of a multiple of 4096 bytes, again if it changes between its parts: its
// first 8 bytes are a count of changes.
func logParts(b []byte, read func(off uint64, b []byte) error) error {
	for range 8 {
		for off := 0; off < len(b); off += wire.IdentifySize {
			if err := read(uint64(off), b[off:][:wire.IdentifySize]); err != nil {
				return err
			}
		}
		if len(b) == wire.IdentifySize {
			return nil
		}
		head := make([]byte, wire.ANAHeadSize)
		if err := read(0, head); err != nil {
			return err
		}
		if bytes.Equal(head[:8], b[:8]) {
			return nil
		}
	}
	return errChanged
}

// maxAccess bounds the log of asymmetric namespace access that a host reads, in bytes.
const maxAccess = 1 << 20

// Access returns how this controller reaches namespaces, by their groups; nothing: it does not say. Where a subsystem
// is at several addresses, one of them may be better than the others: see [Multipath].
func (c *Controller) Access(ctx context.Context) ([]wire.ANAGroup, error) {
	if id := c.Identity(); id.ANA == 0 {
		return nil, nil
	}
	return readAccess(c.addr, func(off uint64, b []byte) error { return c.log(ctx, wire.LogANA, off, b) })
}

// readAccess reads the log of asymmetric namespace access.
func readAccess(addr string, read func(off uint64, b []byte) error) ([]wire.ANAGroup, error) {
	var page []byte
	for len(page) < maxAccess {
		page = append(page, make([]byte, wire.IdentifySize)...)
		if err := logParts(page, read); err != nil {
			return nil, err
		}
		if _, groups, ok := wire.DecodeANA(page); ok {
			return groups, nil
		}
	}
	return nil, fmt.Errorf("nvme: %s: a log of asymmetric namespace access of more than %d bytes", addr, maxAccess)
}
