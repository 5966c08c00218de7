// SPDX-License-Identifier: Apache-2.0

//go:build linux

package programs

import (
	"context"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// sendQueueUnsignaledWrites posts as many unsignaled WRITEs as the queue holds; the last of the right ones is signaled.
func sendQueueUnsignaledWrites(mistake bool) {
	h := open()
	a, _ := h.pair(verbs.QPInit{}, nil)
	from, to := h.region(page), h.region(page)
	n := a.qp.Query().Cap.MaxSendWR
	for i := range n {
		wr := new(verbs.SendWR).Write(to.Remote(), all(from))
		if !mistake && i == n-1 {
			a.post(wr)
			a.done()
		} else {
			a.postAs(wr)
		}
	}
	h.close()
}

// sendQueueUnsignaledInline posts inline SENDs. Their buffers are free at once, and their places in the queue are not.
func sendQueueUnsignaledInline(mistake bool) {
	h := open()
	a, b := h.pair(verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxInline: 32}}, nil)
	to := h.region(page)
	for i := range a.qp.Query().Cap.MaxSendWR {
		b.receive(all(to))
		wr := &verbs.SendWR{Op: verbs.OpSend, Inline: []byte("data")}
		if !mistake && i%4 == 3 {
			a.post(wr)
			a.done()
		} else {
			a.postAs(wr)
		}
		b.done()
	}
	h.close()
}

// cqOverflowShared has a completion queue for two queue pairs, with room for the receives of one, or of both.
func cqOverflowShared(mistake bool) {
	h := open()
	cqe := 32
	if mistake {
		cqe = 16
	}
	cq := must(h.dev.CreateCQ(cqe, nil))
	h.others = append(h.others, cq.Close)
	a, b := h.pair(verbs.QPInit{SendCQ: cq, RecvCQ: cq}, nil)
	to := h.region(page)
	for i := range 16 {
		a.receive(to.SGE(i*64, 64))
		b.receive(to.SGE(page/2+i*64, 64))
	}
	h.close()
}

// cqOverflowResize makes a completion queue smaller than the number of posted work requests.
func cqOverflowResize(mistake bool) {
	h := open()
	_, b := h.pair(verbs.QPInit{}, nil)
	to := h.region(page)
	for i := range 12 {
		b.receive(to.SGE(i*64, 64))
	}
	cqe := 12
	if mistake {
		cqe = 8
	}
	check(b.cq.Resize(cqe))
	h.close()
}

// rnrUnlimitedSend sends when no receive is posted, with retries without end; the right sender sees an error.
func rnrUnlimitedSend(mistake bool) {
	h := open()
	retry := uint8(1)
	if mistake {
		retry = 7
	}
	a, b := h.pair(verbs.QPInit{}, &verbs.ConnectOptions{RNRRetry: retry})
	from, to := h.region(page), h.region(page)
	a.send(all(from))
	if mistake {
		idle(a, b)
		b.receive(all(to))
		a.done()
		b.done()
	} else if wc := a.next(); wc.Status != verbs.StatusRNRRetryExceeded {
		fail(wc.Err())
	}
	h.close()
}

// rnrUnlimitedImm has receives for one of two WRITEs with immediate data, or for both.
func rnrUnlimitedImm(mistake bool) {
	h := open()
	a, b := h.pair(verbs.QPInit{}, nil)
	from, to := h.region(page), h.region(page)
	b.receive()
	if !mistake {
		b.receive()
	}
	for i := range uint32(2) {
		a.post(new(verbs.SendWR).WriteImm(to.Remote(), i, all(from)))
	}
	a.done()
	b.done()
	if mistake {
		idle(a, b)
		b.receive()
	}
	a.done()
	b.done()
	h.close()
}

// idle polls for a while, which moves packets, where no completion can come.
func idle(a, b side) {
	var wc [1]verbs.WC
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		if a.cq.Poll(wc[:])+b.cq.Poll(wc[:]) > 0 {
			fail(wc[0].Err())
		}
	}
}

// inlineLimit posts more inline data than was asked for. A device that grants more takes it.
func inlineLimit(mistake bool) {
	h := open()
	a, b := h.pair(verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxInline: 16}}, nil)
	to := h.region(page)
	data := []byte("sixteen bytes...")
	if mistake {
		data = append(data, " and more"...)
	}
	b.receive(all(to))
	if err := a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, Inline: data}); err == nil {
		a.done()
		b.done()
	}
	h.close()
}

