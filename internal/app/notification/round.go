// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	// The target has looked or slept for at least minPause and at most maxPause before a WRITE is posted.
	minPause, maxPause = 50 * time.Microsecond, 150 * time.Microsecond
	// stallTimeout is how long a WRITE may take.
	stallTimeout = 10 * time.Second
	// pollsPerCheck is how many polls of the client find nothing before it asks whether it is over.
	pollsPerCheck = 64
)

// errOver ends the target's part of a round.
var errOver = errors.New("the round is over")

// round measures one way for a while. One goroutine posts, the other is the target.
type round struct {
	*group
	way   Way
	wr    verbs.SendWR
	bytes []byte // by peer: the byte that it has written last
	delay *hdrhistogram.Histogram

	start  time.Time    // times below are since then
	posted atomic.Int64 // just before the post
	peer   atomic.Int64 // the writer
	value  atomic.Uint32
	ready  atomic.Uint64 // how often the target has begun to wait
	known  atomic.Uint64 // how many WRITEs it knows of
}

// run does iterations WRITEs, or as many as fit in duration if that is not zero, and records their
// delays.
func (r *round) run(ctx context.Context, iterations int, duration time.Duration) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r.start = time.Now()
	r.target.catchUp()
	done := make(chan error, 1)
	go func() {
		err := r.learn(ctx)
		end(err) // ends the client too, if it was not the one to end
		done <- err
	}()
	err := r.write(ctx, iterations, duration)
	end(errOver)
	if terr := <-done; !errors.Is(terr, errOver) { // the cause of the client's error, if both have one
		err = terr
	}
	return err
}

// learn is the target's part: it returns the cause by which ctx has ended.
func (r *round) learn(ctx context.Context) error {
	t := &r.target
	ready := func() { r.ready.Add(1) }
	for {
		if err := t.await(ctx, r.way, ready); err != nil {
			return err
		}
		now := time.Since(r.start)
		if want := int(r.peer.Load()); t.found != want {
			return fmt.Errorf("the target learned of peer %d, but peer %d wrote", t.found, want)
		}
		if got, want := t.byteOf(t.found), byte(r.value.Load()); got != want {
			return fmt.Errorf("the byte of peer %d is %d at the target, not %d", t.found, got, want)
		}
		// The bounds of the histogram are not exceeded: stallTimeout is less.
		_ = r.delay.RecordValue(max(1, int64(now)-r.posted.Load()))
		if r.way != Bytes {
			if err := t.srq.PostRecv(&verbs.RecvWR{}); err != nil {
				return err
			}
		}
		r.known.Add(1)
	}
}

// write is the client's part.
func (r *round) write(ctx context.Context, iterations int, duration time.Duration) error {
	r.wr = verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, Inline: make([]byte, 1)}
	if r.way != Bytes {
		r.wr.Op = verbs.OpWriteImm
	}
	for n := uint64(1); ; n++ {
		if duration == 0 && n > uint64(iterations) || duration > 0 && n > 1 && time.Since(r.start) >= duration {
			return nil
		}
		if err := r.until(ctx, func() bool { return r.ready.Load() >= n }); err != nil {
			return err
		}
		pause, since := minPause+rand.N(maxPause-minPause), time.Now()
		if err := r.until(ctx, func() bool { return time.Since(since) >= pause }); err != nil {
			return err
		}
		if err := r.post(); err != nil {
			return err
		}
		if err := r.until(ctx, func() bool { return r.known.Load() >= n && r.client.idle }); err != nil {
			return err
		}
	}
}

// post has a peer at random write the next value of its byte.
func (r *round) post() error {
	peer := rand.IntN(r.target.peers)
	r.bytes[peer]++
	r.peer.Store(int64(peer))
	r.value.Store(uint32(r.bytes[peer]))
	r.wr.Inline[0], r.wr.Imm = r.bytes[peer], uint32(peer)
	r.wr.Remote = r.target.mr.Remote().At(uint64(peer * r.target.stride))
	r.client.idle = false
	r.posted.Store(int64(time.Since(r.start)))
	return r.client.qps[peer].PostSend(&r.wr)
}

// until polls the client's completion queue until cond holds.
func (r *round) until(ctx context.Context, cond func() bool) error {
	var since time.Time
	for n := 1; !cond(); n++ {
		if err := r.client.poll(); err != nil {
			return err
		}
		if n%pollsPerCheck != 0 {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if since.IsZero() {
			since = time.Now()
		} else if time.Since(since) > stallTimeout {
			return fmt.Errorf("nothing happened for %s after WRITE %d", units.Period(stallTimeout), r.known.Load())
		}
	}
	return nil
}

// poll takes the completions of the client's WRITEs.
func (c *client) poll() error {
	for i := range c.cq.Poll(c.wcs[:]) {
		if wc := &c.wcs[i]; wc.Status != verbs.StatusSuccess {
			return fmt.Errorf("the client's queue pair %d: %w", wc.QPN, wc.Err())
		}
		c.idle = true
	}
	return nil
}
