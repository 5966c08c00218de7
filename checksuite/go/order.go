// SPDX-License-Identifier: Apache-2.0

//go:build linux

package programs

import (
	"context"
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// raceWrites has two peers write to the same bytes, or to bytes beside each other.
func raceWrites(mistake bool) {
	h := open()
	a, _ := h.pair(verbs.QPInit{}, nil)
	c, _ := h.pair(verbs.QPInit{}, nil)
	one, two, to := h.region(page), h.region(page), h.region(2*page)
	copy(one.Bytes(), "one")
	copy(two.Bytes(), "two")
	off := page
	if mistake {
		off = page - 1
	}
	a.write(to.Remote(), all(one))
	c.write(to.Remote().At(uint64(off)), all(two))
	a.done()
	c.done()
	h.close()
}

// raceRead has one peer read memory that another is writing; the right program reads when the WRITE is complete.
func raceRead(mistake bool) {
	h := open()
	a, _ := h.pair(verbs.QPInit{}, nil)
	c, _ := h.pair(verbs.QPInit{}, nil)
	from, shared, to := h.region(large), h.region(large), h.region(large)
	a.write(shared.Remote(), all(from))
	if !mistake {
		a.done()
	}
	c.read(shared.Remote(), all(to))
	if mistake {
		a.done()
	}
	c.done()
	h.close()
}

// raceOwner has the owner send memory that a peer writes to, or other memory.
func raceOwner(mistake bool) {
	h := open()
	a, b := h.pair(verbs.QPInit{}, nil)
	from, shared, own, to := h.region(large), h.region(large), h.region(large), h.region(large)
	a.receive(all(to))
	a.write(shared.Remote(), all(from))
	if mistake {
		b.send(all(shared))
	} else {
		b.send(all(own))
	}
	b.done()
	a.done()
	a.done()
	h.close()
}

// announcedEarlyUnfenced sends the data of a READ before it, without a fence, or with it.
func announcedEarlyUnfenced(mistake bool) {
	h := open()
	a, b := h.pair(verbs.QPInit{}, nil)
	remote, data, to := h.region(page), h.region(page), h.region(page)
	b.receive(all(to))
	a.read(remote.Remote(), all(data))
	wr := new(verbs.SendWR).Send(all(data))
	if !mistake {
		wr.Flags |= verbs.Fence
	}
	a.post(wr)
	a.done()
	a.done()
	b.done()
	h.close()
}

// announcedEarlyOther announces a WRITE by immediate data on another queue pair, at once or after the completion.
func announcedEarlyOther(mistake bool) {
	h := open()
	a, _ := h.pair(verbs.QPInit{}, nil)
	c, d := h.pair(verbs.QPInit{}, nil)
	from, to := h.region(large), h.region(large)
	d.receive()
	a.write(to.Remote(), all(from))
	if !mistake {
		a.done()
	}
	c.post(new(verbs.SendWR).WriteImm(to.Remote(), 1))
	d.done()
	to.Do(func(b []byte) { _ = b[large-1] })
	if mistake {
		a.done()
	}
	c.done()
	h.close()
}

// partialPoll waits for a WRITE at the bytes that wait looks at, and reads all of it.
func partialPoll(wait func(ctx context.Context, mr *verbs.MR) error) {
	h := open()
	a, _ := h.pair(verbs.QPInit{}, nil)
	from, to := h.region(large), h.region(large)
	for i := range from.Bytes() {
		from.Bytes()[i] = 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a.write(to.Remote(), all(from))
	check(wait(ctx, to))
	sum := 0
	to.Do(func(b []byte) {
		for _, v := range b {
			sum += int(v)
		}
	})
	a.done()
	h.close()
}

// partialPollByte waits for a byte in the middle, or for the last.
func partialPollByte(mistake bool) {
	partialPoll(func(ctx context.Context, mr *verbs.MR) error {
		off := large - 1
		if mistake {
			off = large / 2
		}
		_, err := mr.WaitByte(ctx, off, 0)
		return err
	})
}

// partialPollWord waits for the first 8 bytes, or for the last.
func partialPollWord(mistake bool) {
	partialPoll(func(ctx context.Context, mr *verbs.MR) error {
		off := large - 8
		if mistake {
			off = 0
		}
		_, err := mr.WaitUint64(ctx, off, 0)
		return err
	})
}

// partialPollFor has a condition on the head of a message, or on its end.
func partialPollFor(mistake bool) {
	partialPoll(func(ctx context.Context, mr *verbs.MR) error {
		return mr.WaitFor(ctx, func(b []byte) bool {
			if mistake {
				return binary.BigEndian.Uint32(b) != 0
			}
			return b[len(b)-1] != 0
		})
	})
}

// queuePairOrderFlag writes data on one queue pair and its flag on another, or on the same.
func queuePairOrderFlag(mistake bool) {
	h := open()
	a, _ := h.pair(verbs.QPInit{}, nil)
	c, _ := h.pair(verbs.QPInit{}, nil)
	from, to, one, flag := h.region(large), h.region(large), h.region(8), h.region(8)
	one.Bytes()[0] = 1
	second := a
	if mistake {
		second = c
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a.write(to.Remote(), all(from))
	second.write(flag.Remote(), all(one))
	must(flag.WaitByte(ctx, 0, 0))
	to.Do(func(b []byte) { _ = b[large-1] })
	a.done()
	second.done()
	h.close()
}

// queuePairOrderTypes writes on a UC queue pair and announces on an RC one.
func queuePairOrderTypes(mistake bool) {
	h := open()
	a, b := h.pair(verbs.QPInit{Type: verbs.UC}, nil)
	c, d := h.pair(verbs.QPInit{}, nil)
	from, to, word := h.region(4*page), h.region(4*page), h.region(page)
	if !mistake {
		c, d = a, b
	}
	d.receive(word.SGE(0, 64))
	a.write(to.Remote(), all(from))
	c.send(word.SGE(64, 8))
	d.done()
	to.Do(func(b []byte) { _ = b[4*page-1] })
	a.done()
	c.done()
	h.close()
}
