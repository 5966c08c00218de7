// SPDX-License-Identifier: Apache-2.0

//go:build linux

package programs

import (
	"syscall"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// sendModifiedPieces changes the second of the two pieces of a SEND before its completion, or after it.
func sendModifiedPieces(mistake bool) {
	h := open()
	a, b := h.pair(verbs.QPInit{}, nil)
	from, to := h.region(page), h.region(page)
	b.receive(all(to))
	a.send(from.SGE(0, 100), from.SGE(1000, 100))
	if mistake {
		from.Bytes()[1050] = 1
	}
	a.done()
	from.Bytes()[1050] = 1
	b.done()
	h.close()
}

// sendModifiedInline uses a buffer again at once, which is right for inline data only.
func sendModifiedInline(mistake bool) {
	h := open()
	a, b := h.pair(verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxInline: 64}}, nil)
	from, to := h.region(64), h.region(page)
	b.receive(all(to))
	if mistake {
		a.send(all(from))
	} else {
		a.post(&verbs.SendWR{Op: verbs.OpSend, Inline: from.Bytes()})
	}
	copy(from.Bytes(), "the next message")
	a.done()
	b.done()
	h.close()
}

// sendModifiedGoroutine hands the buffer back to the goroutine that fills it: after the post, or after the completion.
func sendModifiedGoroutine(mistake bool) {
	h := open()
	a, b := h.pair(verbs.QPInit{Type: verbs.UC}, nil)
	from, to := h.region(page), h.region(page)
	free, filled := make(chan bool), make(chan bool)
	go func() {
		for n := range byte(2) {
			<-free
			from.Bytes()[0] = n + 1
			filled <- true
		}
	}()
	free <- true
	<-filled
	b.receive(all(to))
	a.send(all(from))
	if mistake {
		free <- true
		<-filled
	}
	a.done()
	if !mistake {
		free <- true
		<-filled
	}
	b.done()
	h.close()
}

// receiveTouchedRepost posts a receive again before, or after it has worked on the message.
func receiveTouchedRepost(mistake bool) {
	h := open()
	a, b := h.pair(verbs.QPInit{}, nil)
	from, to := h.region(page), h.region(page)
	b.receive(all(to))
	for range 2 {
		a.send(from.SGE(0, 100))
		a.done()
		b.done()
		if mistake {
			b.receive(all(to))
		}
		copy(to.Bytes(), "done")
		if !mistake {
			b.receive(all(to))
		}
	}
	h.close()
}

// receiveTouchedSRQ writes into the buffer of the receive that has completed, or into that of the next.
func receiveTouchedSRQ(mistake bool) {
	h := open()
	srq := must(h.pd.CreateSRQ(verbs.SRQInit{MaxWR: 8, MaxSGE: 1}))
	h.others = append(h.others, srq.Close)
	a, b := h.pair(verbs.QPInit{SRQ: srq}, nil)
	from, to := h.region(page), h.region(2*page)
	for i := range 2 {
		check(srq.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{to.SGE(i*page, page)}}))
	}
	a.send(from.SGE(0, 10))
	a.done()
	b.done()
	off := 0
	if mistake {
		off = page
	}
	copy(to.Bytes()[off:], "mine")
	a.send(from.SGE(0, 10))
	a.done()
	b.done()
	h.close()
}

// readTouchedList posts two READs at once, and clears the target of the second when the first has completed.
func readTouchedList(mistake bool) {
	h := open()
	a, _ := h.pair(verbs.QPInit{SignalAll: true}, nil)
	to, from := h.region(2*page), h.region(2*page)
	wrs := make([]verbs.SendWR, 2)
	for i := range wrs {
		wrs[i].Read(from.Remote().At(uint64(i*page)), to.SGE(i*page, page))
	}
	check(a.qp.PostSendAll(wrs))
	a.done()
	if mistake {
		copy(to.Bytes()[page:], "x")
	} else {
		copy(to.Bytes(), "x")
	}
	a.done()
	h.close()
}

// readTouchedAtomic sets the result of an atomic to a mark before the post, or after it.
func readTouchedAtomic(mistake bool) {
	h := open()
	a, _ := h.pair(verbs.QPInit{}, nil)
	result, counter := h.region(8), h.region(8)
	mark := func() { copy(result.Bytes(), "\xff\xff\xff\xff\xff\xff\xff\xff") }
	if !mistake {
		mark()
	}
	a.post(new(verbs.SendWR).FetchAdd(counter.Remote(), 1, all(result)))
	if mistake {
		mark()
	}
	a.done()
	h.close()
}

// mapped is memory that the program has mapped, and its region.
func (h *host) mapped(size int) ([]byte, *verbs.MR) {
	b := must(syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE))
	return b, must(h.pd.RegMR(b, access))
}

// memoryFreedPosted unmaps memory of a posted receive; the right one, after the queue pair and the region are gone.
func memoryFreedPosted(mistake bool) {
	h := open()
	_, b := h.pair(verbs.QPInit{}, nil)
	buf, mr := h.mapped(large)
	b.receive(all(mr))
	if mistake {
		check(syscall.Munmap(buf))
	}
	check(b.qp.Close())
	check(mr.Close())
	if !mistake {
		check(syscall.Munmap(buf))
	}
	h.close()
}

