// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
)

// chain is the SHA-256 of a file, segment by segment.
type chain struct {
	h    hash.Hash
	next int // segment
}

func newChain() *chain { return &chain{h: sha256.New()} }

// add takes the next segment's bytes.
func (c *chain) add(b []byte) {
	c.h.Write(b)
	c.next++
}

// sum returns the digest of the segments so far.
func (c *chain) sum() (d digest) {
	c.h.Sum(d[:0])
	return d
}

// clone returns a copy of the current state.
func (c *chain) clone() *chain {
	h, err := c.h.(hash.Cloner).Clone()
	if err != nil {
		panic(err) // the standard library's SHA-256 can be cloned
	}
	return &chain{h, c.next}
}

// read takes the next segment of a file of size bytes. buf has at least 1 MiB and is overwritten.
func (c *chain) read(ctx context.Context, f io.ReaderAt, size int64, buf []byte) error {
	off, n := span(c.next, size)
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := buf[:min(n, len(buf))]
		if _, err := f.ReadAt(p, off); err != nil {
			if errors.Is(err, io.EOF) {
				return fmt.Errorf("%w: it has become shorter than %d bytes", ErrChanged, size)
			}
			return err
		}
		c.h.Write(p)
		off, n = off+int64(len(p)), n-len(p)
	}
	c.next++
	return nil
}
