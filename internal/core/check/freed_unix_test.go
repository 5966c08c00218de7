// SPDX-License-Identifier: Apache-2.0

//go:build unix

package check_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestUnmapped unmaps memory that is registered, while it is in use or after that.
func TestUnmapped(t *testing.T) {
	for name, use := range map[string]func(w *loop, mr *verbs.MR, unmap func(mistake bool)){
		"posted": func(w *loop, mr *verbs.MR, unmap func(bool)) {
			w.ok(w.qps[1].PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{mr.SGE(0, mr.Len())}}))
			unmap(true)
			w.ok(w.qps[1].Close())
			w.ok(mr.Close())
			unmap(false)
		},
		"received": func(w *loop, mr *verbs.MR, unmap func(bool)) {
			w.ok(w.qps[1].PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{mr.SGE(0, mr.Len())}}))
			unmap(true)
			w.send(new(verbs.SendWR).Send(w.mr.SGE(0, 64)))
			w.wait(w.cqs[1])
			w.ok(w.qps[1].Close())
			w.ok(w.qps[0].Close()) // so that no peer can reach it
			w.ok(mr.Close())
			unmap(false)
		},
		"reachable": func(w *loop, mr *verbs.MR, unmap func(bool)) {
			w.send(new(verbs.SendWR).Write(mr.Remote(), w.mr.SGE(0, 64)))
			unmap(true)
			w.ok(mr.Close())
			unmap(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			wrongAndRight(t, "memory-freed", []string{"roce", "shm"}, verbs.QPInit{Type: verbs.RC},
				func(w *loop, mistake bool) {
					buf, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
					w.ok(err)
					mr, err := w.pd.RegMR(buf, anyAccess)
					w.ok(err)
					defer unix.Munmap(buf)
					use(w, mr, func(now bool) {
						if now == mistake {
							w.ok(unix.Mprotect(buf, unix.PROT_NONE)) // nothing else can be mapped there meanwhile
						}
					})
				})
		})
	}
}