// memoryFreedReachable unmaps memory that the peer has the key of.
func memoryFreedReachable(mistake bool) {
	h := open()
	a, _ := h.pair(verbs.QPInit{}, nil)
	buf, mr := h.mapped(4 * page)
	from := h.region(page)
	a.write(mr.Remote(), all(from))
	a.done()
	if mistake {
		check(syscall.Munmap(buf))
	}
	check(mr.Close())
	if !mistake {
		check(syscall.Munmap(buf))
	}
	h.close()
}

// regionInUseReceive closes a region while a receive into it is posted.
func regionInUseReceive(mistake bool) {
	h := open()
	_, b := h.pair(verbs.QPInit{}, nil)
	mr := must(h.pd.AllocMR(page, access))
	b.receive(all(mr))
	if !mistake {
		check(b.qp.Close())
	}
	check(mr.Close())
	h.close()
}

// regionInUseRereg gives a region other memory while a WRITE from it is posted.
func regionInUseRereg(mistake bool) {
	h := open()
	a, _ := h.pair(verbs.QPInit{}, nil)
	from, to := must(h.pd.RegMR(make([]byte, large), access)), h.region(large)
	a.write(to.Remote(), all(from))
	if mistake {
		check(from.Rereg(verbs.ReregTranslation, nil, make([]byte, page), 0))
	}
	a.next()
	if !mistake {
		check(from.Rereg(verbs.ReregTranslation, nil, make([]byte, page), 0))
	}
	check(from.Close())
	h.close()
}

// keyInUseWrite has a peer that writes by a key after its region was closed.
func keyInUseWrite(mistake bool) {
	h := open()
	a, _ := h.pair(verbs.QPInit{}, nil)
	from, to := h.region(page), must(h.pd.AllocMR(page, access))
	remote := to.Remote()
	if mistake {
		check(to.Close())
	}
	a.write(remote, all(from))
	a.next()
	if !mistake {
		check(to.Close())
	}
	h.close()
}

// keyInUseWindow binds a window anew while the peer still has its key before that.
func keyInUseWindow(mistake bool) {
	h := open()
	a, b := h.pair(verbs.QPInit{}, nil)
	from, to := h.region(page), must(h.pd.AllocMR(page, verbs.LocalWrite|verbs.MWBind))
	mw := must(h.pd.AllocMW(verbs.MWType1))
	bind := func() verbs.Remote {
		whole := verbs.MWBindInfo{MW: mw, MR: to, Addr: to.Addr(), Length: page, Access: verbs.RemoteWrite}
		check(b.qp.BindMW(1, verbs.Signaled, whole))
		b.done()
		return verbs.Remote{Addr: to.Addr(), Key: mw.RKey()}
	}
	remote := bind()
	if mistake {
		bind()
	} else {
		remote = bind()
	}
	a.write(remote, all(from))
	a.next()
	check(mw.Close())
	check(to.Close())
	h.close()
}

// foreignPDLocal sends memory of another domain than the queue pair's.
func foreignPDLocal(mistake bool) {
	h := open()
	a, b := h.pair(verbs.QPInit{}, nil)
	other := must(h.dev.AllocPD())
	mr, to := must(other.AllocMR(page, access)), h.region(page)
	own := h.region(page)
	b.receive(all(to))
	if mistake {
		a.send(all(mr))
		a.next()
	} else {
		a.send(all(own))
		a.done()
		b.done()
	}
	check(mr.Close())
	check(other.Close())
	h.close()
}

// foreignPDRemote writes to a region of another domain than that of the peer's queue pair.
func foreignPDRemote(mistake bool) {
	h := open()
	a, _ := h.pair(verbs.QPInit{}, nil)
	other := must(h.dev.AllocPD())
	theirs, own, from := must(other.AllocMR(page, access)), h.region(page), h.region(page)
	if mistake {
		a.write(theirs.Remote(), all(from))
	} else {
		a.write(own.Remote(), all(from))
	}
	a.next()
	check(theirs.Close())
	check(other.Close())
	h.close()
}

// atomicAlignmentRemote adds to a number that does not begin at a multiple of 8.
func atomicAlignmentRemote(mistake bool) {
	h := open()
	a, _ := h.pair(verbs.QPInit{}, nil)
	result, counters := h.region(8), h.region(64)
	off := uint64(16)
	if mistake {
		off = 20
	}
	a.post(new(verbs.SendWR).FetchAdd(counters.Remote().At(off), 1, all(result)))
	a.next()
	h.close()
}

// atomicAlignmentLocal takes the result of an atomic to an address that is no multiple of 8.
func atomicAlignmentLocal(mistake bool) {
	h := open()
	a, _ := h.pair(verbs.QPInit{}, nil)
	result, counter := h.region(64), h.region(8)
	off := 8
	if mistake {
		off = 12
	}
	a.post(new(verbs.SendWR).CompareSwap(counter.Remote(), 0, 1, result.SGE(off, 8)))
	a.next()
	h.close()
}
