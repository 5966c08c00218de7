// SPDX-License-Identifier: Apache-2.0

// Package regbench measures the cost of registering memory, in each of the ways that package verbs
// offers: see docs/memory.md.
//
// A device reads from another one, in the same process, into a buffer that was not touched before. There registering
// costs most: pinning has to make each page. The data comes from a few MiB at the peer, over and over, and is the same
// for all.
package regbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/regcache"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Mode is a way of registering memory.
type Mode string

// The ways of registering memory.
const (
	Pinned     Mode = "pinned"     // before the first use
	Cached     Mode = "cached"     // pinned once, then found in a cache
	Pipelined  Mode = "pipelined"  // pinned while it is used
	Deferred   Mode = "deferred"   // pinned when it is used
	OnDemand   Mode = "on demand"  // never pinned
	Prefetched Mode = "prefetched" // never pinned, but brought into memory
)

// Modes are all of them, in the order in which they are shown.
var Modes = []Mode{Pinned, Cached, Pipelined, Deferred, OnDemand, Prefetched}

// Config describes a measurement.
type Config struct {
	Sizes  []int         // of the buffers, in bytes
	Runs   int           // of each mode and size
	Steady time.Duration // how long the bandwidth is measured, at least
	Chunk  int           // of Pipelined, in bytes; 0: the default
}

// Run is one measurement.
type Run struct {
	Register  time.Duration `json:"register_ns"`      // until RegMR returned, or Get for Cached
	FirstByte time.Duration `json:"first_byte_ns"`    // until 4 KiB have arrived, from the beginning of Register
	Whole     time.Duration `json:"whole_ns"`         // until all of the buffer has arrived
	Bandwidth float64       `json:"bytes_per_second"` // of the same buffer, read again and again
	Present   int           `json:"present_bytes"`    // in memory when Register ended
	Locked    int           `json:"locked_bytes"`     // memory that cannot be paged out: more than before, at the end
}

// Result is the measurement of a mode and a size.
type Result struct {
	Mode   Mode   `json:"mode"`
	Size   int    `json:"bytes"`
	Median Run    `json:"median"` // of each column by itself
	Runs   []Run  `json:"runs"`
	Error  string `json:"error,omitempty"` // why there are no runs
}

const (
	message = 1 << 20 // bytes of a READ
	first   = 4 << 10 // bytes of the first READ
	depth   = 8       // READs in flight
	source  = 4 << 20 // memory of the peer
	lookups = 1000    // of the cache, whose mean is Register
)

// Bench is a pair of connected queue pairs.
type Bench struct {
	pd   *verbs.PD
	cq   *verbs.CQ
	qp   *verbs.QP
	peer *verbs.MR
	src  []byte
	free []func() error
}

// New connects two devices, which may be one.
func New(dev, peer *verbs.Device) (b *Bench, err error) {
	b = &Bench{src: make([]byte, source)}
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	for i := range b.src {
		b.src[i] = byte(i>>12 + i%251)
	}
	local, err := b.end(dev)
	if err != nil {
		return b, err
	}
	remote, err := b.end(peer)
	if err != nil {
		return b, err
	}
	b.pd, b.cq, b.qp = local.pd, local.cq, local.qp
	if b.peer, err = remote.pd.RegMR(b.src, verbs.RemoteRead); err != nil {
		return b, err
	}
	b.free = append(b.free, b.peer.Close)
	return b, errors.Join(local.qp.Connect(local.ep, remote.ep, nil), remote.qp.Connect(remote.ep, local.ep, nil))
}

// end is one end of the connection.
type end struct {
	pd *verbs.PD
	cq *verbs.CQ
	qp *verbs.QP
	ep verbs.Endpoint
}

