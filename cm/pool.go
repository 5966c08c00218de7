// SPDX-License-Identifier: Apache-2.0

package cm

import "github.com/ramjet-rdma/ramjet/verbs"

// Pool has registered buffers of one protection domain, to send from and receive into.
type Pool struct{}

// NewPool makes a pool of buffers of size bytes, registered in pd with access. It takes
// memory as it is needed, in regions of about 1 MiB.
func NewPool(pd *verbs.PD, size int, access verbs.Access) *Pool { return nil }

// Get returns a buffer of n bytes, of the pool's size or, if n is larger, made for it.
func (p *Pool) Get(n int) (*Buffer, error) { return nil, nil }

// Close deregisters the pool's memory. Buffers that are in use may not be used any more.
func (p *Pool) Close() error { return nil }

// Buffer is registered memory of a [Pool].
type Buffer struct {
	WC verbs.WC // of a received message
}

// Bytes returns the buffer's bytes: those asked for, or the message received.
func (b *Buffer) Bytes() []byte { return nil }

// SGE names the first n bytes for a work request.
func (b *Buffer) SGE(n int) verbs.SGE { return verbs.SGE{} }

// Remote is what a peer needs to reach the buffer, if the pool's access allows it.
func (b *Buffer) Remote() verbs.Remote { return verbs.Remote{} }

// Release gives the buffer back; nobody may use it any more.
func (b *Buffer) Release() {}
