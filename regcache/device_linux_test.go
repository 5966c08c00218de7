// SPDX-License-Identifier: Apache-2.0

package regcache_test

import (
	"bytes"
	"errors"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/regcache"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// end is a device with a connected queue pair.
type end struct {
	t  *testing.T
	pd *verbs.PD
	cq *verbs.CQ
	qp *verbs.QP
	ep verbs.Endpoint
}

func newEnd(t *testing.T, kind string) *end {
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return ramjet.Open(kind + addr) })
	e := &end{t: t}
	var err error
	e.pd, err = dev.AllocPD()
	ok(t, err)
	e.cq, err = dev.CreateCQ(16, nil)
	ok(t, err)
	e.qp, err = e.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq})
	ok(t, err)
	e.ep, err = e.qp.Endpoint(0)
	ok(t, err)
	return e
}

// do posts a work request and waits for its completion.
func (e *end) do(wr verbs.SendWR) {
	e.t.Helper()
	wr.Flags = verbs.Signaled
	ok(e.t, e.qp.PostSend(&wr))
	var wcs [1]verbs.WC
	_, err := e.cq.Wait(e.t.Context(), wcs[:])
	ok(e.t, err)
	if wcs[0].Status != verbs.StatusSuccess {
		e.t.Fatal(wcs[0].Status)
	}
}

// TestDevice reads into buffers that the program makes and drops, and into mapped ones, on real devices.
// At last no region is left but that of the memory that the queue pair may still need.
func TestDevice(t *testing.T) {
	for _, kind := range []string{"roce:", "iwarp:"} {
		t.Run(kind, func(t *testing.T) {
			a, b := newEnd(t, kind), newEnd(t, kind)
			ok(t, a.qp.Connect(a.ep, b.ep, nil))
			ok(t, b.qp.Connect(b.ep, a.ep, nil))
			const n = 100_000
			src := bytes.Repeat([]byte("abcdefg"), n/7+1)[:n]
			theirs, err := b.pd.RegMR(src, verbs.RemoteRead)
			ok(t, err)
			c, err := regcache.New(a.pd, verbs.LocalWrite|verbs.RemoteWrite, &regcache.Options{MaxRegions: 100})
			ok(t, err)
			read := func(buf []byte) {
				t.Helper()
				h, err := c.Get(buf)
				ok(t, err)
				a.do(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{h.SGE(0, len(buf))}, Remote: theirs.Remote()})
				if !bytes.Equal(buf, src[:len(buf)]) {
					t.Error("other bytes arrived")
				}
				h.Release()
			}
			for i := range 60 {
				buf := make([]byte, n)
				read(buf)
				clear(buf)
				read(buf[i : n-i])
			}
			if s := c.Stats(); s.Hits != 60 || s.Misses != 60 {
				t.Errorf("%+v", s)
			}
			for end := time.Now().Add(time.Minute); c.Stats().Regions > 20; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("the memory is not collected: %+v", c.Stats())
				}
				runtime.GC()
			}
			mapped, err := syscall.Mmap(-1, 0, 1<<17, syscall.PROT_READ|syscall.PROT_WRITE,
				syscall.MAP_PRIVATE|syscall.MAP_ANON)
			ok(t, err)
			read(mapped[:n])
			// This relies on the runtime's behaviour with memory that is not its own.
			if _, err := a.pd.RegMR(mapped, 0, verbs.Weak()); !errors.Is(err, verbs.ErrInvalid) {
				t.Errorf("a weak region of mapped memory: %v", err)
			}
			ok(t, c.Forget(mapped))
			ok(t, syscall.Munmap(mapped))
			before := c.Stats()
			mapped, err = syscall.Mmap(-1, 0, 1<<17, syscall.PROT_READ|syscall.PROT_WRITE,
				syscall.MAP_PRIVATE|syscall.MAP_ANON)
			ok(t, err)
			read(mapped[:n])
			if s := c.Stats(); s.Misses != before.Misses+1 {
				t.Error("what was forgotten is found")
			}
			ok(t, c.Close())
			ok(t, syscall.Munmap(mapped))
		})
	}
}