func (b *Bench) end(dev *verbs.Device) (e end, err error) {
	if e.pd, err = dev.AllocPD(); err != nil {
		return e, err
	}
	b.free = append(b.free, e.pd.Close)
	if e.cq, err = dev.CreateCQ(4*depth, nil); err != nil {
		return e, err
	}
	b.free = append(b.free, e.cq.Close)
	if e.qp, err = e.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq}); err != nil {
		return e, err
	}
	b.free = append(b.free, e.qp.Close)
	e.ep, err = e.qp.Endpoint(0)
	return e, err
}

// Close frees the objects that New made. The devices stay open.
func (b *Bench) Close() error {
	var errs []error
	for _, f := range slices.Backward(b.free) {
		errs = append(errs, f())
	}
	b.free = nil
	return errors.Join(errs...)
}

// Measure measures all modes and sizes, each once before any is measured again, so that changes of the
// machine over minutes affect all of them. Each run begins with another mode, because the first mode
// after a change of size is slower: the system gives it other pages. A mode that cannot be measured, because the
// process may not pin so much or the device does not know the mode, has an error in its result. next is called before
// each measurement.
func (b *Bench) Measure(ctx context.Context, c Config, next func(done, total int, r *Result)) ([]Result, error) {
	var results []Result
	for _, size := range c.Sizes {
		for _, mode := range Modes {
			results = append(results, Result{Mode: mode, Size: size})
		}
	}
	for run := range c.Runs {
		for i := range results {
			size, mode := i/len(Modes), (i+run)%len(Modes)
			r := &results[size*len(Modes)+mode]
			next(run*len(results)+i, c.Runs*len(results), r)
			if r.Error != "" {
				continue
			}
			m, err := b.measure(ctx, r.Mode, r.Size, &c)
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case errors.Is(err, verbs.ErrPinLimit), errors.Is(err, verbs.ErrNotSupported),
				errors.Is(err, verbs.ErrNoMemory):
				r.Error = err.Error()
			case err != nil:
				return nil, fmt.Errorf("%s, %d bytes: %w", r.Mode, r.Size, err)
			default:
				r.Runs = append(r.Runs, m)
			}
		}
	}
	for i := range results {
		results[i].Median = median(results[i].Runs)
	}
	return results, nil
}

// median returns the median of each column.
func median(runs []Run) (m Run) {
	if len(runs) == 0 {
		return m
	}
	m.Register = middle(runs, func(r *Run) time.Duration { return r.Register })
	m.FirstByte = middle(runs, func(r *Run) time.Duration { return r.FirstByte })
	m.Whole = middle(runs, func(r *Run) time.Duration { return r.Whole })
	m.Bandwidth = middle(runs, func(r *Run) float64 { return r.Bandwidth })
	m.Present = middle(runs, func(r *Run) int { return r.Present })
	m.Locked = middle(runs, func(r *Run) int { return r.Locked })
	return m
}

