// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/rnet"
)

// runRnet copies bytes over streams, both ways at once.
func runRnet(w *world) error {
	rounds, size := 1+w.rand.IntN(3), someSize(w.rand, 300<<10)
	opt := rnet.Options{Spin: time.Duration(w.rand.IntN(2) - 1), LockedThread: true}
	if w.rand.IntN(2) == 0 {
		opt.SendBuffer, opt.RecvBuffer = 1<<(10+w.rand.IntN(8)), 1<<(10+w.rand.IntN(8))
	}
	seeds := [2]uint64{w.rand.Uint64(), w.rand.Uint64()}
	w.tell(", %d connections of %d bytes each way, buffers of %d and %d", rounds, size, opt.SendBuffer, opt.RecvBuffer)
	listening := make(chan error, 1)
	return w.all(func(ctx context.Context, side int) error {
		s := &rnetSide{w: w, num: side, rand: rand.New(rand.NewPCG(seeds[side], 3)), size: size}
		if side == 0 {
			lc := rnet.ListenConfig{Device: w.devs[0], Options: opt}
			l, err := lc.Listen(ctx, ":9")
			listening <- err
			if err != nil {
				return err
			}
			stop := context.AfterFunc(ctx, func() { l.Close() })
			defer stop()
			defer l.Close()
			for range rounds {
				s.at("accepting")
				c, err := l.Accept()
				if err != nil {
					return err
				}
				if err := s.copy(c); err != nil {
					return err
				}
			}
			return nil
		}
		if err := <-listening; err != nil {
			return nil // the other side reports it
		}
		d := rnet.Dialer{Device: w.devs[1], Options: opt, Timeout: time.Minute}
		for range rounds {
			s.at("dialing")
			c, err := d.DialContext(ctx, "rdma", w.hosts[0].Addr().String()+":9")
			if err != nil {
				return err
			}
			if err := s.copy(c); err != nil {
				return err
			}
		}
		return nil
	})
}

// rnetSide is one side.
type rnetSide struct {
	w    *world
	num  int
	rand *rand.Rand
	size int
}

func (s *rnetSide) at(what string) { s.w.at(s.num, what) }

// copy writes its bytes, reads the peer's, and closes.
func (s *rnetSide) copy(c net.Conn) error {
	c.SetDeadline(time.Now().Add(limit / 2))
	chunks := rand.New(rand.NewPCG(s.rand.Uint64(), 4)) // of the goroutine that writes
	var writer sync.WaitGroup
	var writeErr error
	writer.Go(func() {
		b := make([]byte, s.size)
		stamp(b, s.num, 0)
		for len(b) > 0 && writeErr == nil {
			n := min(len(b), 1+someSize(chunks, 1<<16))
			_, writeErr = c.Write(b[:n])
			b = b[n:]
			if chunks.IntN(8) == 0 {
				s.w.net.Sleep(time.Duration(chunks.IntN(300_000)))
			}
		}
		if writeErr == nil {
			writeErr = c.(*rnet.Conn).CloseWrite()
		}
	})
	s.at("reading")
	var got []byte
	var err error
	b := make([]byte, 1<<16)
	for err == nil {
		var n int
		n, err = c.Read(b[:1+someSize(s.rand, len(b)-1)])
		got = append(got, b[:n]...)
		if s.rand.IntN(8) == 0 {
			s.w.net.Sleep(time.Duration(s.rand.IntN(300_000)))
		}
	}
	if err == io.EOF {
		err = nil
	}
	s.at("writing")
	writer.Wait()
	want := make([]byte, s.size)
	stamp(want, 1-s.num, 0)
	switch {
	case len(got) > len(want) || string(got) != string(want[:len(got)]):
		return wrongf("%d bytes are not those that were written", len(got))
	case err == nil && len(got) < len(want) && !s.w.fatal:
		return wrongf("the end comes after %d bytes of %d", len(got), len(want))
	}
	s.at("closing")
	closeErr := c.Close()
	if err != nil || writeErr != nil {
		closeErr = nil
	}
	return errors.Join(err, writeErr, closeErr)
}
