// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func ptr(b []byte, at int) *uint64 { return (*uint64)(unsafe.Pointer(&b[at])) }

// atUsed is the offset at which a segment has the key of the memory in which its owner works; the address and the
// length follow.
const atUsed = 64

// begin has the rogue begin an operation in a region, as an honest peer does, and returns the memory.
func (r *rogue) begin(at verbs.Remote, n int) []byte {
	r.t.Helper()
	own := r.own[atUsed:]
	binary.NativeEndian.PutUint64(own[8:], at.Addr)
	binary.NativeEndian.PutUint64(own[16:], uint64(n))
	binary.NativeEndian.PutUint64(own, uint64(at.Key))
	var e local.Entry
	r.until("the region", func() (ok bool) {
		d := r.link.Directory()
		if d == nil {
			return false
		}
		e, _, ok = d.Find(uint32(at.Key))
		return ok
	})
	mem, _ := r.link.Segment(e.Segment)
	off, ok := e.Range(at.Addr, uint64(n))
	if mem == nil || !ok {
		r.t.Fatal("the region is not mapped")
	}
	return mem[off:][:n]
}

// done ends it.
func (r *rogue) done() { binary.NativeEndian.PutUint64(r.own[atUsed:], 0) }

// TestStoppedInTheMiddle takes a right away from a peer that is stopped in the middle of a WRITE. Its writes when it
// goes on are not seen; the program's data in the region stays, and it can be used.
func TestStoppedInTheMiddle(t *testing.T) {
	const size, from, n = 300_000, 10_000, 100_000
	for name, take := range map[string]func(*cm.Conn, *verbs.MR) error{
		"Conn.Close": func(c *cm.Conn, _ *verbs.MR) error { return c.Close() },
		"ERR": func(c *cm.Conn, _ *verbs.MR) error {
			return c.QP().Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState)
		},
		"no access of the queue pair": func(c *cm.Conn, _ *verbs.MR) error {
			return c.QP().Modify(verbs.QPAttr{Access: verbs.RemoteRead}, verbs.MaskAccess)
		},
		"re-registration": func(_ *cm.Conn, mr *verbs.MR) error {
			return mr.Rereg(verbs.ReregAccess, nil, nil, verbs.LocalWrite)
		},
		"Device.Close": func(c *cm.Conn, _ *verbs.MR) error { return c.QP().Device().Close() },
	} {
		t.Run(name, func(t *testing.T) {
			r, c := newRogue(t)
			mr, err := c.PD().AllocMR(size, verbs.LocalWrite|verbs.RemoteWrite)
			if err != nil {
				t.Fatal(err)
			}
			for i := range mr.Bytes() {
				mr.Bytes()[i] = byte(i * 7)
			}
			mem := r.begin(mr.Remote().At(from), n)
			mem[0]++ // before it is stopped
			want := bytes.Clone(mr.Bytes())
			if want[from]--; bytes.Equal(want, mr.Bytes()) {
				t.Fatal("the memory is not shared")
			}
			want[from]++
			buf := mr.Bytes()
			if err := take(c, mr); err != nil {
				t.Fatal(err)
			}
			for i := range mem {
				mem[i] = 0xee
			}
			if !bytes.Equal(buf, want) {
				t.Error(
					"the peer has written to the region after its right had ended, or the region has lost something")
			}
			r.done()
			for i := range buf { // it is the program's
				buf[i]++
			}
		})
	}
}

// TestFinishesInTheMiddle takes a right away from a peer that is about to be done: the region stays as it is.
func TestFinishesInTheMiddle(t *testing.T) {
	r, c := newRogue(t)
	mr, err := c.PD().AllocMR(8192, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	mem := r.begin(mr.Remote(), 8192)
	mem[0] = 1
	r.done()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	mem[1] = 1
	if b := mr.Bytes(); b[0] != 1 || b[1] != 1 {
		t.Error("the region was taken away from a peer that was not at work there")
	}
}

// TestRenewedRegion has a region that lost pages to a peer serve another one, and stores of the program go on
// meanwhile: none is lost.
func TestRenewedRegion(t *testing.T) {
	r, c := newRogue(t)
	const size = 64 << 10
	mr, err := c.PD().AllocMR(size, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	r.begin(mr.Remote(), size)
	var stop atomic.Bool
	stopped := make(chan uint64)
	go func() {
		n := uint64(0)
		for ; !stop.Load(); n++ {
			atomic.StoreUint64(ptr(mr.Bytes(), 8*int(n%(size/8))), n+1)
		}
		stopped <- n
	}()
	time.Sleep(time.Millisecond)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	stop.Store(true)
	n := <-stopped
	for i := range uint64(size / 8) {
		last := (n-1-i)/(size/8)*(size/8) + i + 1
		if n <= i {
			break
		}
		if got := atomic.LoadUint64(ptr(mr.Bytes(), int(8*i))); got != last {
			t.Fatalf("word %d is %d, and %d was stored last", i, got, last)
		}
	}

	other, err := Open("127.0.0.2", &Options{Dir: r.net.place.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	ln, err := cm.Listen(t.Context(), r.dev, "127.0.0.1:0", cm.WithPD(c.PD()))
	if err != nil {
		t.Fatal(err)
	}
	go ln.Accept(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d, err := cm.Dial(ctx, other, ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Do(ctx, &verbs.SendWR{Op: verbs.OpWrite, Inline: []byte("still here"),
		Remote: mr.Remote()}); err != nil {
		t.Fatal(err)
	}
	if got := string(mr.Bytes()[:10]); got != "still here" {
		t.Errorf("%q was written", got)
	}
}