func middle[V int | float64 | time.Duration](runs []Run, column func(*Run) V) V {
	values := make([]V, len(runs))
	for i := range runs {
		values[i] = column(&runs[i])
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// buffer is registered memory.
type buffer struct {
	sge  func(off, n int) verbs.SGE
	free func() error
}

// access is the access that the memory of READs allows.
func (b *Bench) access() verbs.Access { return b.pd.Device().Query().SinkAccess }

// register registers memory in one of the ways but Cached.
func (b *Bench) register(mode Mode, mem []byte, chunk int) (buffer, error) {
	opt := map[Mode]verbs.RegOption{Pinned: verbs.Pinned(), Pipelined: verbs.Pipelined(chunk),
		Deferred: verbs.Deferred(),
		OnDemand: verbs.OnDemandPaging(), Prefetched: verbs.OnDemandPaging()}[mode]
	mr, err := b.pd.RegMR(mem, b.access(), opt)
	if err != nil {
		return buffer{}, err
	}
	if mode == Prefetched {
		if err := mr.Prefetch(0, len(mem), true); err != nil {
			return buffer{}, errors.Join(err, mr.Close())
		}
	}
	return buffer{mr.SGE, mr.Close}, nil
}

// cached registers memory through a cache. It returns the mean time of finding it there.
func (b *Bench) cached(mem []byte) (buffer, time.Duration, error) {
	cache, err := regcache.New(b.pd, b.access(),
		&regcache.Options{MaxBytes: len(mem), Register: []verbs.RegOption{verbs.Pinned()}})
	if err != nil {
		return buffer{}, 0, err
	}
	h, err := cache.Get(mem)
	if err != nil {
		return buffer{}, 0, errors.Join(err, cache.Close())
	}
	start := time.Now()
	for range lookups {
		again, err := cache.Get(mem)
		if err != nil {
			h.Release()
			return buffer{}, 0, errors.Join(err, cache.Close())
		}
		again.Release()
	}
	took := time.Since(start) / lookups
	return buffer{h.SGE, func() error {
		h.Release()
		return cache.Close()
	}}, took, nil
}

// measure measures once.
func (b *Bench) measure(ctx context.Context, mode Mode, size int, c *Config) (r Run, err error) {
	mem, unmap, err := fresh(size)
	if err != nil {
		return r, err
	}
	defer unmap()
	lockedBefore := locked()
	var buf buffer
	var start time.Time
	if mode == Cached {
		if buf, r.Register, err = b.cached(mem); err != nil {
			return r, err
		}
		start = time.Now().Add(-r.Register)
	} else {
		start = time.Now()
		if buf, err = b.register(mode, mem, c.Chunk); err != nil {
			return r, err
		}
		r.Register = time.Since(start)
	}
	defer func() { err = errors.Join(err, buf.free()) }()
	looked := time.Now()
	r.Present = present(mem)
	start = start.Add(time.Since(looked)) // which is not part of it
	n := min(first, size)
	if err := b.read(ctx, buf, 0, n); err != nil {
		return r, err
	}
	r.FirstByte = time.Since(start)
	if err := b.read(ctx, buf, n, size-n); err != nil {
		return r, err
	}
	r.Whole = time.Since(start)
	r.Locked = locked() - lockedBefore
	if err := b.verify(mem); err != nil {
		return r, err
	}
	bytes, began := 0, time.Now()
	for bytes == 0 || time.Since(began) < c.Steady {
		if err := b.read(ctx, buf, 0, size); err != nil {
			return r, err
		}
		bytes += size
	}
	r.Bandwidth = float64(bytes) / time.Since(began).Seconds()
	return r, nil
}

// at returns where the peer has the data for an offset of a buffer.
func at(off int) int { return off % source }

// read reads n bytes from off on into a buffer.
func (b *Bench) read(ctx context.Context, buf buffer, off, n int) error {
	var wcs [depth]verbs.WC
	for outstanding := 0; n > 0 || outstanding > 0; {
		for n > 0 && outstanding < depth {
			m := min(n, message-off%message) // so that none goes round at the peer
			err := b.qp.PostSend(&verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled,
				SGL:    []verbs.SGE{buf.sge(off, m)},
				Remote: verbs.Remote{Addr: b.peer.Addr() + uint64(at(off)), Key: b.peer.RKey()}})
			if err != nil {
				return err
			}
			off, n, outstanding = off+m, n-m, outstanding+1
		}
		done := b.cq.Poll(wcs[:])
		for i := range wcs[:done] {
			if wcs[i].Status != verbs.StatusSuccess {
				return fmt.Errorf("a READ failed: %v", wcs[i].Status)
			}
		}
		if outstanding -= done; done == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// verify compares a byte of each 4 KiB, and the last ones.
func (b *Bench) verify(mem []byte) error {
	for off := 0; off < len(mem); off += 4096 {
		if mem[off] != b.src[at(off)] {
			return fmt.Errorf("byte %d of %d is wrong", off, len(mem))
		}
	}
	if last := len(mem) - 1; mem[last] != b.src[at(last)] {
		return fmt.Errorf("the last of %d bytes is wrong", len(mem))
	}
	return nil
}