// inlineLimitNone posts inline data on a queue pair that was created without any.
func inlineLimitNone(mistake bool) {
	h := open()
	init := verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}
	if !mistake {
		init.MaxInline = 8
	}
	a, _ := h.pair(verbs.QPInit{Cap: init, Exact: true}, nil) // otherwise 0 stands for the default
	to := h.region(page)
	wr := new(verbs.SendWR).Write(to.Remote())
	wr.Inline, wr.Flags = []byte("8 bytes."), verbs.Signaled
	if err := a.qp.PostSend(wr); err == nil {
		a.done()
	}
	h.close()
}

// rdAtomicDepth connects with more READs under way than the other side answers at once, or with as many.
func rdAtomicDepth(mistake bool) {
	h := open()
	a, b := h.side(verbs.QPInit{}), h.side(verbs.QPInit{})
	mine := uint8(2)
	if mistake {
		mine = 8
	}
	connect(a, b, &verbs.ConnectOptions{RdAtomic: mine}, &verbs.ConnectOptions{RdAtomic: 2})
	from, to := h.region(page), h.region(page)
	a.read(from.Remote(), all(to))
	a.next()
	h.close()
}

// datagram sends 64 bytes of from to the receives that b has posted.
func (h *host) datagram(a, b side, from verbs.SGE) {
	ah := must(h.pd.CreateAH(must(a.qp.Endpoint(0)).To(must(b.qp.Endpoint(0)), 0)))
	a.post(new(verbs.SendWR).Send(from).To(ah, b.qp.Num(), qkey))
	a.done()
	check(ah.Close())
}

// udGRHRoom posts a receive without the 40 bytes of the GRH, or with them.
func udGRHRoom(mistake bool) {
	h := open()
	a, b := h.pair(verbs.QPInit{Type: verbs.UD}, nil)
	from, to := h.region(page), h.region(page)
	n := 64 + grh
	if mistake {
		n = 64
	}
	b.receive(to.SGE(0, n))
	h.datagram(a, b, from.SGE(0, 64))
	if mistake {
		idle(a, b)
	} else {
		b.done()
	}
	h.close()
}

// udGRHRead sends a datagram on with its GRH, or without.
func udGRHRead(mistake bool) {
	h := open()
	a, b := h.pair(verbs.QPInit{Type: verbs.UD}, nil)
	c, d := h.pair(verbs.QPInit{}, nil)
	from, middle, to := h.region(page), h.region(page), h.region(page)
	b.receive(middle.SGE(0, 64+grh))
	d.receive(all(to))
	h.datagram(a, b, from.SGE(0, 64))
	b.done()
	off := grh
	if mistake {
		off = 0
	}
	c.send(middle.SGE(off, 64))
	c.done()
	d.done()
	h.close()
}

// rescued waits for a channel. When nothing has come for a while, it calls f and waits again.
func rescued(ch *verbs.CompChannel, f func()) {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := ch.Wait(ctx); err == nil {
		return
	}
	f()
	again, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	must(ch.Wait(again))
}

// withChannel is a connected pair. Completions of the second side are announced at the channel.
func (h *host) withChannel() (a, b side, ch *verbs.CompChannel) {
	ch = must(h.dev.CreateCompChannel())
	h.others = append(h.others, ch.Close)
	cq := must(h.dev.CreateCQ(64, &verbs.CQOptions{Channel: ch}))
	h.others = append(h.others, cq.Close)
	a, b = h.side(verbs.QPInit{}), h.side(verbs.QPInit{SendCQ: cq, RecvCQ: cq})
	connect(a, b, nil, nil)
	return a, b, ch
}

// channelUnarmedNever waits for a completion queue that was never armed.
func channelUnarmedNever(mistake bool) {
	h := open()
	a, b, ch := h.withChannel()
	from, to := h.region(page), h.region(page)
	b.receive(all(to))
	if !mistake {
		check(b.cq.ReqNotify(false))
	}
	a.send(all(from))
	rescued(ch, func() {
		check(b.cq.ReqNotify(false))
		b.receive(all(to))
		a.send(all(from))
	})
	drain(b)
	drain(a)
	h.close()
}

// channelUnarmedLate arms after the completion has come, and waits without polling; the right one polls first.
func channelUnarmedLate(mistake bool) {
	h := open()
	a, b, ch := h.withChannel()
	from, to := h.region(page), h.region(page)
	b.receive(to.SGE(0, 64))
	b.receive(to.SGE(64, 64))
	a.send(from.SGE(0, 64))
	a.done()
	check(b.cq.ReqNotify(false))
	n := 0
	if !mistake {
		n = drain(b)
	}
	if n == 0 {
		rescued(ch, func() { a.send(from.SGE(0, 64)) })
	}
	drain(b)
	drain(a)
	h.close()
}

// drain polls until the queue is empty.
func drain(s side) (n int) {
	var wc [4]verbs.WC
	for {
		got := s.cq.Poll(wc[:])
		if got <= 0 {
			return n
		}
		n += got
	}
}
