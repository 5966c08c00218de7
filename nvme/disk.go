// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// Flusher is a disk that keeps writes in a cache. Sync returns when all writes that have returned before are on the
// medium. *os.File is one. A disk without Sync has its writes on the medium when they return.
type Flusher interface {
	Sync() error
}

// ZeroWriter is a disk that can write zeros by itself.
type ZeroWriter interface {
	WriteZeroes(off, n int64) error
}

// Deallocator is a disk that can be told that nobody needs a part of it, which reads as zeros afterwards.
type Deallocator interface {
	Deallocate(off, n int64) error
}

// Namespace is a disk of a subsystem.
type Namespace struct {
	ID uint32 // from 1 to MaxNamespaces; hosts see it as the NSID

	// Disk has the data, such as an [Image], a [Memory] or an *os.File. It may be a Flusher, a ZeroWriter, and a
	// Deallocator. All its methods are called from several goroutines at once, and may take their time. A block that
	// is read while it is written has to be the old one or the new.
	Disk io.ReaderAt

	Size      int64 // bytes, a multiple of BlockSize
	BlockSize int   // bytes, a power of 2 from 512 to 64 KiB; 0: 512

	// Writable lets hosts write. Disk is an io.WriterAt then.
	Writable bool

	// Immediate says that ReadAt and WriteAt only copy the data, as the methods of [Memory] do.
	// The goroutine that takes a queue's commands then calls them by itself, which is faster; a call that takes longer
	// delays all commands of the queue.
	Immediate bool

	// Group is a number from 1 to MaxGroups. Port.SetAccess applies to all namespaces of a group. Default 1.
	Group uint32

	// UUID tells hosts that two namespaces are the same disk. The default follows from the subsystem's NQN and ID.
	UUID [16]byte
}

// MaxNamespaces is how many namespaces a subsystem has at most.
const MaxNamespaces = 1024

const maxBlockSize = 64 << 10

// namespace is a Namespace that was checked.
type namespace struct {
	Namespace
	blocks  uint64
	shift   uint // of the block size
	w       io.WriterAt
	image   Image // nil: the disk is none
	flush   Flusher
	zero    ZeroWriter
	dealloc Deallocator
}

func newNamespace(n Namespace, nqn string) (*namespace, error) {
	if n.BlockSize == 0 {
		n.BlockSize = 512
	}
	if n.Group == 0 {
		n.Group = 1
	}
	switch {
	case n.Group > MaxGroups:
		return nil, fmt.Errorf("nvme: namespace %d: group %d: there are groups from 1 to %d", n.ID, n.Group, MaxGroups)
	case n.ID < 1 || n.ID > MaxNamespaces:
		return nil, fmt.Errorf("nvme: namespace %d: there are numbers from 1 to %d", n.ID, MaxNamespaces)
	case n.Disk == nil:
		return nil, fmt.Errorf("nvme: namespace %d has no disk", n.ID)
	case n.BlockSize < 512 || n.BlockSize > maxBlockSize || n.BlockSize&(n.BlockSize-1) != 0:
		return nil, fmt.Errorf("nvme: namespace %d: blocks of %d bytes: take a power of 2 from 512 to %d", n.ID,
			n.BlockSize, maxBlockSize)
	case n.Size <= 0 || n.Size%int64(n.BlockSize) != 0:
		return nil, fmt.Errorf("nvme: namespace %d: %d bytes are no whole blocks of %d: cut or extend the disk", n.ID,
			n.Size, n.BlockSize)
	}
	ns := &namespace{Namespace: n, shift: uint(bits.TrailingZeros(uint(n.BlockSize)))}
	ns.blocks = uint64(n.Size) >> ns.shift
	if image, ok := n.Disk.(Image); ok && n.Size <= int64(len(image)) {
		ns.image, ns.Immediate = image, true
	}
	if n.Writable {
		var ok bool
		if ns.w, ok = n.Disk.(io.WriterAt); !ok {
			return nil, fmt.Errorf("nvme: namespace %d is to be writable, and its disk (%T) is no io.WriterAt", n.ID,
				n.Disk)
		}
		ns.flush, _ = n.Disk.(Flusher)
		ns.zero, _ = n.Disk.(ZeroWriter)
		ns.dealloc, _ = n.Disk.(Deallocator)
	}
	if n.UUID == ([16]byte{}) {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", nqn, n.ID))
		ns.UUID = [16]byte(sum[:])
		ns.UUID[6], ns.UUID[8] = ns.UUID[6]&0xf|0x80, ns.UUID[8]&0x3f|0x80 // version 8: the program's own
	}
	return ns, nil
}

// readAt fills b.
func (n *namespace) readAt(b []byte, off int64) error {
	k, err := n.Disk.ReadAt(b, off)
	switch {
	case k == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return fmt.Errorf("%d of %d bytes at %d, of a disk of %d: %w", k, len(b), off, n.Size, io.ErrUnexpectedEOF)
	}
	return err
}

// zeros are the bytes written where a disk is no ZeroWriter.
var zeros [64 << 10]byte

// writeZeroes writes count zeros. The context can end it where the disk is no ZeroWriter.
func (n *namespace) writeZeroes(ctx context.Context, off, count int64) error {
	if n.zero != nil {
		return n.zero.WriteZeroes(off, count)
	}
	for count > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		k, err := n.w.WriteAt(zeros[:min(count, int64(len(zeros)))], off)
		switch {
		case err != nil:
			return err
		case k <= 0:
			return io.ErrShortWrite
		}
		off, count = off+int64(k), count-int64(k)
	}
	return nil
}

// sync returns when the written data is on the medium.
func (n *namespace) sync() error {
	if n.flush == nil {
		return nil
	}
	return n.flush.Sync()
}
